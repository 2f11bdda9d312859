#pragma once

// What nvcc knows without a header.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>

#include <bit>
#include <cmath>
#include <cstring>

// NOLINTBEGIN(bugprone-reserved-identifier): the names are CUDA's

inline uint3 threadIdx;
inline uint3 blockIdx;
inline dim3 blockDim;
inline dim3 gridDim;

// Blocks run one after another.
#undef __shared__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__
#undef __forceinline__
#define __forceinline__ inline

#define __builtin_assume(condition) static_cast<void>(0)

inline void __syncthreads() {
  hdfnet::emulated::synchronize_block();
}
inline void __syncwarp() {
  hdfnet::emulated::synchronize_warp();
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  static_cast<void>(mask);  // always all
  static_assert(sizeof(T) % 4 == 0);
  T all[32];
  hdfnet::emulated::exchange_in_warp(&value, sizeof(T), all);
  return all[hdfnet::emulated::lane() ^ lanes];
}

inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{high} << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned byte = static_cast<unsigned>(bytes >> (selector >> 4 * i & 7u) * 8) & 255u;
    result |= byte << 8 * i;
  }
  return result;
}

inline unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}
inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (shift & 31u));
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}

template <typename T>
T __ldg(const T* address) {
  return *address;
}
template <typename T>
T __ldcs(const T* address) {
  return *address;
}

template <typename... Parameters>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                          void (*kernel)(Parameters...),
                                                          int threads, size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      blocks, reinterpret_cast<const void*>(kernel), threads, shared_bytes);
}

// NOLINTEND(bugprone-reserved-identifier)

using std::isfinite;
using std::isnan;
using std::max;
using std::min;
