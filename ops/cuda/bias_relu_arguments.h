#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace hdfnet::ops::cuda {

/// One launch of bias_relu_: dense float32 maps, contiguous (`planar`) or channels_last.
struct BiasReluArguments {
  float* y;
  const float* bias;   ///< (channels)
  const float* other;  ///< as y, or null
  int64_t batch, channels, pixels;
  bool planar;
  bool relu;
};

cudaError_t launch_bias_relu(const BiasReluArguments& arguments, cudaStream_t stream);

}  // namespace hdfnet::ops::cuda
