// Under autocast: as for dynamic_filter, all tensors are cast to autocast's type.
#include <ATen/autocast_mode.h>

#include "hdfnet/ops/generated_dynamic_filter.h"
#include "registration.h"

namespace hdfnet::ops {
namespace {

template <c10::DispatchKey key, c10::DeviceType device>
at::Tensor generated_dynamic_filter_autocast(const at::Tensor& x, const at::Tensor& y,
                                             const at::Tensor& weight,
                                             const std::optional<at::Tensor>& bias,
                                             at::IntArrayRef dilations, bool concat_input) {
  const c10::impl::ExcludeDispatchKeyGuard below(key);
  const at::ScalarType type = at::autocast::get_autocast_dtype(device);
  const auto cast = [type](const at::Tensor& tensor) {
    return at::autocast::cached_cast(type, tensor, device);
  };
  std::optional<at::Tensor> cast_bias;
  if (bias.has_value() && bias->defined()) cast_bias = cast(*bias);
  return generated_dynamic_filter(cast(x), cast(y), cast(weight), cast_bias, dilations,
                                  concat_input);
}

}  // namespace

void register_autocast_generated_dynamic_filter(Registration& registration) {
  registration.under(c10::DispatchKey::AutocastCPU)
      .impl(
          "generated_dynamic_filter",
          &generated_dynamic_filter_autocast<c10::DispatchKey::AutocastCPU, c10::DeviceType::CPU>);
  registration.under(c10::DispatchKey::AutocastCUDA)
      .impl("generated_dynamic_filter",
            &generated_dynamic_filter_autocast<c10::DispatchKey::AutocastCUDA,
                                               c10::DeviceType::CUDA>);
}

}  // namespace hdfnet::ops
