#include "host_memory.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>

namespace hdfnet::app {
namespace {

/// Memory that knows how to give itself back: the tensor that owns it lives in the deleter.
std::shared_ptr<float[]> memory_of(const at::Tensor& owner) {
  return std::shared_ptr<float[]>(owner.mutable_data_ptr<float>(), [owner](float*) {});
}

}  // namespace

void wait_for(at::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.getStream(device).synchronize();
}

WaitAtEnd::~WaitAtEnd() {
  try {
    wait_for(device_);
  } catch (const std::exception&) {
    return;  // the device has failed, and whoever asked it for something was told
  }
}

std::shared_ptr<float[]> host_floats(std::size_t count, bool page_locked) {
  const auto options = at::TensorOptions(at::kFloat).pinned_memory(page_locked);
  return memory_of(at::empty({static_cast<int64_t>(count)}, options));
}

at::Tensor page_locked_like(const at::Tensor& tensor) {
  return at::empty(tensor.sizes(),
                   at::TensorOptions(tensor.scalar_type()).pinned_memory(tensor.is_cuda()));
}

Maps fetch(const at::Tensor& saliency) {
  at::Tensor host = saliency.contiguous();
  if (!saliency.is_cpu()) {
    const at::Tensor device = host;
    host = page_locked_like(device);
    host.copy_(device, /*non_blocking=*/true);
    wait_for(device.device());
  }
  return {memory_of(host),
          static_cast<int>(host.size(0)),
          static_cast<int>(host.size(2)),
          static_cast<int>(host.size(3)),
          {}};
}

}  // namespace hdfnet::app
