#pragma once

// What the kernels of warpgroups in two-byte types share: sizes, their operands, and what becomes
// of the taps.

#include "cuda/generated_filter_arguments.h"
#include "cuda/generated_filter_operands.cuh"
#include "cuda/hopper.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kGroup = 16;  // channels of a block
constexpr int kTaps = 9;
constexpr int kSource = 64;  // channels of y; fewer are filled up with zeros
constexpr int kRowWords = kSource / 2;
constexpr int kMatrixWords = kTaps * kGroup * kRowWords;
constexpr int kBiasWords = 3 * kGroup * kRowWords;  // kernel row i is products 16*i on
constexpr int kWarpPixels = 32;
constexpr int kPixelWords = kGroup / 2;  // of x
constexpr int kMostDilation = 8;

/// Starts to copy the weights of a branch and group, as [taps * 16][64 channels of y] in the
/// 128-byte exchange; row_of(channel) is a channel's row within its tap.
template <typename T, int kThreads, typename RowOf>
__device__ __forceinline__ void copy_weights(const GeneratedFilterArguments& a, int b,
                                             int first_channel, unsigned* to, const RowOf& row_of) {
  const int chunk = threadIdx.x % 8;
  const bool real = chunk * 8 < static_cast<int>(a.source_channels);
  const T* const from = static_cast<const T*>(a.weight) + b * a.weight_stride[0] +
                        static_cast<int64_t>(first_channel) * kTaps * a.weight_stride[1] +
                        (real ? chunk * 8 : 0);
#pragma unroll
  for (int i = threadIdx.x / 8; i < kTaps * kGroup; i += kThreads / 8) {
    const int row = i % kTaps * kGroup + row_of(i / kTaps);
    copy_async<16>(to + row * kRowWords + (chunk ^ row % 8) * 4, from + i * a.weight_stride[1],
                   real);
  }
}

/// Element i of a branch and group, two of whose channels are kTaps apart; zero where there is
/// none.
template <typename T>
__device__ __forceinline__ T load_bias(const GeneratedFilterArguments& a, int b, int first_channel,
                                       int i) {
  T bias = from_sum<T>(0.f);
  if (a.bias != nullptr && i < kTaps * kGroup) {
    const int64_t at = static_cast<int64_t>(first_channel) * kTaps + i;
    bias = static_cast<const T*>(a.bias)[b * a.bias_stride[0] + at * a.bias_stride[1]];
  }
  return bias;
}

/// That element in a row of an operand that one_times() multiplies: 16 of k, the first of which
/// it is.
template <typename T, typename RowOf>
__device__ __forceinline__ void store_bias(T value, unsigned* biases, int i, const RowOf& row_of) {
  const T pair[2] = {value, from_sum<T>(0.f)};
  if (i < kTaps * kGroup) {
    const int tap = i % kTaps;
    const int row = tap % 3 * kGroup + row_of(i / kTaps);
    for (int word = 0; word < 8; ++word) {
      biases[row * kRowWords + ((tap / 3 * 2 + word / 4) ^ row % 8) * 4 + word % 4] =
          word == 0 ? *reinterpret_cast<const unsigned*>(pair) : 0u;
    }
  }
}

/// A lane's part of 16 rows, each of which is 1 at the first of the 16 of k.
template <typename T>
__device__ __forceinline__ void one_times(unsigned (&ones)[4], int lane) {
  const T pair[2] = {from_sum<T>(1.f), from_sum<T>(0.f)};
  ones[0] = ones[1] = lane % 4 == 0 ? *reinterpret_cast<const unsigned*>(pair) : 0u;
  ones[2] = ones[3] = 0u;
}

/// Starts the products that make kernel row `row` of the taps of 16 pixels of each warp: y times
/// weights, plus the bias.
template <typename T>
__device__ __forceinline__ void start_taps(float (&taps)[24], const unsigned (&ones)[4],
                                           const unsigned (&y)[4][4], uint64_t weights,
                                           uint64_t biases, int row) {
  begin_products();
  multiply_add(taps, ones, biases + 2 * row, 0, T());
#pragma unroll
  for (int s = 0; s < 4; ++s) {
    multiply_add(taps, y[s], weights + static_cast<uint64_t>(row) * (3 * kGroup * 128 / 16) + 2 * s,
                 1, T());
  }
  commit_products();
}

/// Adds what a kernel row makes of x, for a thread's pixels g and g + 8 (p 0 and 1) and its four
/// channels: at(j, p) is x at the row's tap j.
template <typename T, typename At>
__device__ __forceinline__ void add_row_of_taps(float (&sum)[2][4], const float (&tap)[24],
                                                const At& at) {
#pragma unroll
  for (int j = 0; j < 3; ++j) {
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const uint2 bits = *reinterpret_cast<const uint2*>(at(j, p));
      const float2 low = load_pair(&bits.x, T());
      const float2 high = load_pair(&bits.y, T());
      sum[p][0] = fmaf(tap[8 * j + 2 * p], low.x, sum[p][0]);
      sum[p][1] = fmaf(tap[8 * j + 2 * p + 1], low.y, sum[p][1]);
      sum[p][2] = fmaf(tap[8 * j + 4 + 2 * p], high.x, sum[p][2]);
      sum[p][3] = fmaf(tap[8 * j + 4 + 2 * p + 1], high.y, sum[p][3]);
    }
  }
}

template <typename T>
__device__ __forceinline__ unsigned pair_of(float low, float high) {
  const T pair[2] = {from_sum<T>(low), from_sum<T>(high)};
  return *reinterpret_cast<const unsigned*>(pair);
}

}  // namespace
}  // namespace hdfnet::ops::cuda
