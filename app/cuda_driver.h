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
  /// Compute capability, clock, multiprocessors, memory, driver version.
  std::vector<std::pair<std::string, std::string>> facts;
};
CudaDevice cuda_device(int index);

}  // namespace hdfnet::app
