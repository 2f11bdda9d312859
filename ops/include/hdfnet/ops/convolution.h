#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "hdfnet/ops/library.h"

namespace hdfnet::ops {

/// A convolution of a concatenation that is never made: inputs are read where they lie.
///
///   result[:, group g] = [relu](conv2d(cat(inputs[0][:, group g], inputs[1][:, group g], ...),
///                               weight[group g], bias[group g], padding = K/2))
///
/// inputs  one or more (N, groups * C_i, H, W), of one type and device
/// weight  (O, C_0 + C_1 + ..., K, K), K odd, O a multiple of groups
/// bias    (O), or none
/// returns (N, O, H, W), in channels_last where inputs[0] is, else contiguous
///
/// On CUDA, fp16 and bf16 with K 1 or 3, channels_last inputs and weight, and all channel counts of
/// a group in sixteens run as one kernel, summed in float32; slices of a channels_last map are read
/// in place. Everything else, and calls that need a gradient, concatenate and call conv2d. Raises
/// c10::Error naming the expected and the actual value.
at::Tensor concat_conv2d(at::TensorList inputs, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias, int64_t groups = 1,
                         bool relu = false);

/// The end of a network that gives one map: sigmoid(conv2d(relu(conv2d(x, weight, bias, padding =
/// K/2)), head_weight, head_bias)).
///
/// x            (N, C, H, W)
/// weight, bias (O, C, K, K) and (O), K odd
/// head_weight  (1, O, 1, 1)
/// head_bias    (1)
/// returns      (N, 1, H, W), contiguous float32 (float64 for float64)
///
/// One kernel where concat_conv2d has one and O is 32 or 64; the maps between are not stored.
at::Tensor conv2d_head(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const at::Tensor& head_weight, const at::Tensor& head_bias);

/// y + x brought to y's size, bilinearly with align_corners = false.
///
/// x       (N, C, h, w)
/// y       (N, C, H, W)
/// returns (N, C, H, W), in channels_last where y is, else contiguous
at::Tensor upsample_add(const at::Tensor& x, const at::Tensor& y);

}  // namespace hdfnet::ops
