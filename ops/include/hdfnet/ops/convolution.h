#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <tuple>

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
/// in place. On compute capability 9.0, K 3 without groups and with all channels in 64s has a
/// kernel of its own. Everything else, and calls that need a gradient, concatenate and call conv2d.
/// Raises c10::Error naming the expected and the actual value.
at::Tensor concat_conv2d(at::TensorList inputs, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias, int64_t groups = 1,
                         bool relu = false);

/// Whether concat_conv2d has its kernel of compute capability 9.0 for these; `why` is told why not.
bool concat_conv2d_is_wide(at::TensorList inputs, const at::Tensor& weight,
                           const std::optional<at::Tensor>& bias, int64_t groups = 1,
                           std::string* why = nullptr);

/// The end of an encoder's stage: y = relu(concat_conv2d(inputs, weight, bias)), of which only the
/// 2x2 maximum and, if asked for, a 1x1 convolution are wanted.
///
/// inputs       one or more (N, C_i, H, W), H and W at least 2
/// weight, bias (O, C_0 + C_1 + ..., K, K), K odd, and (O) or none
/// side_weight  (S, O, 1, 1), or none
/// side_bias    (S), or none if there is no side_weight
/// returns      max_pool2d(y, 2) (N, O, H / 2, W / 2) and conv2d(y, side_weight, side_bias)
///              (N, S, H, W), empty without side_weight; layout as of concat_conv2d
///
/// One kernel in fp16 and bf16 on compute capability 9.0, where y is not stored: channels_last, K
/// 3, channels in 64s, S half of an O of 64 or 128. Everything else runs step by step.
std::tuple<at::Tensor, at::Tensor> conv2d_pool(
    at::TensorList inputs, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    const std::optional<at::Tensor>& side_weight = std::nullopt,
    const std::optional<at::Tensor>& side_bias = std::nullopt);

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

/// The end of a residual block: [relu](conv2d(x, weight, bias, padding = K/2) + other).
///
/// x       (N, C, H, W)
/// weight  (O, C, K, K), K odd
/// bias    (O), or none
/// other   (N, O, H, W)
/// returns as other, in channels_last where it is, else contiguous
///
/// One kernel in fp16 and bf16 on compute capability 9.0, where the sum is rounded once:
/// channels_last, K 1, C in 64s up to 512, O in 128s, and pixels enough for the card. Elsewhere on
/// CUDA conv2d and bias_relu_.
at::Tensor conv2d_add(const at::Tensor& x, const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias, const at::Tensor& other,
                      bool relu = true);

/// y + x brought to y's size, bilinearly with align_corners = false.
///
/// x       (N, C, h, w)
/// y       (N, C, H, W)
/// returns (N, C, H, W), in channels_last where y is, else contiguous
///
/// One kernel on CUDA in channels_last, but for float64; mixed in float32.
at::Tensor upsample_add(const at::Tensor& x, const at::Tensor& y);

/// at::upsample_bilinear2d to a size, with the kernel of upsample_add.
///
/// x       (N, C, h, w)
/// returns (N, C, height, width), in channels_last where x is, else contiguous
at::Tensor upsample_bilinear2d(const at::Tensor& x, int64_t height, int64_t width,
                               bool align_corners = false);

/// A network's first convolution: [relu](conv2d(x in weight's type, weight, bias, stride, padding =
/// K/2)).
///
/// x       (N, C, H, W), of any floating type and layout; rounded to weight's type
/// weight  (O, C, K, K), K odd
/// bias    (O) in weight's type, or none
/// returns (N, O, (H - 1) / stride + 1, (W - 1) / stride + 1) in weight's type, channels_last
///
/// On CUDA, fp16 and bf16 weights with C 1 or 3, O in sixty-fours, K 3 with stride 1 or K 7 with
/// stride 2, and x in float32 or weight's type run as one kernel that reads x where it lies, summed
/// in float32; so do float32 weights and x with K 3, never in TF32. Everything else, and calls that
/// need a gradient, convert x and call conv2d. Raises c10::Error naming the expected and the actual
/// value.
at::Tensor stem_conv2d(const at::Tensor& x, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, int64_t stride = 1,
                       bool relu = false);

/// y = [relu](y + bias [+ other]), in place and in one pass: for convolutions whose library cannot.
///
/// None of them may need a gradient.
///
/// y       (N, C, H, W)
/// bias    (C)
/// other   as y, or none
/// returns y
at::Tensor& bias_relu_(at::Tensor& y, const at::Tensor& bias,
                       const std::optional<at::Tensor>& other = std::nullopt, bool relu = true);

/// at::max_pool2d, dilation 1, without the indices that it stores for a gradient.
///
/// x       (N, C, H, W)
/// padding at most kernel_size / 2, as in ATen
/// returns (N, C, (H + 2 * padding - kernel_size) / stride + 1, the same of W), in channels_last
///         where x is, else contiguous
///
/// On CUDA, 2x2 without padding or 3x3 with padding 1, and stride 2 run as one kernel: fp16 and
/// bf16 in channels_last with channels in eights, float32 in either layout, channels_last in fours;
/// everything else, and calls that need a gradient, as at::max_pool2d. NaN wins over every number
/// in both.
at::Tensor max_pool2d(const at::Tensor& x, int64_t kernel_size, int64_t stride,
                      int64_t padding = 0);

}  // namespace hdfnet::ops
