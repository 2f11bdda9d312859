#pragma once

// Single instructions that C++ has no word for, beside those of tensor_core.cuh, hopper.cuh and
// early_launch.cuh. All PTX is in these four: tests have headers of their own in their place.

namespace hdfnet::ops::cuda {

/// Reads a word that is used once: it passes by the L1.
__device__ __forceinline__ unsigned load_once(const unsigned* address) {
  unsigned value;
  asm volatile("ld.global.nc.L1::no_allocate.b32 %0, [%1];" : "=r"(value) : "l"(address));
  return value;
}
__device__ __forceinline__ unsigned short load_once(const unsigned short* address) {
  unsigned short value;
  asm volatile("ld.global.nc.L1::no_allocate.b16 %0, [%1];" : "=h"(value) : "l"(address));
  return value;
}

/// The same, zero where it lies outside and is not read.
__device__ __forceinline__ unsigned short load_once_inside(const unsigned short* address,
                                                           bool inside) {
  unsigned short value;
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %2, 0;\n mov.b16 %0, 0;\n"
      " @p ld.global.nc.L1::no_allocate.b16 %0, [%1];\n}"
      : "=h"(value)
      : "l"(address), "r"(static_cast<int>(inside)));
  return value;
}
__device__ __forceinline__ unsigned load_once_inside(const unsigned* address, bool inside) {
  unsigned value;
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %2, 0;\n mov.b32 %0, 0;\n"
      " @p ld.global.nc.L1::no_allocate.b32 %0, [%1];\n}"
      : "=r"(value)
      : "l"(address), "r"(static_cast<int>(inside)));
  return value;
}
__device__ __forceinline__ uint2 load_once_inside(const uint2* address, bool inside) {
  uint2 value;
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %3, 0;\n mov.b32 %0, 0;\n mov.b32 %1, 0;\n"
      " @p ld.global.nc.L1::no_allocate.v2.b32 {%0, %1}, [%2];\n}"
      : "=r"(value.x), "=r"(value.y)
      : "l"(address), "r"(static_cast<int>(inside)));
  return value;
}

/// A float of shared memory, or zero.
__device__ __forceinline__ float load_shared_inside(const float* address, bool inside) {
  float value;
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %2, 0;\n mov.b32 %0, 0;\n @p ld.shared.f32 %0, [%1];\n}"
      : "=f"(value)
      : "r"(static_cast<unsigned>(__cvta_generic_to_shared(address))), "r"(static_cast<int>(inside))
      : "memory");
  return value;
}

/// A barrier of the `kThreads` threads of a team.
template <int kThreads>
__device__ __forceinline__ void team_barrier(int team) {
  asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(kThreads) : "memory");
}

/// `count` times `bytes` further: one instruction.
__device__ __forceinline__ const float* advance(const float* from, unsigned count, unsigned bytes) {
  asm("mad.wide.u32 %0, %1, %2, %0;" : "+l"(from) : "r"(count), "r"(bytes));
  return from;
}

/// Zero, written no earlier: a register that is still in use needs no copy.
__device__ __forceinline__ float zero_here() {
  float zero;
  asm volatile("mov.f32 %0, 0f00000000;" : "=f"(zero));
  return zero;
}

}  // namespace hdfnet::ops::cuda
