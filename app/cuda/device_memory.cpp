#include "cuda/device_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

namespace hdfnet::app::cuda {

std::size_t free_memory(c10::Device device) {
  const c10::cuda::CUDAGuard guard(device);
  std::size_t free = 0, total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  const auto held = stats.reserved_bytes.at(0).current - stats.allocated_bytes.at(0).current;
  return free + static_cast<std::size_t>(held);
}

}  // namespace hdfnet::app::cuda
