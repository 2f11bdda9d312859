#pragma once

// What kernels share whose threads keep many sums.

namespace hdfnet::ops::cuda {

/// The same value; what is computed from it stays behind, in place of taking registers from the
/// sums.
__device__ __forceinline__ int computed_here(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

__device__ __forceinline__ unsigned computed_here(unsigned value) {
  asm volatile("" : "+r"(value));
  return value;
}

__device__ __forceinline__ bool is_inside(int position, int size) {
  return static_cast<unsigned>(position) < static_cast<unsigned>(size);
}

__host__ __device__ constexpr int round_up(int value, int to) {
  return (value + to - 1) / to * to;
}

}  // namespace hdfnet::ops::cuda
