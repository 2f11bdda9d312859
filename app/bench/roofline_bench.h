#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hdfnet::bench {

/// Adds `roofline`: why a step of few operations can take as long as one of many. `run` is set when
/// the subcommand is chosen.
void add_roofline_command(CLI::App& app, std::function<int()>& run);

}  // namespace hdfnet::bench
