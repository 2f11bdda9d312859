#pragma once

#include <string>

#include "cuda/filter_arguments.h"

namespace hdfnet::ops::cuda {

inline constexpr int kMaxConvolutionInputs = 8;

/// One map that a convolution reads, in channels_last.
struct ConvolutionInput {
  const void* data;
  int64_t pixel_stride;    ///< elements from one pixel to the next; rows and images follow densely
  int64_t group_channels;  ///< channels of a group
};

/// One launch of concat_conv2d. The output is dense channels_last.
struct ConcatConvolutionArguments {
  ConvolutionInput input[kMaxConvolutionInputs];
  int inputs;
  bool
      inputs_are_dense;  ///< each has pixel strides as described above, channels next to each other
  const void* weight;    ///< (groups * group_outputs, K, K, group_inputs), dense
  const void* bias;      ///< (groups * group_outputs), or null
  void* out;
  Type type;
  int64_t batch, height, width;
  int64_t groups, group_inputs, group_outputs;
  int kernel_size;
  bool relu;
  // conv2d_head only, else null: 1x1 to one channel and a sigmoid follow, and `out` is not written.
  const void* head_weight;  ///< (group_outputs)
  const void* head_bias;    ///< (1)
  float* head_out;          ///< (N, 1, H, W)
  // conv2d_pool only, else null: the 2x2 maximum and, if there is a side, a 1x1 convolution of the
  // result are written in place of `out`.
  void* pool_out;           ///< (N, H / 2, W / 2, group_outputs)
  const void* side_weight;  ///< (side_outputs, group_outputs), dense
  const void* side_bias;    ///< (side_outputs)
  void* side_out;           ///< (N, H, W, side_outputs)
  int64_t side_outputs;
};

/// fp16 and bf16; K 1 or 3; channels of each group of each input and of the output in sixteens.
bool can_run_concat_conv2d_mma(const ConcatConvolutionArguments& arguments, std::string* why);
cudaError_t launch_concat_conv2d_mma(const ConcatConvolutionArguments& arguments,
                                     cudaStream_t stream);

/// The same result where there is one input and one group, K 1, channels in sixty-fours and outputs
/// in thirty-twos: bound by memory, which this form reads in whole pixels.
bool can_run_pointwise_conv2d_mma(const ConcatConvolutionArguments& arguments, std::string* why);
cudaError_t launch_pointwise_conv2d_mma(const ConcatConvolutionArguments& arguments,
                                        cudaStream_t stream);

/// fp16 and bf16 on compute capability 9.0; 3x3 without groups; channels of every input and of the
/// output in 64s; enough tiles of 16 x 16 pixels to fill the card.
bool can_run_concat_conv2d_wgmma(const ConcatConvolutionArguments& arguments, std::string* why);
cudaError_t launch_concat_conv2d_wgmma(const ConcatConvolutionArguments& arguments,
                                       cudaStream_t stream);

}  // namespace hdfnet::ops::cuda
