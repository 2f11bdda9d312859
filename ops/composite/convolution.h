#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace hdfnet::ops {

/// The convolution operators out of ATen's own: for devices and types without a kernel, and where a
/// gradient is needed.
at::Tensor concat_conv2d_composite(at::TensorList inputs, const at::Tensor& weight,
                                   const std::optional<at::Tensor>& bias, int64_t groups,
                                   bool relu);
std::tuple<at::Tensor, at::Tensor> conv2d_pool_composite(
    at::TensorList inputs, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    const std::optional<at::Tensor>& side_weight, const std::optional<at::Tensor>& side_bias);
at::Tensor conv2d_head_composite(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& bias, const at::Tensor& head_weight,
                                 const at::Tensor& head_bias);
void bias_relu_composite(at::Tensor& y, const at::Tensor& bias,
                         const std::optional<at::Tensor>& other, bool relu);
at::Tensor conv2d_add_composite(const at::Tensor& x, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias, const at::Tensor& other,
                                bool relu);
at::Tensor upsample_add_composite(const at::Tensor& x, const at::Tensor& y);
at::Tensor upsample_bilinear2d_composite(const at::Tensor& x, int64_t height, int64_t width,
                                         bool align_corners);
at::Tensor stem_conv2d_composite(const at::Tensor& x, const at::Tensor& weight,
                                 const std::optional<at::Tensor>& bias, int64_t stride, bool relu);
at::Tensor max_pool2d_composite(const at::Tensor& x, int64_t kernel_size, int64_t stride,
                                int64_t padding);

}  // namespace hdfnet::ops
