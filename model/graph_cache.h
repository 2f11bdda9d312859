#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace hdfnet {

/// Captures a network's launches as one CUDA graph for each batch and size, and replays them: at
/// small batches launching costs more than computing.
///
/// The first pass of a shape runs as it is, so that a size that comes once costs nothing extra; the
/// second is captured. All graphs share one memory pool, so they take the memory of the largest;
/// they run one after the other, whatever streams they are called from.
class GraphCache {
 public:
  using Forward = std::function<at::Tensor(const at::Tensor& rgb, const at::Tensor& depth)>;

  /// `forward` takes float32 tensors on the device and must depend on nothing else that changes.
  GraphCache(at::Device device, Forward forward);
  ~GraphCache();

  /// The result is the caller's own: a later pass does not write to it. Thread-safe.
  at::Tensor forward(const at::Tensor& rgb, const at::Tensor& depth);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hdfnet
