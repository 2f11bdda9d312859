#pragma once

#include <string>

namespace hdfnet::ops {

/// The LibTorch whose headers the library was compiled with, "2.11.0". Its C++ interfaces stay the
/// same within a minor version only.
std::string torch_compiled_for();

struct RunningTorch {
  std::string version;  ///< "2.11.0"; empty where it does not say
  std::string file;     ///< where it was loaded from; may be empty
};
RunningTorch torch_running();

/// A sentence with what was found, what is needed and what to do; empty where the two versions
/// agree in major and minor, or where the running one is unknown.
std::string torch_version_fault(const std::string& compiled_for, const RunningTorch& running);

}  // namespace hdfnet::ops
