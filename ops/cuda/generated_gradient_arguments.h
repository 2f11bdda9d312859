#pragma once

#include "cuda/generated_filter_arguments.h"

namespace hdfnet::ops::cuda {

/// The gradients of one call of generated_dynamic_filter, on tensor cores. Everything is dense,
/// maps are channels_last, and all pointers are aligned to 16 bytes. What is null is not wanted.
struct GeneratedGradientArguments {
  const void* grad;    // (N, H, W, grad_channels), of the result
  const void* x;       // (N, H, W, C)
  const void* y;       // (N, H, W, G * Cy)
  const void* weight;  // (B, C*9, Cy)
  const void* bias;    // (B, C*9), or null
  void* grad_x;        // as x
  void* grad_y;        // as y
  void* grad_weight;   // as weight
  void* grad_bias;     // as bias
  float* partial;      // generated_gradient_scratch() of them; for weight and bias alone
  Type type;
  int64_t batch;
  int branches, groups, channels, source_channels, height, width;
  bool concat_input;  // grad begins with the channels of x
  int dilation[kMaxBranches];
};

/// fp16 and bf16, K 3, C a multiple of 16, Cy <= 64 of 8, dilations up to 8, compute
/// capability 8.0. Looks at sizes and type alone.
bool can_run_generated_gradient(const GeneratedGradientArguments& arguments, int kernel_size,
                                std::string* why);

/// Floats of scratch that the gradients of weight and bias need on the current device.
int64_t generated_gradient_scratch(const GeneratedGradientArguments& arguments);

cudaError_t launch_generated_gradient(const GeneratedGradientArguments& arguments,
                                      cudaStream_t stream);

/// The same in exact float32, by ordinary arithmetic. Strides are in elements; weight's and bias's
/// gradients are dense, (B, C*9, Cy) and (B, C*9).
struct GeneratedGradientSimtArguments {
  GeneratedFilterArguments filter;  // x, y, weight, bias; out and its strides are not used
  const float* grad;                // of the result
  int64_t grad_stride[4];           // N, C, H, W
  float* grad_x;
  int64_t grad_x_stride[4];  // N, C, H, W
  float* grad_y;
  int64_t grad_y_stride[5];  // N, G, Cy, H, W
  float* grad_weight;
  float* grad_bias;
  float* partial;  // generated_gradient_simt_scratch() of them; for weight and bias alone
};

/// float32, K 3, dilations up to 8, up to 32 branches, compute capability 8.0.
bool can_run_generated_gradient_simt(const GeneratedGradientSimtArguments& arguments,
                                     std::string* why);
/// Whether it is faster than products by TF32 with taps in memory, where TF32 is allowed.
bool generated_gradient_simt_pays(const GeneratedGradientSimtArguments& arguments,
                                  std::string* why);
/// Bytes of shared memory that a block of weight's gradient needs at least.
int least_shared_of_generated_gradient_of_weight_simt(int largest_dilation);
int64_t generated_gradient_simt_scratch(const GeneratedGradientSimtArguments& arguments);
cudaError_t launch_generated_gradient_of_x_simt(const GeneratedGradientSimtArguments& arguments,
                                                cudaStream_t stream);
cudaError_t launch_generated_gradient_of_y_simt(const GeneratedGradientSimtArguments& arguments,
                                                cudaStream_t stream);
/// Of weight and bias, whichever is not null.
cudaError_t launch_generated_gradient_of_weight_simt(
    const GeneratedGradientSimtArguments& arguments, cudaStream_t stream);

}  // namespace hdfnet::ops::cuda
