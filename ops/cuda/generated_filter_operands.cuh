#pragma once

// What the generated filter is made of beside tensor_core.cuh: operands, and pairs of neighbouring
// elements.

#include "cuda/scalar.cuh"
#include "cuda/tensor_core.cuh"

namespace hdfnet::ops::cuda {

template <typename T>
__device__ __forceinline__ uint4 as_operand(uint4 bits) {
  if constexpr (sizeof(T) == 4) {
    bits.x = round_to_tf32(bits.x);
    bits.y = round_to_tf32(bits.y);
    bits.z = round_to_tf32(bits.z);
    bits.w = round_to_tf32(bits.w);
  }
  return bits;
}

/// Two neighbouring channels.
__device__ __forceinline__ float2 load_pair(const unsigned* from, __half) {
  return __half22float2(*reinterpret_cast<const __half2*>(from));
}
__device__ __forceinline__ float2 load_pair(const unsigned* from, __nv_bfloat16) {
  const unsigned bits = *from;
  return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
}
__device__ __forceinline__ float2 load_pair(const unsigned* from, float) {
  return *reinterpret_cast<const float2*>(from);
}

template <typename T>
__device__ __forceinline__ void store_pair(T* to, float first, float second) {
  if constexpr (sizeof(T) == 4) {
    *reinterpret_cast<float2*>(to) = make_float2(first, second);
  } else {
    const T pair[2] = {from_sum<T>(first), from_sum<T>(second)};
    *reinterpret_cast<unsigned*>(to) = *reinterpret_cast<const unsigned*>(pair);
  }
}

}  // namespace hdfnet::ops::cuda
