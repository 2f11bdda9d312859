#pragma once

#include <string>

#include "cuda/filter_arguments.h"

namespace hdfnet::ops::cuda {

/// One launch of max_pool2d, stride 2; both maps are dense, contiguous (`planar`) or channels_last.
struct MaxPoolArguments {
  const void* x;  ///< (N, C, x_height, x_width)
  void* out;      ///< (N, C, height, width)
  Type type;
  int64_t batch, channels, height, width, x_height, x_width;
  int kernel_size, stride, padding;
  bool x_is_dense;  ///< without gaps
  bool planar;
};

/// 2x2 without padding or 3x3 with padding 1, stride 2; fp16 and bf16 in channels_last with
/// channels in eights, float32 in either layout, in channels_last with channels in fours.
bool can_run_max_pool2d(const MaxPoolArguments& arguments, std::string* why);
cudaError_t launch_max_pool2d(const MaxPoolArguments& arguments, cudaStream_t stream);

}  // namespace hdfnet::ops::cuda
