#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hdfnet::bench {

/// Adds `compare A.json B.json`: what changed between two reports. `run` is set when the subcommand
/// is chosen.
void add_compare_command(CLI::App& app, std::function<int()>& run);

}  // namespace hdfnet::bench
