#include "options/config_file.h"

#include <yaml-cpp/binary.h>
#include <yaml-cpp/yaml.h>

#include <fstream>
#include <map>
#include <sstream>

#include "options/nearest.h"
#include "options/option_table.h"
#include "text/printable.h"
#include "text/utf8.h"

namespace hdfnet::app {
namespace {

constexpr std::size_t largest_file = 1 << 20;
constexpr const char* binary_tag = "tag:yaml.org,2002:binary";

/// Where in which file something stands; makes the errors.
struct Place {
  std::string source;
  int line = 0;

  [[noreturn]] void fail(const std::string& message) const {
    throw UsageError(source + ":" + std::to_string(line) + ": " + sentence(message));
  }
};

int line_of(const YAML::Node& node) {
  return node.Mark().line + 1;
}

std::string kind_of(const YAML::Node& node) {
  if (node.IsMap()) return "a mapping";
  if (node.IsSequence()) return "a list";
  return "the text '" + node.Scalar() + "'";
}

std::string expectation(const OptionSpec& spec) {
  switch (spec.kind) {
    case OptionKind::flag:
      return "true or false";
    case OptionKind::list:
      return "a list or a text with commas";
    case OptionKind::scalar:
      break;
  }
  return "one value (" + spec.value + ")";
}

std::string scalar_text(const YAML::Node& node) {
  if (node.Tag() != binary_tag) return node.Scalar();
  const std::vector<unsigned char> bytes = YAML::DecodeBase64(node.Scalar());
  return {bytes.begin(), bytes.end()};
}

/// The option's value as the command line would spell it.
std::string value_text(const OptionSpec& spec, const YAML::Node& node, const Place& place) {
  if (node.IsScalar()) return scalar_text(node);
  if (node.IsSequence() && spec.kind == OptionKind::list) {
    std::string text;
    for (const YAML::Node& item : node) {
      if (!item.IsScalar()) place.fail(spec.name + ": expected plain values in the list");
      text += (text.empty() ? "" : ",") + item.Scalar();
    }
    return text;
  }
  place.fail(spec.name + ": expected " + expectation(spec) + ", found " + kind_of(node));
}

const OptionSpec& option_of(const std::string& key, const Place& place) {
  const OptionSpec* spec = find_option(key);
  if (spec == nullptr) {
    place.fail("unknown key '" + key + "'; did you mean '" + nearest(key, option_names(true)) +
               "'?  --help lists every option");
  }
  if (!spec->in_file) place.fail("'" + key + "' can only be given on the command line");
  return *spec;
}

void apply_entry(const YAML::Node& key_node, const YAML::Node& value, const std::string& source,
                 std::map<std::string, int>& seen, Options& options) {
  const Place place{source, line_of(key_node)};
  if (!key_node.IsScalar()) place.fail("a key must be the name of an option");
  const std::string& key = key_node.Scalar();
  const OptionSpec& spec = option_of(key, place);
  const auto [earlier, is_new] = seen.emplace(key, place.line);
  if (!is_new) {
    place.fail("'" + key + "' was set before, in line " + std::to_string(earlier->second));
  }
  if (value.IsNull()) return;  // `key:` alone leaves the default, as --print-config writes it
  const std::string text = value_text(spec, value, place);
  try {
    spec.set(options, text);
  } catch (const ValueError& error) {
    place.fail(spec.name + ": " + error.what());
  }
}

/// The value as YAML that reads back to the same text.
std::string yaml_scalar(const std::string& text) {
  if (text.empty()) return "null";
  YAML::Emitter out;
  // YAML is Unicode; a path that is not goes in as bytes.
  if (!is_utf8(text)) {
    out << YAML::Binary(reinterpret_cast<const unsigned char*>(text.data()), text.size());
    return out.c_str();
  }
  // Quotes unless the text is plainly a word or a number, so that no reader takes `1:2`, `a: b` or
  // a comment's sign for something else.
  const bool plain = text.find_first_not_of(
                         "0123456789abcdefghijklmnopqrstuvwxyz"
                         "ABCDEFGHIJKLMNOPQRSTUVWXYZ_./") == std::string::npos;
  if (!plain) out << YAML::DoubleQuoted;
  out << text;
  return out.c_str();
}

/// A comment of lines of at most 100 characters.
std::string comment(const std::string& text) {
  constexpr std::size_t width = 98;
  std::string result, line;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      result += "# " + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return result + "# " + line + "\n";
}

}  // namespace

void apply_config(const std::string& yaml, const std::string& source, Options& options) {
  try {
    const YAML::Node root = YAML::Load(yaml);
    if (root.IsNull() || !root.IsDefined()) return;
    if (!root.IsMap()) {
      Place{source, line_of(root)}.fail("expected lines of the form 'key: value', found " +
                                        kind_of(root));
    }
    std::map<std::string, int> seen;
    for (const auto& entry : root) apply_entry(entry.first, entry.second, source, seen, options);
  } catch (const YAML::Exception& error) {
    Place{source, error.mark.line + 1}.fail("not valid YAML: " + error.msg);
  }
}

void apply_config_file(const std::filesystem::path& file, Options& options) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    throw UsageError("The configuration " + file.string() + " is a folder; give a YAML file.");
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    throw UsageError("The configuration " + file.string() +
                     " cannot be opened; check the path given with --config.");
  }
  std::string text(largest_file + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > largest_file) {
    throw UsageError("The configuration " + file.string() +
                     " is larger than 1 MiB, so it is hardly a list of settings.");
  }
  apply_config(text, file.string(), options);
}

std::string print_config(const Options& options) {
  std::string text, group;
  for (const OptionSpec& spec : option_table()) {
    if (!spec.in_file) continue;
    if (spec.group != group) {
      group = spec.group;
      text += (text.empty() ? "#### " : "\n#### ") + group + "\n";
    }
    text += "\n" + comment(spec.value.empty() ? spec.help : spec.value + ": " + spec.help);
    text += spec.name + ": " + yaml_scalar(spec.get(options)) + "\n";
  }
  return text;
}

}  // namespace hdfnet::app
