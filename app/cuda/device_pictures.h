#pragma once

#include <ATen/core/Tensor.h>

#include "network.h"

/// The way of a batch of pictures over a CUDA device. Everything is queued on the current stream of
/// the device that the tensors are on, and throws c10::Error.
namespace hdfnet::app::cuda {

/// The batch's pictures in the device's memory, as they lie in the host's, one after the other:
/// bytes of one dimension. They must stay as they are in the host's memory until the copies are
/// done.
at::Tensor upload_pictures(const BatchView& batch, at::Device device);

struct NetworkInput {
  at::Tensor rgb;    ///< (N,3,H,W), float32, normalised
  at::Tensor depth;  ///< (N,1,H,W), float32, 0..1
};

/// Resizes and normalises, with the bits that the host's path gives. `bytes`: of upload_pictures().
NetworkInput make_input(const at::Tensor& bytes, const BatchView& batch);

/// The maps that were asked for, in the device's memory.
struct DeviceLevels {
  /// (N + their sizes), bytes: for each map whether it holds NaN or infinity, then the levels.
  at::Tensor bytes;
  std::vector<int64_t> begin;  ///< (N), in `bytes`; -1: not made
  bool all_made = true;
};

/// Resizes and rounds `saliency` (N,1,h,w), float32, with the levels that the host's path gives.
DeviceLevels make_levels(const at::Tensor& saliency, const BatchView& batch);

/// Waits for the levels, and for `saliency` where some were not made, to arrive in page-locked
/// memory.
Maps fetch_maps(const at::Tensor& saliency, const DeviceLevels& levels);

}  // namespace hdfnet::app::cuda
