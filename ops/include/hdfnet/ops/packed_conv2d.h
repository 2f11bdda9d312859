#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hdfnet/ops/library.h"

// Convolutions of float32 maps on the CPU with weights that were prepared once, 1x1 and 3x3; the
// latter as Winograd's F(2x2, 3x3), 16 products for a 2x2 tile of results in the place of 36. For
// inference: nothing here has a gradient. All functions may be called from several threads at once,
// and raise c10::Error naming the expected and the actual value.

namespace hdfnet::ops {

/// Instruction sets that have kernels and that this processor has, the fastest first ("avx512",
/// "avx2"); empty where packed_conv2d cannot run.
std::vector<std::string_view> packed_conv2d_instruction_sets();

/// Whether packed_conv2d has a kernel here for a weight of these sizes: (O, C / groups, 1, 1) with
/// any stride or (O, C / groups, 3, 3) with stride 1, O / groups and C / groups in sixteens; `why`
/// is told why not.
bool can_run_packed_conv2d(at::IntArrayRef weight_sizes, int64_t stride = 1, int64_t groups = 1,
                           std::string* why = nullptr);

/// A convolution's weight as packed_conv2d takes it; that of a 3x3 is transformed, in float64.
///
/// weight  (O, C / groups, K, K), K 1 or 3, of any floating type; float64 loses nothing before the
///         one rounding
/// returns (groups, panels of 32 outputs, K == 3 ? 16 : 1, C / groups, 32) float32; the last panel
///         of a group is filled up with zeros
at::Tensor pack_conv2d_weight(const at::Tensor& weight, int64_t groups = 1);

struct PackedConv2dOptions {
  int64_t stride = 1;  ///< 1 for 3x3
  bool relu = false;
  std::string_view instruction_set;  ///< if not the first of packed_conv2d_instruction_sets()
};

/// [relu](conv2d(x, weight, bias, stride, padding = K/2, groups) [+ other]).
///
/// x       (N, C, H, W) float32; read in place where channels are neighbours in memory, as in
///         channels_last maps and slices of them
/// weight  pack_conv2d_weight(weight, groups)
/// bias    (O) float32
/// other   (N, O, H', W') float32, or none
/// returns (N, O, H', W'), H' = (H - 1) / stride + 1, channels_last
///
/// A result is the same, bit by bit, whatever the batch, the number of threads and the instruction
/// set. NaN reaches the same results as in a direct convolution. Where a direct convolution gives
/// an infinity, so does this, or NaN, and only there: infinite terms of a tile may cancel.
at::Tensor packed_conv2d(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         const std::optional<at::Tensor>& other = std::nullopt,
                         const PackedConv2dOptions& options = {});

}  // namespace hdfnet::ops
