// Under autocast the filter runs in autocast's type, as a convolution does: its tensors are cast to
// it (what already has it is left alone), and sums are kept in float32 inside.
#include <ATen/autocast_mode.h>

#include "hdfnet/ops/dynamic_filter.h"
#include "registration.h"

namespace hdfnet::ops {
namespace {

template <c10::DispatchKey key, c10::DeviceType device>
at::Tensor dynamic_filter_autocast(const at::Tensor& x, const at::Tensor& kernels,
                                   at::IntArrayRef dilations, bool concat_input) {
  const c10::impl::ExcludeDispatchKeyGuard below(key);
  const at::ScalarType type = at::autocast::get_autocast_dtype(device);
  return dynamic_filter(at::autocast::cached_cast(type, x, device),
                        at::autocast::cached_cast(type, kernels, device), dilations, concat_input);
}

}  // namespace

void register_autocast_dynamic_filter(Registration& registration) {
  registration.under(c10::DispatchKey::AutocastCPU)
      .impl("dynamic_filter",
            &dynamic_filter_autocast<c10::DispatchKey::AutocastCPU, c10::DeviceType::CPU>);
  registration.under(c10::DispatchKey::AutocastCUDA)
      .impl("dynamic_filter",
            &dynamic_filter_autocast<c10::DispatchKey::AutocastCUDA, c10::DeviceType::CUDA>);
}

}  // namespace hdfnet::ops
