#pragma once

#include <string>

#include "cuda/filter_arguments.h"

namespace hdfnet::ops::cuda {

/// One launch of stem_conv2d. The output is dense channels_last; strides are in elements.
struct StemConvolutionArguments {
  const void* x;       ///< (N, channels, x_height, x_width)
  const void* weight;  ///< (outputs, channels, K, K)
  const void* bias;    ///< (outputs), or null
  void* out;           ///< (N, outputs, height, width)
  Type x_type;
  Type type;  ///< of the rest
  int64_t x_stride[4];
  int64_t weight_stride[4];
  int64_t bias_stride;
  int64_t batch, channels, outputs, x_height, x_width, height, width;
  int kernel_size, stride;
  bool relu;
};

/// fp16 and bf16 from float32 or the same type; 3x3 with stride 1 or 7x7 with stride 2; 1 or 3
/// channels; outputs in sixty-fours.
bool can_run_stem_conv2d_mma(const StemConvolutionArguments& arguments, std::string* why);
cudaError_t launch_stem_conv2d_mma(const StemConvolutionArguments& arguments, cudaStream_t stream);

/// The same in exact float32: 3x3 with stride 1.
bool can_run_stem_conv2d_scalar(const StemConvolutionArguments& arguments, std::string* why);
cudaError_t launch_stem_conv2d_scalar(const StemConvolutionArguments& arguments,
                                      cudaStream_t stream);

}  // namespace hdfnet::ops::cuda
