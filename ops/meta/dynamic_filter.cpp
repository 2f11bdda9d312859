// Shapes only: what torch.compile and the meta device see.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "common/check.h"
#include "registration.h"

namespace hdfnet::ops {
namespace {

at::Tensor dynamic_filter_meta(const at::Tensor& x, const at::Tensor& kernels,
                               at::IntArrayRef dilations, bool concat_input) {
  const auto sizes =
      check_dynamic_filter<c10::SymInt>("hdfnet::dynamic_filter", x, kernels, dilations);
  const c10::SymInt channels = (sizes.branches + (concat_input ? 1 : 0)) * sizes.channels;
  return at::empty_symint({sizes.batch, channels, sizes.height, sizes.width},
                          x.options().memory_format(x.suggest_memory_format()));
}

std::tuple<at::Tensor, at::Tensor> dynamic_filter_backward_meta(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& kernels,
    at::IntArrayRef dilations, bool concat_input, std::array<bool, 2> needs) {
  const char* op = "hdfnet::dynamic_filter_backward";
  const auto sizes = check_dynamic_filter<c10::SymInt>(op, x, kernels, dilations);
  check_filter_gradient(op, grad, x, sizes, concat_input);
  return {needs[0] ? at::empty_like(x) : at::Tensor(),
          needs[1] ? at::empty_like(kernels) : at::Tensor()};
}

}  // namespace

void register_meta_dynamic_filter(Registration& registration) {
  registration.under(c10::DispatchKey::Meta).impl("dynamic_filter", &dynamic_filter_meta);
  registration.under(c10::DispatchKey::Meta)
      .impl("dynamic_filter_backward", &dynamic_filter_backward_meta);
}

}  // namespace hdfnet::ops
