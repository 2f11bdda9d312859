// The gradients of generated_dynamic_filter, on every device, from matrix products and the
// gradients of dynamic_filter. The taps and their gradients exist for a part of the batch of one
// branch at a time.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "common/check.h"
#include "hdfnet/ops/dynamic_filter.h"
#include "registration.h"

namespace hdfnet::ops {
namespace {

constexpr int64_t kScratchBytes = int64_t{256}
                                  << 20;  // for the taps of a part; the gradient doubles it

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> generated_dynamic_filter_backward_parts(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
    const std::optional<at::Tensor>& bias, at::IntArrayRef dilations, bool concat_input,
    std::array<bool, 4> needs) {
  const char* op = "hdfnet::generated_dynamic_filter_backward";
  const auto s = check_generated_dynamic_filter<int64_t>(op, x, y, weight, bias, dilations);
  const auto& f = s.filter;
  check_filter_gradient(op, grad, x, f, concat_input);
  const bool has_bias = bias.has_value() && bias->defined();

  const auto zeros = [](const at::Tensor& tensor) {
    return at::zeros_like(tensor, tensor.options(), at::MemoryFormat::Contiguous);
  };
  at::Tensor grad_x, grad_y, grad_weight, grad_bias;
  if (needs[0]) {
    grad_x = at::zeros_like(x);
    if (concat_input) grad_x.copy_(grad.narrow(1, 0, f.channels));
  }
  if (needs[1]) grad_y = zeros(y);
  if (needs[2]) grad_weight = zeros(weight);
  if (needs[3] && has_bias) grad_bias = zeros(*bias);
  const bool needs_taps_gradient = needs[1] || needs[2] || (needs[3] && has_bias);

  const int64_t rows = f.channels * f.kernel_size * f.kernel_size;
  const int64_t bytes_each =
      std::max<int64_t>(1, rows * f.height * f.width * static_cast<int64_t>(x.element_size()));
  const int64_t part = std::max<int64_t>(1, kScratchBytes / bytes_each);
  const int64_t skipped = concat_input ? 1 : 0;
  for (int64_t n = 0; n < f.batch; n += part) {
    const int64_t count = std::min(part, f.batch - n);
    for (int64_t b = 0; b < f.branches; ++b) {
      const int64_t group = s.groups == 1 ? 0 : b;
      const at::Tensor source = y.narrow(0, n, count).select(1, group).flatten(2);
      at::Tensor taps = at::matmul(weight[b], source);
      if (has_bias) taps.add_((*bias)[b].unsqueeze(1));
      const at::Tensor kernels =
          taps.view({count, 1, f.channels, f.kernel_size * f.kernel_size, f.height, f.width});
      auto [part_x, part_kernels] = dynamic_filter_backward(
          grad.narrow(0, n, count).narrow(1, (skipped + b) * f.channels, f.channels),
          x.narrow(0, n, count), kernels, dilations[b], false, {needs[0], needs_taps_gradient});
      if (needs[0]) grad_x.narrow(0, n, count).add_(part_x);
      if (!needs_taps_gradient) continue;
      const at::Tensor grad_taps = part_kernels.reshape({count, rows, f.height * f.width});
      if (needs[1]) {
        grad_y.narrow(0, n, count)
            .select(1, group)
            .add_(at::matmul(weight[b].t(), grad_taps)
                      .view_as(grad_y.narrow(0, n, count).select(1, group)));
      }
      if (needs[2]) grad_weight[b].add_(at::matmul(grad_taps, source.transpose(1, 2)).sum(0));
      if (grad_bias.defined()) grad_bias[b].add_(grad_taps.sum(at::IntArrayRef({0, 2})));
    }
  }
  return {grad_x, grad_y, grad_weight, grad_bias};
}

}  // namespace

void register_composite_generated_dynamic_filter_backward(Registration& registration) {
  registration.under(c10::DispatchKey::CPU)
      .impl("generated_dynamic_filter_backward", &generated_dynamic_filter_backward_parts);
  registration.under(c10::DispatchKey::CUDA)
      .impl("generated_dynamic_filter_backward", &generated_dynamic_filter_backward_parts);
}

}  // namespace hdfnet::ops
