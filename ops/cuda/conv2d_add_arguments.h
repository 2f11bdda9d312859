#pragma once

#include <string>

#include "cuda/filter_arguments.h"

namespace hdfnet::ops::cuda {

/// One launch of conv2d_add for a 1x1; other and out are dense channels_last.
struct PointwiseAddArguments {
  const void* x;       ///< channels of a pixel next to each other
  const void* weight;  ///< (outputs, channels), dense
  const void* bias;    ///< (outputs), or null
  const void* other;   ///< (pixels, outputs)
  void* out;           ///< (pixels, outputs)
  Type type;
  int64_t pixel_stride;  ///< of x: elements from one pixel to the next
  int64_t pixels;        ///< of all images
  int64_t channels, outputs;
  bool relu;
};

/// fp16 and bf16 on compute capability 9.0; channels in 64s up to 512, outputs in 128s; enough
/// tiles of 128 pixels to fill the card.
bool can_run_pointwise_add_wgmma(const PointwiseAddArguments& arguments, std::string* why);
cudaError_t launch_pointwise_add_wgmma(const PointwiseAddArguments& arguments, cudaStream_t stream);

}  // namespace hdfnet::ops::cuda
