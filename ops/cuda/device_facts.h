#pragma once

// What the host asks before a launch.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace hdfnet::ops::cuda {

/// The current device.
struct DeviceFacts {
  int processors = 0;  ///< multiprocessors
  int major = 0;       ///< of the compute capability
  int minor = 0;
  int shared_of_block = 0;           ///< bytes of shared memory that a block may ask for
  int shared_of_multiprocessor = 0;  ///< and that its blocks share

  /// mma and ldmatrix for two-byte types, cp.async.
  bool is_ampere_or_later() const { return major >= 8; }
  /// wgmma, which is built for 90a.
  bool is_hopper() const { return major == 9 && minor == 0; }
};

inline cudaError_t ask(DeviceFacts* device) {
  int index = 0;
  cudaError_t error = cudaGetDevice(&index);
  const auto read = [&](int* value, cudaDeviceAttr attribute) {
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(value, attribute, index);
  };
  read(&device->processors, cudaDevAttrMultiProcessorCount);
  read(&device->major, cudaDevAttrComputeCapabilityMajor);
  read(&device->minor, cudaDevAttrComputeCapabilityMinor);
  read(&device->shared_of_block, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  read(&device->shared_of_multiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  return error;
}

/// The same, zeros where it cannot be asked: then nothing can run there.
inline DeviceFacts current_device() {
  DeviceFacts device;
  return ask(&device) == cudaSuccess ? device : DeviceFacts();
}

/// Whether 16-byte accesses may begin there.
inline bool aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

}  // namespace hdfnet::ops::cuda
