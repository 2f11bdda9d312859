#pragma once

#include "cuda/filter_arguments.h"

namespace hdfnet::ops::cuda {

/// One launch of upsample_add in fp16 or bf16; all three maps are dense channels_last.
struct UpsampleAddArguments {
  const void* x;  // (N, C, x_height, x_width)
  const void* y;  // (N, C, height, width), as out
  void* out;
  Type type;
  int64_t batch, channels, height, width, x_height, x_width;
};

cudaError_t launch_upsample_add(const UpsampleAddArguments& arguments, cudaStream_t stream);

}  // namespace hdfnet::ops::cuda
