#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace hdfnet::ops {

/// Each raises c10::Error, naming the operator, the expected and the actual value, unless the
/// arguments fit.
void check_concat_conv2d(at::TensorList inputs, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias, int64_t groups,
                         const char* op = "hdfnet::concat_conv2d");
void check_conv2d_pool(at::TensorList inputs, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias,
                       const std::optional<at::Tensor>& side_weight,
                       const std::optional<at::Tensor>& side_bias);
void check_conv2d_head(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const at::Tensor& head_weight, const at::Tensor& head_bias);
void check_bias_relu(const at::Tensor& y, const at::Tensor& bias,
                     const std::optional<at::Tensor>& other);
void check_conv2d_add(const at::Tensor& x, const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias, const at::Tensor& other);
void check_upsample_add(const at::Tensor& x, const at::Tensor& y);
void check_upsample_bilinear2d(const at::Tensor& x, int64_t height, int64_t width);
void check_stem_conv2d(const at::Tensor& x, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, int64_t stride);
void check_max_pool2d(const at::Tensor& x, int64_t kernel_size, int64_t stride, int64_t padding);

}  // namespace hdfnet::ops
