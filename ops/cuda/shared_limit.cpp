#include "cuda/shared_limit.h"

#include <map>
#include <mutex>
#include <utility>

namespace hdfnet::ops::cuda {
namespace {

struct Limits {
  std::mutex mutex;
  std::map<std::pair<int, const void*>, int> bytes;  ///< by device and kernel
};

}  // namespace

cudaError_t allow_shared_memory(const void* kernel, int bytes) {
  static auto* const limits = new Limits;  // for ever: threads may outlive static objects
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  const std::lock_guard lock(limits->mutex);
  int& allowed = limits->bytes[{device, kernel}];
  if (bytes <= allowed) return cudaSuccess;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error == cudaSuccess) allowed = bytes;
  return error;
}

}  // namespace hdfnet::ops::cuda
