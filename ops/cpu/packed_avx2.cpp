// packed_conv2d's kernels for AVX2 with FMA: this file alone is compiled for them.
#include <immintrin.h>

#include "cpu/packed_kernels_of.h"

namespace hdfnet::ops::packed {
namespace {

struct Avx2 {
  using Vector = __m256;
  static constexpr int kLanes = 8;
  static constexpr int kMostRows = 6;  // 12 sums of 16 registers
  static Vector load(const float* from) { return _mm256_loadu_ps(from); }
  static Vector broadcast(const float* from) { return _mm256_broadcast_ss(from); }
  static Vector zero() { return _mm256_setzero_ps(); }
  static void store(float* to, Vector value) { _mm256_storeu_ps(to, value); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
  // Of a number and NaN the instruction gives the second operand.
  static Vector relu(Vector value) { return _mm256_max_ps(zero(), value); }
};

}  // namespace

const Kernels* avx2_kernels() {
  static constexpr Kernels kKernels = kernels_of<Avx2>();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kKernels : nullptr;
}

}  // namespace hdfnet::ops::packed
