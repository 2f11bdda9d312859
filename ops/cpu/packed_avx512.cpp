// packed_conv2d's kernels for AVX-512: this file alone is compiled for it.
#include <immintrin.h>

#include "cpu/packed_kernels_of.h"

namespace hdfnet::ops::packed {
namespace {

struct Avx512 {
  using Vector = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kMostRows = 14;  // 28 sums of 32 registers
  static Vector load(const float* from) { return _mm512_loadu_ps(from); }
  static Vector broadcast(const float* from) { return _mm512_set1_ps(*from); }
  static Vector zero() { return _mm512_setzero_ps(); }
  static void store(float* to, Vector value) { _mm512_storeu_ps(to, value); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
  // Of a number and NaN the instruction gives the second operand. (The mask, of all lanes, because
  // GCC 12 warns of its own header in the form without: its bug 105593.)
  static Vector relu(Vector value) { return _mm512_maskz_max_ps(0xFFFF, zero(), value); }
};

}  // namespace

const Kernels* avx512_kernels() {
  static constexpr Kernels kKernels = kernels_of<Avx512>();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma") ? &kKernels : nullptr;
}

}  // namespace hdfnet::ops::packed
