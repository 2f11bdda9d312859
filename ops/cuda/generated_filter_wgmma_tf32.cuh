#pragma once

// What both kernels of warpgroups in TF32 share: sizes, the bias's parts, and what becomes of the
// taps.

#include <cmath>

#include "cuda/hopper.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 16;  // of a tile
constexpr int kRows = 8;      // of a tile: one for each warp
constexpr int kGroup = 16;    // channels of a block
constexpr int kTaps = 9;
constexpr int kSource = 64;    // channels of y; fewer are filled up with zeros
constexpr int kRowWords = 32;  // of an operand: half of y's channels
constexpr int kHalfWords = kTaps * kGroup * kRowWords;
constexpr int kBiasWords = 3 * kGroup * kRowWords;
constexpr int kStageWords = kColumns * kSource;  // of a warp's y
constexpr int kMostDilation = 8;
constexpr int kTwoBlocksBytes = 113 * 1024;  // of a block that leaves room for a second one

/// Writes a float as the sum of three that TF32 holds exactly; one that is not finite as the first,
/// and leaves the others.
__device__ __forceinline__ void split_for_tf32(float value, unsigned* parts) {
  if (!isfinite(value)) {
    parts[0] = isnan(value) ? 0x7fffe000u : __float_as_uint(value);
    return;
  }
  constexpr unsigned kHeld = 0xffffe000u;  // of a float's bits, by TF32
  const float high = __uint_as_float(__float_as_uint(value) & kHeld);
  const float rest = value - high;
  const float middle = __uint_as_float(__float_as_uint(rest) & kHeld);
  parts[0] = __float_as_uint(high);
  parts[1] = __float_as_uint(middle);
  parts[2] = __float_as_uint(rest - middle);
}

/// Starts the products that make the taps of kernel row i of a warpgroup's pixels.
__device__ __forceinline__ void start_row_of_taps(float (&taps)[24], int i,
                                                  const unsigned (&ones)[4],
                                                  const unsigned (&source)[8][4], uint64_t weights,
                                                  uint64_t biases) {
  begin_products();
  multiply_add(taps, ones, biases + 2 * i, 0, float());
#pragma unroll
  for (int s = 0; s < 8; ++s) {
    multiply_add(
        taps, source[s],
        weights + s / 4 * (kHalfWords / 4) + i * (3 * kGroup * kRowWords / 4) + 2 * (s % 4), 1,
        float());
  }
  commit_products();
}

/// A thread's results, [pixel g or g + 8][channel]; the first row of taps has been started.
/// `start(i)` starts row i, x_of(i, j, p) is x's four channels at that tap.
template <typename Start, typename XOf>
__device__ __forceinline__ void use_taps(float (&sum)[2][4], float (&taps)[2][24],
                                         const Start& start, const XOf& x_of) {
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    if (i < 2) {
      start(i + 1);
      wait_for_products<1>();
    } else {
      wait_for_products<0>();
    }
    float(&tap)[24] = taps[i % 2];
    hold(tap);
#pragma unroll
    for (int j = 0; j < 3; ++j) {
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        const float4 value = x_of(i, j, p);
        sum[p][0] = fmaf(tap[8 * j + 2 * p], value.x, sum[p][0]);
        sum[p][1] = fmaf(tap[8 * j + 2 * p + 1], value.y, sum[p][1]);
        sum[p][2] = fmaf(tap[8 * j + 4 + 2 * p], value.z, sum[p][2]);
        sum[p][3] = fmaf(tap[8 * j + 4 + 2 * p + 1], value.w, sum[p][3]);
      }
    }
  }
}

}  // namespace
}  // namespace hdfnet::ops::cuda
