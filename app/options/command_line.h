#pragma once

#include <string>
#include <vector>

#include "options/config_file.h"
#include "options/options.h"

namespace hdfnet::app {

/// What --help prints.
std::string help_text();

struct CommandLine {
  Options options;
  bool help = false;
};

/// Options from the arguments (without the program's name) and the file that --config names: the
/// command line wins over the file, the file over the defaults. Throws UsageError.
CommandLine parse_command_line(const std::vector<std::string>& arguments);

}  // namespace hdfnet::app
