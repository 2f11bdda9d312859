#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace hdfnet::eval {

/// hdfnet-eval: `arguments` without the program's name; results go to `out`, messages to `err`.
/// Returns the exit status: 0 every mask scored; 1 some mask had no usable map; 2 usage or no work.
int run(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace hdfnet::eval
