#pragma once

#include <string>
#include <vector>

#include "options/option_table.h"

namespace hdfnet::app {

/// What a shell can offer for an option's value.
struct ValueHint {
  enum class Kind { none, words, file, folder };
  Kind kind = Kind::none;
  std::vector<std::string> words;
};

/// Told from what stands for the value in --help: FILE and PATH, DIR, or words such as auto|cpu.
ValueHint value_hint(const OptionSpec& spec);

}  // namespace hdfnet::app
