#include "options/values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace hdfnet::app {
namespace {

template <class Enum>
struct Choices;  // the spelling of each value of an enumeration

template <>
struct Choices<Precision> {
  static constexpr std::array<std::pair<const char*, Precision>, 5> table{
      {{"auto", Precision::automatic},
       {"fp32", Precision::fp32},
       {"tf32", Precision::tf32},
       {"fp16", Precision::fp16},
       {"bf16", Precision::bf16}}};
};
template <>
struct Choices<Ddpm> {
  static constexpr std::array<std::pair<const char*, Ddpm>, 2> table{
      {{"fused", Ddpm::fused}, {"reference", Ddpm::reference}}};
};
template <>
struct Choices<Upsample> {
  static constexpr std::array<std::pair<const char*, Upsample>, 2> table{
      {{"bilinear", Upsample::bilinear}, {"nearest", Upsample::nearest}}};
};
template <>
struct Choices<Rounding> {
  static constexpr std::array<std::pair<const char*, Rounding>, 2> table{
      {{"nearest", Rounding::nearest}, {"truncate", Rounding::truncate}}};
};
template <>
struct Choices<Save> {
  static constexpr std::array<std::pair<const char*, Save>, 5> table{{{"map", Save::map},
                                                                      {"overlay", Save::overlay},
                                                                      {"cutout", Save::cutout},
                                                                      {"heatmap", Save::heatmap},
                                                                      {"mask", Save::mask}}};
};

std::string quoted(const std::string& text) {
  return "'" + text + "'";
}

template <class Enum>
Enum parse_choice(const std::string& text) {
  std::vector<std::string> names;
  for (const auto& [name, value] : Choices<Enum>::table) {
    if (text == name) return value;
    names.push_back(name);
  }
  throw ValueError(quoted(text) + " is not one of " + listing(names));
}

template <class Enum>
std::string print_choice(Enum wanted) {
  for (const auto& [name, value] : Choices<Enum>::table) {
    if (value == wanted) return name;
  }
  return {};
}

/// The whole of `text` as a number, or nothing.
template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> finite_number(std::string_view text) {
  const std::optional<double> value = number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

/// A value read by one of the image library's functions.
template <class Value>
Value parsed_by(Value (*parse)(std::string_view), const std::string& text) {
  try {
    return parse(text);
  } catch (const std::invalid_argument& error) {
    throw ValueError(error.what());
  }
}

}  // namespace

std::string listing(const std::vector<std::string>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) text += i + 1 == choices.size() ? " or " : ", ";
    text += choices[i];
  }
  return text;
}

void parse_value(const std::string& text, bool& value) {
  if (text != "true" && text != "false") {
    throw ValueError(quoted(text) + " is neither true nor false");
  }
  value = text == "true";
}

void parse_value(const std::string& text, int& value) {
  const std::optional<int> parsed = number<int>(text);
  if (!parsed || *parsed < 0) throw ValueError(quoted(text) + " is not a whole number from 0 up");
  value = *parsed;
}

void parse_value(const std::string& text, double& value) {
  const std::optional<double> parsed = finite_number(text);
  if (!parsed) throw ValueError(quoted(text) + " is not a number");
  value = *parsed;
}

void parse_value(const std::string& text, std::string& value) {
  value = text;
}
void parse_value(const std::string& text, std::filesystem::path& value) {
  value = text;
}
void parse_value(const std::string& text, Precision& value) {
  value = parse_choice<Precision>(text);
}
void parse_value(const std::string& text, Ddpm& value) {
  value = parse_choice<Ddpm>(text);
}
void parse_value(const std::string& text, Upsample& value) {
  value = parse_choice<Upsample>(text);
}
void parse_value(const std::string& text, Rounding& value) {
  value = parse_choice<Rounding>(text);
}

void parse_value(const std::string& text, std::vector<Save>& value) {
  std::vector<Save> parsed;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const Save save = parse_choice<Save>(text.substr(begin, end - begin));
    if (std::find(parsed.begin(), parsed.end(), save) == parsed.end()) parsed.push_back(save);
    begin = end + 1;
  }
  value = std::move(parsed);
}

void parse_value(const std::string& text, InputSize& value) {
  constexpr int smallest = 32, largest = 8192;
  const std::size_t cross = text.find('x');
  const auto width = number<int>(std::string_view(text).substr(0, cross));
  const auto height =
      cross == std::string::npos ? width : number<int>(std::string_view(text).substr(cross + 1));
  const InputSize size{width.value_or(0), height.value_or(0)};
  const auto fits = [](int side) { return side >= smallest && side <= largest; };
  if (!fits(size.width) || !fits(size.height)) {
    throw ValueError(quoted(text) +
                     " is not a size: one side, or WIDTHxHEIGHT, each from 32 to 8192");
  }
  value = size;
}

void parse_value(const std::string& text, AutoCount& value) {
  if (text == "auto") {
    value = {};
    return;
  }
  const std::optional<int> parsed = number<int>(text);
  if (!parsed || *parsed < 1 || *parsed > 65536) {
    throw ValueError(quoted(text) + " is neither 'auto' nor a whole number from 1 to 65536");
  }
  value.value = parsed;
}

void parse_value(const std::string& text, std::optional<Threshold>& value) {
  if (text == "none") {
    value = std::nullopt;
  } else {
    value = parsed_by(parse_threshold, text);
  }
}

void parse_value(const std::string& text, DepthRange& value) {
  value = parsed_by(parse_depth_range, text);
}

void parse_value(const std::string& text, DepthHole& value) {
  value = parsed_by(parse_depth_hole, text);
}

void parse_value(const std::string& text, ShardChoice& value) {
  if (text == "auto") {
    value = {true, 0, 1};
    return;
  }
  const std::size_t slash = text.find('/');
  const auto index = number<int>(std::string_view(text).substr(0, slash));
  const auto count = slash == std::string::npos
                         ? std::nullopt
                         : number<int>(std::string_view(text).substr(slash + 1));
  if (!index || !count || *count < 1 || *index < 0 || *index >= *count) {
    throw ValueError(quoted(text) +
                     " is neither 'auto' nor I/N with I from 0 to N-1 (0/4, 1/4, 2/4, 3/4)");
  }
  value = {false, *index, *count};
}

std::string print_value(bool value) {
  return value ? "true" : "false";
}
std::string print_value(int value) {
  return std::to_string(value);
}
std::string print_value(double value) {
  std::array<char, 32> text{};  // the shortest text that reads back to the same double
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::string(text.data(), end) : std::string();
}
std::string print_value(const std::string& value) {
  return value;
}
std::string print_value(const std::filesystem::path& value) {
  return value.string();
}
std::string print_value(Precision value) {
  return print_choice(value);
}
std::string print_value(Ddpm value) {
  return print_choice(value);
}
std::string print_value(Upsample value) {
  return print_choice(value);
}
std::string print_value(Rounding value) {
  return print_choice(value);
}
std::string print_value(Save value) {
  return print_choice(value);
}

std::string print_value(const std::vector<Save>& value) {
  std::string text;
  for (const Save save : value) text += (text.empty() ? "" : ",") + print_choice(save);
  return text;
}

std::string print_value(const InputSize& value) {
  if (value.width == value.height) return std::to_string(value.width);
  return std::to_string(value.width) + "x" + std::to_string(value.height);
}

std::string print_value(const AutoCount& value) {
  return value.value ? std::to_string(*value.value) : "auto";
}

std::string print_value(const std::optional<Threshold>& value) {
  if (!value) return "none";
  return value->otsu ? "otsu" : print_value(value->value);
}

std::string print_value(const DepthRange& value) {
  switch (value.kind) {
    case DepthRange::Kind::automatic:
      return "auto";
    case DepthRange::Kind::none:
      return "none";
    case DepthRange::Kind::minmax:
      return "minmax";
    case DepthRange::Kind::fixed:
      break;
  }
  return print_value(value.low) + ":" + print_value(value.high);
}

std::string print_value(const DepthHole& value) {
  return value.kind == DepthHole::Kind::none ? "none" : print_value(value.value);
}

std::string print_value(const ShardChoice& value) {
  if (value.automatic) return "auto";
  return std::to_string(value.index) + "/" + std::to_string(value.count);
}

}  // namespace hdfnet::app
