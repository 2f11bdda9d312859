#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace hdfnet::ops::cuda {

enum class Type : int { kFloat, kDouble, kHalf, kBFloat16 };

/// Bytes of an element, of all types but double.
inline int size_of(Type type) {
  return type == Type::kFloat ? 4 : 2;
}

/// Branches that one launch takes; the host splits calls with more.
inline constexpr int kMaxBranches = 32;

/// One launch of dynamic_filter, without ATen so that the .cu files stay quick to compile. Strides
/// are in elements; `out` is the whole result, of which branch b fills channels (first_branch + b +
/// concat_input) * C onwards.
struct FilterArguments {
  const void* x;
  const void* kernels;
  void* out;
  Type type;
  int64_t batch, branches, channels, height, width;
  int kernel_size;
  bool concat_input;         // this launch also copies x to the front of out
  int64_t output_channel;    // the first channel that branch 0 of this launch writes
  int64_t x_stride[4];       // N, C, H, W
  int64_t kernel_stride[6];  // N, B, C, K*K, H, W
  int64_t out_stride[4];     // N, C, H, W
  int dilation[kMaxBranches];
};

/// One launch of either gradient of dynamic_filter. `filter` holds x and kernels; its out is not
/// used.
struct FilterGradientArguments {
  FilterArguments filter;
  const void* grad;        // of the filter's result
  int64_t grad_stride[4];  // N, C, H, W
  void* out;               // the gradient of x, or of kernels
  int64_t out_stride[6];   // N, C, H, W of x; or N, B, C, K*K, H, W of kernels
  bool add_to_out;         // for x: the launches before this one did other branches
};

/// Any strides, any sizes.
cudaError_t launch_filter_gradient_of_input(const FilterGradientArguments& arguments,
                                            cudaStream_t stream);
cudaError_t launch_filter_gradient_of_kernels(const FilterGradientArguments& arguments,
                                              cudaStream_t stream);

/// NCHW, K <= 7, not float64; `of_kernels` says which gradient. They may be launched only where it
/// says yes; `why` (may be null) gets the reason of a no.
bool can_run_filter_gradient_planes(const FilterGradientArguments& arguments, bool of_kernels,
                                    std::string* why);
cudaError_t launch_filter_gradient_of_input_planes(const FilterGradientArguments& arguments,
                                                   cudaStream_t stream);
cudaError_t launch_filter_gradient_of_kernels_planes(const FilterGradientArguments& arguments,
                                                     cudaStream_t stream);

/// The same for channels_last with kernels as a convolution gives them: K 3, and that of kernels
/// also for K 5 and 7; not float64.
bool can_run_filter_gradient_pixels(const FilterGradientArguments& arguments, bool of_kernels,
                                    std::string* why);
cudaError_t launch_filter_gradient_of_input_pixels(const FilterGradientArguments& arguments,
                                                   cudaStream_t stream);
cudaError_t launch_filter_gradient_of_kernels_pixels(const FilterGradientArguments& arguments,
                                                     cudaStream_t stream);

/// Each launch_X may be called only where can_run_X says yes; `why` (may be null) gets the reason
/// of a no. Launches are asynchronous and return the launch's own error.

/// NCHW with dense planes, K <= 7, not float64.
bool can_run_filter_planes(const FilterArguments& arguments, std::string* why);
cudaError_t launch_filter_planes(const FilterArguments& arguments, cudaStream_t stream);

/// The same for K 3: one latency instead of two.
bool can_run_filter_direct(const FilterArguments& arguments, std::string* why);
cudaError_t launch_filter_direct(const FilterArguments& arguments, cudaStream_t stream);

/// The same where everything is aligned to 16 bytes, on compute capability 9.0, K 3, 5 or 7: taps
/// come by the copy engine.
bool can_run_filter_ring(const FilterArguments& arguments, std::string* why);
cudaError_t launch_filter_ring(const FilterArguments& arguments, cudaStream_t stream);
/// Whether it is the faster one where it can run.
bool filter_ring_pays(const FilterArguments& arguments, std::string* why);

/// channels_last with kernels as a convolution gives them, K 3, 5 or 7, not float64.
bool can_run_filter_pixels(const FilterArguments& arguments, std::string* why);
cudaError_t launch_filter_pixels(const FilterArguments& arguments, cudaStream_t stream);

/// The same for K 3: one latency, no barriers.
bool can_run_filter_direct_pixels(const FilterArguments& arguments, std::string* why);
cudaError_t launch_filter_direct_pixels(const FilterArguments& arguments, cudaStream_t stream);

/// Any strides, any sizes; the slowest.
cudaError_t launch_filter_strided(const FilterArguments& arguments, cudaStream_t stream);

}  // namespace hdfnet::ops::cuda
