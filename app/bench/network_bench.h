#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hdfnet::bench {

/// Adds `network`: the engine and the frozen TorchScript of the same archive, timed pass by pass in
/// turn on the same device, and the peak resident memory of each in a process of its own. `run` is
/// set when the subcommand is chosen.
void add_network_command(CLI::App& app, std::function<int()>& run);

}  // namespace hdfnet::bench
