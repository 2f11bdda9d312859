#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace hdfnet::ops::cuda {

enum class Type : int { kFloat, kDouble, kHalf, kBFloat16 };

/// Branches that one launch takes; the host splits calls with more.
inline constexpr int kMaxBranches = 32;

/// One launch of dynamic_filter, without ATen so that the .cu files stay quick to compile. Strides
/// are in elements; `out` is the whole result, of which branch b fills channels (first_branch + b +
/// concat_input) * C onwards.
struct FilterArguments {
  const void* x;
  const void* kernels;
  void* out;
  Type type;
  int64_t batch, branches, channels, height, width;
  int kernel_size;
  bool concat_input;         // this launch also copies x to the front of out
  int64_t output_channel;    // the first channel that branch 0 of this launch writes
  int64_t x_stride[4];       // N, C, H, W
  int64_t kernel_stride[6];  // N, B, C, K*K, H, W
  int64_t out_stride[4];     // N, C, H, W
  int dilation[kMaxBranches];
};

/// Any strides, any sizes; the slowest.
cudaError_t launch_filter_strided(const FilterArguments& arguments, cudaStream_t stream);

}  // namespace hdfnet::ops::cuda
