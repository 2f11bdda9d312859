#pragma once

#include "cuda/filter_arguments.h"

namespace hdfnet::ops::cuda {

/// One launch of upsample_add or upsample_bilinear2d, not in float64; all maps are dense
/// channels_last.
struct UpsampleArguments {
  const void* x;  ///< (N, C, x_height, x_width)
  const void* y;  ///< what is added, as out; or null
  void* out;      ///< (N, C, height, width)
  Type type;
  int64_t batch, channels, height, width, x_height, x_width;
  bool align_corners;
};

cudaError_t launch_upsample(const UpsampleArguments& arguments, cudaStream_t stream);

}  // namespace hdfnet::ops::cuda
