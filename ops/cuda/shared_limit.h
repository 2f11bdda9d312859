#pragma once

#include <cuda_runtime_api.h>

namespace hdfnet::ops::cuda {

/// Lets `kernel` be launched with `bytes` of dynamic shared memory on the current device; whoever
/// launches it asks each time. The limit belongs to the kernel and not to a launch, and another
/// thread may be about to launch it with more: so it only ever rises. (Small amounts need a limit,
/// too, where the kernel has shared memory of its own: 48 KiB without one is for both.)
cudaError_t allow_shared_memory(const void* kernel, int bytes);

template <typename... Parameters>
cudaError_t allow_shared_memory(void (*kernel)(Parameters...), int bytes) {
  return allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes);
}

}  // namespace hdfnet::ops::cuda
