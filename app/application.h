#pragma once

#include <istream>
#include <ostream>
#include <string>
#include <vector>

#include "network.h"

namespace hdfnet::app {

/// Where the program reads and writes.
struct Streams {
  std::istream& in;
  std::ostream& out;      ///< results
  std::ostream& err;      ///< messages and progress
  bool terminal = false;  ///< err is one
};

/// What the process returns; 128 + the signal's number when one stopped the run.
namespace exit_status {
inline constexpr int ok = 0;
inline constexpr int some_failed = 1;  ///< a pair failed, has no depth, or is off by the tolerance
inline constexpr int cannot_run = 2;   ///< usage, configuration, weights, device
}  // namespace exit_status

/// The whole program but for the process itself: arguments without the program's name in, exit
/// status out.
int run_application(const std::vector<std::string>& arguments, NetworkProvider& provider,
                    const Streams& streams);

}  // namespace hdfnet::app
