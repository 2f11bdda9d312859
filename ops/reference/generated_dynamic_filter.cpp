#include "hdfnet/ops/generated_dynamic_filter.h"

#include <ATen/ops/matmul.h>
#include <ATen/ops/stack.h>

#include "common/check.h"
#include "hdfnet/ops/dynamic_filter.h"

namespace hdfnet::ops {

at::Tensor generated_dynamic_filter_reference(const at::Tensor& x, const at::Tensor& y,
                                              const at::Tensor& weight,
                                              const std::optional<at::Tensor>& bias,
                                              at::IntArrayRef dilations, bool concat_input) {
  const auto s = check_generated_dynamic_filter<int64_t>(
      "hdfnet::generated_dynamic_filter_reference", x, y, weight, bias, dilations);
  const auto exact = [](const at::Tensor& tensor) { return tensor.to(at::kCPU, at::kDouble); };
  const at::Tensor source = exact(y).flatten(3);  // (N, G, Cy, H*W)
  const at::Tensor rows = exact(weight);
  std::vector<at::Tensor> branches;
  for (int64_t b = 0; b < s.filter.branches; ++b) {
    at::Tensor taps = at::matmul(rows[b], source.select(1, s.groups == 1 ? 0 : b));
    if (bias.has_value() && bias->defined()) taps.add_(exact(*bias)[b].unsqueeze(1));
    branches.push_back(taps);
  }
  const auto& f = s.filter;
  const at::Tensor kernels = at::stack(branches, 1)
                                 .view({f.batch, f.branches, f.channels,
                                        f.kernel_size * f.kernel_size, f.height, f.width});
  return dynamic_filter_reference(exact(x), kernels, dilations, concat_input);
}

}  // namespace hdfnet::ops
