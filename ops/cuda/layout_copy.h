#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace hdfnet::ops::cuda {

/// Maps of two-byte elements from NCHW to channels_last or back. The planes' columns and rows are
/// dense, their strides in elements and any; the channels_last side is all dense.
struct LayoutCopyArguments {
  const void* from;
  void* to;
  int64_t batch, channels, pixels;
  int64_t image_stride, plane_stride;  // of the planes
};

/// Fewer than 2^31 tiles of 64 pixels and 64 channels. Looks at sizes alone.
bool can_copy_layout(const LayoutCopyArguments& arguments);

/// From (N, C, H*W) to (N, H*W, C), and from (N, H*W, C) to (N, C, H*W).
cudaError_t launch_to_channels_last(const LayoutCopyArguments& arguments, cudaStream_t stream);
cudaError_t launch_to_planes(const LayoutCopyArguments& arguments, cudaStream_t stream);

}  // namespace hdfnet::ops::cuda
