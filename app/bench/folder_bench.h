#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hdfnet::bench {

/// Adds `folder`: hdfnet-infer's way through a folder of pairs with a network that answers at once,
/// so that what is timed is the reading and the writing alone, on as many threads. `run` is set
/// when the subcommand is chosen, and returns the exit status.
void add_folder_command(CLI::App& app, std::function<int()>& run);

}  // namespace hdfnet::bench
