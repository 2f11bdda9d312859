// Shapes only: what torch.compile and the meta device see.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "common/check.h"
#include "registration.h"

namespace hdfnet::ops {
namespace {

at::Tensor generated_dynamic_filter_meta(const at::Tensor& x, const at::Tensor& y,
                                         const at::Tensor& weight,
                                         const std::optional<at::Tensor>& bias,
                                         at::IntArrayRef dilations, bool concat_input) {
  const auto sizes = check_generated_dynamic_filter<c10::SymInt>("hdfnet::generated_dynamic_filter",
                                                                 x, y, weight, bias, dilations)
                         .filter;
  const c10::SymInt channels = (sizes.branches + (concat_input ? 1 : 0)) * sizes.channels;
  return at::empty_symint({sizes.batch, channels, sizes.height, sizes.width},
                          x.options().memory_format(x.suggest_memory_format()));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> generated_dynamic_filter_backward_meta(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
    const std::optional<at::Tensor>& bias, at::IntArrayRef dilations, bool concat_input,
    std::array<bool, 4> needs) {
  const char* op = "hdfnet::generated_dynamic_filter_backward";
  const auto sizes = check_generated_dynamic_filter<c10::SymInt>(op, x, y, weight, bias, dilations);
  check_filter_gradient(op, grad, x, sizes.filter, concat_input);
  const bool has_bias = bias.has_value() && bias->defined();
  return {needs[0] ? at::empty_like(x) : at::Tensor(), needs[1] ? at::empty_like(y) : at::Tensor(),
          needs[2] ? at::empty_like(weight, weight.options(), at::MemoryFormat::Contiguous)
                   : at::Tensor(),
          needs[3] && has_bias
              ? at::empty_like(*bias, bias->options(), at::MemoryFormat::Contiguous)
              : at::Tensor()};
}

}  // namespace

void register_meta_generated_dynamic_filter(Registration& registration) {
  registration.under(c10::DispatchKey::Meta)
      .impl("generated_dynamic_filter", &generated_dynamic_filter_meta);
  registration.under(c10::DispatchKey::Meta)
      .impl("generated_dynamic_filter_backward", &generated_dynamic_filter_backward_meta);
}

}  // namespace hdfnet::ops
