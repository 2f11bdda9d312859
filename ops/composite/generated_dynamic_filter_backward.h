#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <tuple>

namespace hdfnet::ops {

/// hdfnet::generated_dynamic_filter_backward of matrix products and dynamic_filter's gradients, on
/// every device.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> generated_dynamic_filter_backward_parts(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
    const std::optional<at::Tensor>& bias, at::IntArrayRef dilations, bool concat_input,
    std::array<bool, 4> needs);

}  // namespace hdfnet::ops
