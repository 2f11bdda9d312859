#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

#include "options/options.h"

namespace hdfnet::app {

/// The command line or the configuration cannot be used. The message is a whole sentence.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Sets every option that the YAML file names. Paths in it are relative to the current folder, as
/// on the command line. Throws UsageError that names file, line and key.
void apply_config_file(const std::filesystem::path& file, Options& options);

/// The same for YAML in memory; `source` is what errors call it.
void apply_config(const std::string& yaml, const std::string& source, Options& options);

/// All settings that may stand in a file, as YAML that apply_config() reads back to the same.
std::string print_config(const Options& options);

}  // namespace hdfnet::app
