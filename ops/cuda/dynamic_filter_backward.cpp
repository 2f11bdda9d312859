#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "cuda/arguments_from_tensors.h"
#include "cuda/check_launch.h"
#include "registration.h"

namespace hdfnet::ops {
namespace {

// The fastest kernels that can run the call; every call has some.
cudaError_t launch_of_input(const cuda::FilterGradientArguments& arguments, cudaStream_t stream) {
  return cuda::can_run_filter_gradient_planes(arguments, false, nullptr)
             ? cuda::launch_filter_gradient_of_input_planes(arguments, stream)
         : cuda::can_run_filter_gradient_pixels(arguments, false, nullptr)
             ? cuda::launch_filter_gradient_of_input_pixels(arguments, stream)
             : cuda::launch_filter_gradient_of_input(arguments, stream);
}
cudaError_t launch_of_kernels(const cuda::FilterGradientArguments& arguments, cudaStream_t stream) {
  return cuda::can_run_filter_gradient_planes(arguments, true, nullptr)
             ? cuda::launch_filter_gradient_of_kernels_planes(arguments, stream)
         : cuda::can_run_filter_gradient_pixels(arguments, true, nullptr)
             ? cuda::launch_filter_gradient_of_kernels_pixels(arguments, stream)
             : cuda::launch_filter_gradient_of_kernels(arguments, stream);
}

// The gradient with its columns, or channels, next to each other where x has them so: an expanded
// one, as of a sum, or one in the other format would leave all to the kernels for any strides.
at::Tensor as_x_lies(const at::Tensor& x, const at::Tensor& grad) {
  const auto format = x.suggest_memory_format();
  const int64_t axis = format == at::MemoryFormat::ChannelsLast ? 1 : 3;
  return grad.size(axis) == 1 || grad.stride(axis) == 1 ? grad : grad.contiguous(format);
}

std::tuple<at::Tensor, at::Tensor> dynamic_filter_backward_cuda(
    const at::Tensor& given_grad, const at::Tensor& x, const at::Tensor& kernels,
    at::IntArrayRef dilations, bool concat_input, std::array<bool, 2> needs) {
  const char* op = "hdfnet::dynamic_filter_backward";
  const auto sizes = check_dynamic_filter<int64_t>(op, x, kernels, dilations);
  check_filter_gradient(op, given_grad, x, sizes, concat_input);
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor grad = as_x_lies(x, given_grad);
  at::Tensor grad_x = needs[0] ? at::empty_like(x) : at::Tensor();
  at::Tensor grad_kernels = needs[1] ? at::empty_like(kernels) : at::Tensor();
  if (x.numel() == 0) return {grad_x, grad_kernels};

  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
  for (int64_t first = 0; first < sizes.branches; first += cuda::kMaxBranches) {
    cuda::FilterGradientArguments arguments{};
    arguments.filter =
        cuda::filter_arguments(x, kernels, grad, sizes, dilations, concat_input, first);
    arguments.grad = grad.const_data_ptr();
    std::copy_n(grad.strides().begin(), 4, arguments.grad_stride);
    arguments.add_to_out = first > 0;
    if (needs[0]) {
      arguments.out = grad_x.mutable_data_ptr();
      std::copy_n(grad_x.strides().begin(), 4, arguments.out_stride);
      cuda::check_launch(op, launch_of_input(arguments, stream));
    }
    if (needs[1]) {
      arguments.out =
          static_cast<char*>(grad_kernels.mutable_data_ptr()) +
          first * grad_kernels.stride(1) * static_cast<int64_t>(grad_kernels.element_size());
      std::copy_n(grad_kernels.strides().begin(), 6, arguments.out_stride);
      cuda::check_launch(op, launch_of_kernels(arguments, stream));
    }
  }
  return {grad_x, grad_kernels};
}

}  // namespace

void register_cuda_dynamic_filter_backward(Registration& registration) {
  registration.under(c10::DispatchKey::CUDA)
      .impl("dynamic_filter_backward", &dynamic_filter_backward_cuda);
}

}  // namespace hdfnet::ops
