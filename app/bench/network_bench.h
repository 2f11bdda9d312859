#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hdfnet::bench {

/// Adds `network`: the engine and the frozen TorchScript of the same archives, timed pass by pass
/// in turn on the same device, and the peak memory of each in a process of its own (the device's on
/// CUDA, else the resident memory). Options that describe a case take lists. `run` is set when the
/// subcommand is chosen, and returns the exit status.
void add_network_command(CLI::App& app, std::function<int()>& run);

}  // namespace hdfnet::bench
