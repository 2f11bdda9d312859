#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hdfnet::app {

/// What NVIDIA's driver says, asked directly (libcuda.so.1, loaded when it is there), so that the
/// answer does not depend on how this program or LibTorch was built.
int cuda_device_count();

struct CudaDevice {
  std::string name;
  int capability = 0;  ///< compute capability, 90 for 9.0; 0: not known
  /// Compute capability, clock, multiprocessors, memory, driver version.
  std::vector<std::pair<std::string, std::string>> facts;
};
CudaDevice cuda_device(int index);

}  // namespace hdfnet::app
