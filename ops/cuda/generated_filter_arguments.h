#pragma once

#include <algorithm>

#include "cuda/filter_arguments.h"

namespace hdfnet::ops::cuda {

/// One launch of generated_dynamic_filter. Strides are in elements.
struct GeneratedFilterArguments {
  const void* x;
  const void* y;
  const void* weight;  // (B, C*K*K, Cy)
  const void* bias;    // (B, C*K*K), or null
  void* out;
  Type type;
  bool allow_tf32;  // float only
  int64_t batch, branches, groups, channels, source_channels, height, width;
  int kernel_size;
  bool concat_input;
  int64_t output_channel;
  int64_t x_stride[4];       // N, C, H, W
  int64_t y_stride[5];       // N, G, Cy, H, W
  int64_t weight_stride[3];  // B, C*K*K, Cy
  int64_t bias_stride[2];    // B, C*K*K
  int64_t out_stride[4];     // N, C, H, W
  int dilation[kMaxBranches];
};

inline bool writes_channels_last(const GeneratedFilterArguments& a) {
  return a.out_stride[1] == 1 && (a.height > 1 || a.width > 1 || a.channels == 1);
}

inline int largest_dilation(const GeneratedFilterArguments& a) {
  return *std::max_element(a.dilation, a.dilation + a.branches);
}

/// Tensor cores fed by warpgroups, on compute capability 9.0: what can_stage_generated_filter
/// takes, with dilations up to 8.
bool can_run_generated_filter_wgmma(const GeneratedFilterArguments& arguments, std::string* why);
cudaError_t launch_generated_filter_wgmma(const GeneratedFilterArguments& arguments,
                                          cudaStream_t stream);

/// Of these NCHW, planes in one piece whose rows are multiples of 8 pixels and short enough to be
/// kept on chip (88 at dilation 5).
bool can_run_generated_filter_wgmma_runs(const GeneratedFilterArguments& arguments,
                                         std::string* why);
cudaError_t launch_generated_filter_wgmma_runs(const GeneratedFilterArguments& arguments,
                                               cudaStream_t stream);
/// Whether that is faster than rectangular tiles.
bool generated_filter_runs_pay(const GeneratedFilterArguments& arguments, std::string* why);

/// Warpgroups for TF32, K 3, everything in one format and aligned to 16 bytes, dilations up to 8.
bool can_run_generated_filter_wgmma_tf32(const GeneratedFilterArguments& arguments,
                                         std::string* why);
cudaError_t launch_generated_filter_wgmma_tf32(const GeneratedFilterArguments& arguments,
                                               cudaStream_t stream);
/// What that launches for NCHW.
cudaError_t launch_generated_filter_wgmma_tf32_planes(const GeneratedFilterArguments& arguments,
                                                      cudaStream_t stream);

/// Tensor cores: fp16, bf16 and, where TF32 is allowed, float; C a multiple of 16, Cy <= 64 of 8.
bool can_run_generated_filter_mma(const GeneratedFilterArguments& arguments, std::string* why);
cudaError_t launch_generated_filter_mma(const GeneratedFilterArguments& arguments,
                                        cudaStream_t stream);

// The forms of that kernel, where it can run; with neither, y goes straight to registers.

/// Two-byte types: x and y go 16 bytes at a time through shared memory. Without it each thread of
/// an NCHW call reads 64 single halves of y.
bool can_stage_generated_filter(const GeneratedFilterArguments& arguments, std::string* why);

/// TF32: twice the pixels a warp halve the reads of weights, which bound the kernel, and halve the
/// number of loads of y that blocks can take in turns. So not where y comes from memory: where one
/// block alone reads it, and whole lines at a time (channels_last).
bool can_widen_generated_filter(const GeneratedFilterArguments& arguments, std::string* why);

/// Float in exact arithmetic, K 3, dilations up to 8, any strides.
bool can_run_generated_filter_simt(const GeneratedFilterArguments& arguments, std::string* why);
cudaError_t launch_generated_filter_simt(const GeneratedFilterArguments& arguments,
                                         cudaStream_t stream);
/// Whether it is faster than the form of tensor cores that takes everything, where TF32 is allowed.
bool generated_filter_simt_pays(const GeneratedFilterArguments& arguments, std::string* why);

/// Any sizes, strides and types, in exact arithmetic of the sum's type.
cudaError_t launch_generated_filter_scalar(const GeneratedFilterArguments& arguments,
                                           cudaStream_t stream);

}  // namespace hdfnet::ops::cuda
