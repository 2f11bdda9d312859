#pragma once

#include <ATen/core/Tensor.h>

#include "network.h"

/// Memory that the host and a device exchange batches through. Page-locked memory comes from
/// LibTorch's cache of it: a batch finds what an earlier one gave back, and nothing is locked anew.
namespace hdfnet::app {

/// Waits for the device's current stream.
void wait_for(at::Device device);

/// Waits at its end: until then the device may read the host's memory, also after an exception.
class WaitAtEnd {
 public:
  explicit WaitAtEnd(at::Device device) : device_(device) {}
  ~WaitAtEnd();
  WaitAtEnd(const WaitAtEnd&) = delete;
  WaitAtEnd& operator=(const WaitAtEnd&) = delete;

 private:
  const at::Device device_;
};

/// `count` floats; the tensor that owns them lives as long as they are used. Page-locked memory of
/// that size takes the driver some time: ask for much at once.
std::shared_ptr<float[]> host_floats(std::size_t count, bool page_locked);

/// A page-locked tensor of the shape and type of one on a device.
at::Tensor page_locked_like(const at::Tensor& tensor);

/// The network's result (N,1,H,W), float32, in host memory, when it has arrived there.
Maps fetch(const at::Tensor& saliency);

}  // namespace hdfnet::app
