#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <tuple>

#include "hdfnet/ops/library.h"

namespace hdfnet::ops {

/// Filters every position of `x` with its own K x K taps, once for each dilation.
///
///   result[n, b*C + c, h, w] = sum over i, j in [0, K) of
///       x[n, c, h + (i - K/2) * D, w + (j - K/2) * D] * kernels[n, b, c, K*i + j, h, w]
///
/// with D = dilations[b]. Outside of its plane `x` is zero, and still multiplies its tap, as
/// padding with zeros does (an infinite or NaN tap therefore gives NaN there).
///
/// x            (N, C, H, W)
/// kernels      (N, B, C, K*K, H, W), B = dilations.size(), K odd; the taps are used as they are
/// dilations    in pixels, each >= 1; may repeat
/// concat_input puts `x` in front of the results along the channels
/// returns      (N, (B + concat_input) * C, H, W), in channels_last where `x` is, else contiguous
///
/// float32, float64, float16 and bfloat16 (the last two are summed in float32) on the CPU and on
/// CUDA; `x` and `kernels` must agree in type and device. Any strides are accepted and none is
/// copied. Runs on the current stream; differentiable in `x` and `kernels`; under autocast both are
/// cast to autocast's type. Raises c10::Error naming the expected and the actual value.
at::Tensor dynamic_filter(const at::Tensor& x, const at::Tensor& kernels, at::IntArrayRef dilations,
                          bool concat_input = false);

/// The gradients of dynamic_filter.
///
/// grad         (N, (B + concat_input) * C, H, W), the gradient of its result
/// needs        which of the two gradients are wanted; the other one returned is undefined
/// returns      the gradients of x (N, C, H, W) and of kernels (N, B, C, K*K, H, W)
std::tuple<at::Tensor, at::Tensor> dynamic_filter_backward(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& kernels,
    at::IntArrayRef dilations, bool concat_input, std::array<bool, 2> needs);

/// dynamic_filter written for plainness and summed in float64, on the CPU: what the kernels are
/// tested against. Takes what dynamic_filter takes, on any device; returns contiguous float64 on
/// the CPU.
at::Tensor dynamic_filter_reference(const at::Tensor& x, const at::Tensor& kernels,
                                    at::IntArrayRef dilations, bool concat_input = false);

}  // namespace hdfnet::ops
