#pragma once

#include "cuda/filter_arguments.h"

namespace hdfnet::ops::cuda {

/// One launch of bias_relu_: dense maps, contiguous (`planar`) or channels_last, not float64.
struct BiasReluArguments {
  void* y;
  const void* bias;   ///< (channels)
  const void* other;  ///< as y, or null
  Type type;
  int64_t batch, channels, pixels;
  bool planar;
  bool relu;
};

cudaError_t launch_bias_relu(const BiasReluArguments& arguments, cudaStream_t stream);

}  // namespace hdfnet::ops::cuda
