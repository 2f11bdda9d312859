#pragma once

// From a warpgroup's products to memory: of every eight outputs (a chunk) of a row, a lane of four
// has two neighbouring ones; 16-byte accesses want all eight in one lane.

#include <cstdint>

#include "cuda/scalar.cuh"

namespace hdfnet::ops::cuda {

template <typename T>
__device__ __forceinline__ uint32_t pack(float first, float second) {
  const T pair[2] = {from_sum<T>(first), from_sum<T>(second)};
  return *reinterpret_cast<const uint32_t*>(pair);
}

template <typename T>
__device__ __forceinline__ void unpack(uint32_t bits, float (&to)[2]) {
  const T* const pair = reinterpret_cast<const T*>(&bits);
  to[0] = to_sum(pair[0]);
  to[1] = to_sum(pair[1]);
}

/// Two neighbouring values, aligned to both.
template <typename T>
__device__ __forceinline__ void unpack(const T* from, float (&to)[2]) {
  unpack<T>(*reinterpret_cast<const uint32_t*>(from), to);
}

/// Lane q of each four gives piece i in v[i], and gets piece q of lane i in v[i].
__device__ __forceinline__ void exchange(uint32_t (&v)[4], int lane) {
  const bool odd = (lane & 1) != 0;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? v[i] : v[i + 1], 1);
    (odd ? v[i] : v[i + 1]) = got;
  }
  const bool high = (lane & 2) != 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t got = __shfl_xor_sync(0xffffffffu, high ? v[i] : v[i + 2], 2);
    (high ? v[i] : v[i + 2]) = got;
  }
}

/// One pixel's channels of a row of products, eight of which (a chunk) lie two by two in four
/// lanes.
template <int kChunks>
__device__ __forceinline__ void store_pixel(const uint32_t (&value)[kChunks], void* pixel,
                                            bool real, int lane) {
#pragma unroll
  for (int first = 0; first < kChunks; first += 4) {
    uint32_t v[4] = {value[first], value[first + 1], value[first + 2], value[first + 3]};
    exchange(v, lane);
    if (real) {
      static_cast<uint4*>(pixel)[first + lane % 4] = make_uint4(v[0], v[1], v[2], v[3]);
    }
  }
}

}  // namespace hdfnet::ops::cuda
