#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "options/options.h"

namespace hdfnet::app {

/// What a value looks like in YAML.
enum class OptionKind {
  flag,    ///< true or false; on the command line the bare name means true
  scalar,  ///< one number or text
  list,    ///< a sequence, or one text with commas
};

/// One option. The command line, the YAML keys, --help, --print-config and the suggestions for
/// misspelt names are all made from the table of these.
struct OptionSpec {
  std::string name;   ///< `depth-suffix`: the YAML key; the flag is `--depth-suffix`
  std::string group;  ///< heading in --help
  std::string value;  ///< what stands for the value in --help; empty for flags
  std::string help;
  OptionKind kind = OptionKind::scalar;
  bool in_file = true;  ///< false: only makes sense on the command line
  std::function<void(Options&, const std::string&)> set;  ///< throws ValueError
  std::function<std::string(const Options&)> get;         ///< empty: not set
};

const std::vector<OptionSpec>& option_table();

/// The option of that name, or null.
const OptionSpec* find_option(std::string_view name);

/// Names of the options, for suggestions.
std::vector<std::string> option_names(bool in_file_only);

}  // namespace hdfnet::app
