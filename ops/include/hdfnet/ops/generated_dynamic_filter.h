#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <tuple>

#include "hdfnet/ops/library.h"

namespace hdfnet::ops {

/// dynamic_filter with taps that a 1x1 convolution makes of `y`, without storing them:
///
///   kernels[n, b, c, t, h, w] = bias[b, c*K*K + t] + sum over s of
///       weight[b, c*K*K + t, s] * y[n, b or 0, s, h, w]
///   result = dynamic_filter(x, kernels, dilations, concat_input)
///
/// x            (N, C, H, W)
/// y            (N, G, Cy, H, W), G = 1 (one y for all branches) or B = dilations.size()
/// weight       (B, C*K*K, Cy), K odd
/// bias         (B, C*K*K), or none
/// dilations    in pixels, each >= 1; may repeat
/// concat_input puts `x` in front of the results along the channels
/// returns      (N, (B + concat_input) * C, H, W), in channels_last where `x` is, else contiguous
///
/// Types, strides, streams and errors as for dynamic_filter. Sums are kept in float32 (float64 for
/// float64). On CUDA, float32 uses TF32 products where
/// at::globalContext().allowTF32CuBLAS() (torch.backends.cuda.matmul.allow_tf32) does.
at::Tensor generated_dynamic_filter(const at::Tensor& x, const at::Tensor& y,
                                    const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                    at::IntArrayRef dilations, bool concat_input = false);

/// The gradients of generated_dynamic_filter in x, y, weight and bias; `needs` says which are
/// wanted, the others returned are undefined. Those of x and y lie in memory as x and y do, those
/// of weight and bias are contiguous.
///
/// The taps are made again. On CUDA from compute capability 8.0 on, for K 3, dilations up to 8 and
/// 32 branches at most, they are used where they are made: in fp16 and bf16 with C a multiple of 16
/// and Cy <= 64 of 8 (maps in NCHW are copied to channels_last first), where a block may have the
/// shared memory (106 KB for dilations up to 5 and Cy 64), and in float32 unless TF32 is allowed
/// for more than 16 channels of y and 32768 pixels. Elsewhere they are in memory for one branch and
/// a part of the batch: at most 256 MiB, or what one image takes, and as much for their gradient.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> generated_dynamic_filter_backward(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
    const std::optional<at::Tensor>& bias, at::IntArrayRef dilations, bool concat_input,
    std::array<bool, 4> needs);

/// generated_dynamic_filter through dynamic_filter_reference, in float64 on the CPU.
at::Tensor generated_dynamic_filter_reference(const at::Tensor& x, const at::Tensor& y,
                                              const at::Tensor& weight,
                                              const std::optional<at::Tensor>& bias,
                                              at::IntArrayRef dilations, bool concat_input = false);

}  // namespace hdfnet::ops
