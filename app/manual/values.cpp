#include "manual/values.h"

#include <algorithm>
#include <sstream>

namespace hdfnet::app {
namespace {

/// "cpu" and "fp16" are to be typed as they are; "N" and "cuda:N" stand for something.
bool is_word(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  });
}

}  // namespace

ValueHint value_hint(const OptionSpec& spec) {
  if (spec.value == "FILE" || spec.value == "PATH") return {ValueHint::Kind::file, {}};
  if (spec.value == "DIR") return {ValueHint::Kind::folder, {}};
  ValueHint hint;
  std::istringstream parts(spec.value);
  for (std::string part; std::getline(parts, part, '|');) {
    if (is_word(part)) hint.words.push_back(part);
  }
  if (!hint.words.empty()) hint.kind = ValueHint::Kind::words;
  return hint;
}

}  // namespace hdfnet::app
