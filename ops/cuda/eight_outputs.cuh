#pragma once

// The end of a convolution by mma without a trip through shared memory: the rows of operand B are
// ordered so that a lane ends up with eight neighbouring outputs of a pixel.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace hdfnet::ops::cuda {

/// The output that row `row` of operand B makes: lane t of four has the columns 2t and 2t + 1 of
/// every eight, and of four eights the outputs 8t to 8t + 7.
__device__ __forceinline__ int output_of(int row) {
  const int eight = row / 8;
  return eight / 4 * 32 + row % 8 / 2 * 8 + eight % 4 * 2 + row % 2;
}

/// Two sums rounded, after a ReLU if asked for; NaN stays.
__device__ __forceinline__ unsigned round_pair(float a, float b, bool relu, __half) {
  __half2 pair = __floats2half2_rn(a, b);
  if (relu) pair = __hmax2_nan(pair, __floats2half2_rn(0.0f, 0.0f));
  return *reinterpret_cast<const unsigned*>(&pair);
}
__device__ __forceinline__ unsigned round_pair(float a, float b, bool relu, __nv_bfloat16) {
  __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
  if (relu) pair = __hmax2_nan(pair, __floats2bfloat162_rn(0.0f, 0.0f));
  return *reinterpret_cast<const unsigned*>(&pair);
}

/// Fills sums with the biases of this lane's outputs; `biases` (in output order) is in shared
/// memory, aligned to 16 bytes.
template <int kOutputs>
__device__ __forceinline__ void begin_with(const float* biases, int lane,
                                           float (&sum)[kOutputs / 8][4]) {
#pragma unroll
  for (int o = 0; o < kOutputs / 8; o += 2) {
    const float4 bias =
        *reinterpret_cast<const float4*>(biases + o / 4 * 32 + lane % 4 * 8 + o % 4 * 2);
    sum[o][0] = sum[o][2] = bias.x;
    sum[o][1] = sum[o][3] = bias.y;
    sum[o + 1][0] = sum[o + 1][2] = bias.z;
    sum[o + 1][1] = sum[o + 1][3] = bias.w;
  }
}

/// Stores the outputs of the lane's pixel `half` (0: row lane / 4 of operand A, 1: that + 8); `to`
/// is the pixel's output lane % 4 * 8, aligned to 16 bytes.
template <int kOutputs, typename T>
__device__ __forceinline__ void store_outputs(const float (&sum)[kOutputs / 8][4], int half,
                                              bool relu, T* to) {
#pragma unroll
  for (int o = 0; o < kOutputs / 8; o += 4) {
    uint4 eight;
    eight.x = round_pair(sum[o][2 * half], sum[o][2 * half + 1], relu, T());
    eight.y = round_pair(sum[o + 1][2 * half], sum[o + 1][2 * half + 1], relu, T());
    eight.z = round_pair(sum[o + 2][2 * half], sum[o + 2][2 * half + 1], relu, T());
    eight.w = round_pair(sum[o + 3][2 * half], sum[o + 3][2 * half + 1], relu, T());
    *reinterpret_cast<uint4*>(to + o / 4 * 32) = eight;
  }
}

}  // namespace hdfnet::ops::cuda
