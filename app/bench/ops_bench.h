#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace hdfnet::bench {

/// Adds the subcommand `ops` to `app`; when it is chosen, `run` becomes what it does. Each of its
/// options that describes a case takes a list, and every combination is timed. `run` returns the
/// exit status.
void add_ops_command(CLI::App& app, std::function<int()>& run);

}  // namespace hdfnet::bench
