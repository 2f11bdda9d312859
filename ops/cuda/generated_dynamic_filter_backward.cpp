// The gradients of generated_dynamic_filter on CUDA: taps made and used on chip, on tensor cores or
// in exact float32, where that can be; else as on every device.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <optional>

#include "common/check.h"
#include "composite/generated_dynamic_filter_backward.h"
#include "cuda/arguments_from_tensors.h"
#include "cuda/check_launch.h"
#include "cuda/device_facts.h"
#include "cuda/generated_gradient_arguments.h"
#include "cuda/layout_copy.h"
#include "registration.h"

namespace hdfnet::ops {
namespace {

constexpr const char* kOp = "hdfnet::generated_dynamic_filter_backward";

/// The tensor itself where it is already dense, in that format, and aligned.
at::Tensor dense(const at::Tensor& tensor, at::MemoryFormat format) {
  const at::Tensor result = tensor.contiguous(format);
  return cuda::aligned(result.const_data_ptr()) ? result : result.clone(format);
}

/// The copy of a map of two-byte elements between formats, where `planes` has dense planes.
std::optional<cuda::LayoutCopyArguments> layout_copy(const at::Tensor& planes) {
  const int64_t height = planes.size(2), width = planes.size(3);
  cuda::LayoutCopyArguments a{};
  a.batch = planes.size(0);
  a.channels = planes.size(1);
  a.pixels = height * width;
  a.image_stride = planes.stride(0);
  a.plane_stride = planes.stride(1);
  const bool dense_planes =
      (width == 1 || planes.stride(3) == 1) && (height == 1 || planes.stride(2) == width);
  if (planes.element_size() != 2 || !dense_planes || !cuda::can_copy_layout(a)) return std::nullopt;
  return a;
}

/// dense() of a map, without ATen's copy, which takes several times as long.
at::Tensor dense_channels_last(const at::Tensor& map) {
  auto copy = layout_copy(map);
  if (!copy || map.is_contiguous(at::MemoryFormat::ChannelsLast)) {
    return dense(map, at::MemoryFormat::ChannelsLast);
  }
  at::Tensor result = at::empty_like(map, map.options(), at::MemoryFormat::ChannelsLast);
  copy->from = map.const_data_ptr();
  copy->to = result.mutable_data_ptr();
  cuda::check_launch(
      kOp, cuda::launch_to_channels_last(*copy, c10::cuda::getCurrentCUDAStream().stream()));
  return result;
}

/// (N, G, Cy, H, W) as (N, G * Cy, H, W).
at::Tensor groups_joined(const at::Tensor& y) {
  return y.flatten(1, 2);
}

/// `map`, dense and channels_last, in the shape of `of`: as it lies where it has the strides that
/// the gradient of `of` is to have.
at::Tensor in_format_of(const at::Tensor& of, const at::Tensor& map) {
  const at::Tensor shaped = of.dim() == 5 ? map.unflatten(1, {of.size(1), -1}) : map;
  if (of.is_non_overlapping_and_dense() && of.strides() == shaped.strides()) return shaped;
  at::Tensor result = at::empty_like(of);
  if (result.strides() == shaped.strides()) return shaped;
  if (!result.is_contiguous()) return result.copy_(shaped);
  auto copy = layout_copy(result.view(map.sizes()));
  if (!copy) return result.copy_(shaped);
  copy->from = map.const_data_ptr();
  copy->to = result.mutable_data_ptr();
  cuda::check_launch(kOp,
                     cuda::launch_to_planes(*copy, c10::cuda::getCurrentCUDAStream().stream()));
  return result;
}

void* address_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr() : nullptr;
}

using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// In exact float32, where that can run and is the fastest.
std::optional<Gradients> exact_gradients(const at::Tensor& grad, const at::Tensor& x,
                                         const at::Tensor& y, const at::Tensor& weight,
                                         const std::optional<at::Tensor>& bias,
                                         const GeneratedFilterSizes<int64_t>& sizes,
                                         at::IntArrayRef dilations, bool concat_input,
                                         std::array<bool, 4> needs) {
  if (x.scalar_type() != at::kFloat || sizes.filter.branches > cuda::kMaxBranches) return {};
  cuda::GeneratedGradientSimtArguments a{};
  a.filter =
      cuda::generated_filter_arguments(x, y, weight, bias, x, sizes, dilations, concat_input, 0);
  if (!cuda::can_run_generated_gradient_simt(a, nullptr) ||
      !cuda::generated_gradient_simt_pays(a, nullptr)) {
    return {};
  }
  a.grad = grad.const_data_ptr<float>();
  std::copy_n(grad.strides().begin(), 4, a.grad_stride);
  at::Tensor grad_x, grad_y, grad_weight, grad_bias, partial;
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
  if (needs[0]) {
    grad_x = at::empty_like(x);
    a.grad_x = grad_x.mutable_data_ptr<float>();
    std::copy_n(grad_x.strides().begin(), 4, a.grad_x_stride);
    cuda::check_launch(kOp, cuda::launch_generated_gradient_of_x_simt(a, stream));
  }
  if (needs[1]) {
    grad_y = at::empty_like(y);
    a.grad_y = grad_y.mutable_data_ptr<float>();
    std::copy_n(grad_y.strides().begin(), 5, a.grad_y_stride);
    cuda::check_launch(kOp, cuda::launch_generated_gradient_of_y_simt(a, stream));
  }
  const auto dense_like = [](const at::Tensor& tensor) {
    return at::empty_like(tensor, tensor.options(), at::MemoryFormat::Contiguous);
  };
  if (needs[2]) {
    grad_weight = dense_like(weight);
    a.grad_weight = grad_weight.mutable_data_ptr<float>();
  }
  if (needs[3] && a.filter.bias != nullptr) {
    grad_bias = dense_like(*bias);
    a.grad_bias = grad_bias.mutable_data_ptr<float>();
  }
  if (grad_weight.defined() || grad_bias.defined()) {
    partial = at::empty({cuda::generated_gradient_simt_scratch(a)}, x.options());
    a.partial = partial.mutable_data_ptr<float>();
    cuda::check_launch(kOp, cuda::launch_generated_gradient_of_weight_simt(a, stream));
  }
  return Gradients(grad_x, grad_y, grad_weight, grad_bias);
}

Gradients generated_dynamic_filter_backward_cuda(const at::Tensor& grad, const at::Tensor& x,
                                                 const at::Tensor& y, const at::Tensor& weight,
                                                 const std::optional<at::Tensor>& bias,
                                                 at::IntArrayRef dilations, bool concat_input,
                                                 std::array<bool, 4> needs) {
  const auto sizes = check_generated_dynamic_filter<int64_t>(kOp, x, y, weight, bias, dilations);
  check_filter_gradient(kOp, grad, x, sizes.filter, concat_input);
  const auto& f = sizes.filter;
  const bool has_bias = bias.has_value() && bias->defined();
  const c10::cuda::CUDAGuard guard(x.device());

  cuda::GeneratedGradientArguments a{};
  a.type = cuda::type_of(x);
  a.batch = f.batch;
  a.concat_input = concat_input;
  const auto narrow = [](int64_t size) {  // what does not fit is refused, as too large
    return static_cast<int>(std::min<int64_t>(size, (int64_t{1} << 30) + 1));
  };
  a.branches = narrow(f.branches);
  a.groups = narrow(sizes.groups);
  a.channels = narrow(f.channels);
  a.source_channels = narrow(sizes.source_channels);
  a.height = narrow(f.height);
  a.width = narrow(f.width);
  std::copy_n(dilations.begin(), std::min<int64_t>(f.branches, cuda::kMaxBranches), a.dilation);
  const bool empty = x.numel() == 0 || y.numel() == 0;
  if (empty || !cuda::can_run_generated_gradient(a, static_cast<int>(f.kernel_size), nullptr)) {
    if (!empty) {
      if (const auto exact =
              exact_gradients(grad, x, y, weight, bias, sizes, dilations, concat_input, needs)) {
        return *exact;
      }
    }
    return generated_dynamic_filter_backward_parts(grad, x, y, weight, bias, dilations,
                                                   concat_input, needs);
  }

  const at::Tensor dense_grad = dense_channels_last(grad);
  const at::Tensor dense_x = dense_channels_last(x);
  const at::Tensor dense_y = dense_channels_last(groups_joined(y));
  const at::Tensor dense_weight = dense(weight, at::MemoryFormat::Contiguous);
  const at::Tensor dense_bias =
      has_bias ? dense(*bias, at::MemoryFormat::Contiguous) : at::Tensor();
  const auto like = [](bool wanted, const at::Tensor& tensor, at::MemoryFormat format) {
    return wanted ? at::empty_like(tensor, tensor.options(), format) : at::Tensor();
  };
  at::Tensor grad_x = like(needs[0], dense_x, at::MemoryFormat::ChannelsLast);
  at::Tensor grad_y = like(needs[1], dense_y, at::MemoryFormat::ChannelsLast);
  const at::Tensor grad_weight = like(needs[2], dense_weight, at::MemoryFormat::Contiguous);
  const at::Tensor grad_bias = like(needs[3] && has_bias, dense_bias, at::MemoryFormat::Contiguous);
  at::Tensor partial;
  if (grad_weight.defined() || grad_bias.defined()) {
    partial = at::empty({cuda::generated_gradient_scratch(a)}, x.options().dtype(at::kFloat));
    a.partial = partial.mutable_data_ptr<float>();
  }
  a.grad = dense_grad.const_data_ptr();
  a.x = dense_x.const_data_ptr();
  a.y = dense_y.const_data_ptr();
  a.weight = dense_weight.const_data_ptr();
  a.bias = has_bias ? dense_bias.const_data_ptr() : nullptr;
  a.grad_x = address_of(grad_x);
  a.grad_y = address_of(grad_y);
  a.grad_weight = address_of(grad_weight);
  a.grad_bias = address_of(grad_bias);
  cuda::check_launch(
      kOp, cuda::launch_generated_gradient(a, c10::cuda::getCurrentCUDAStream().stream()));
  if (grad_x.defined()) grad_x = in_format_of(x, grad_x);
  if (grad_y.defined()) grad_y = in_format_of(y, grad_y);
  return {grad_x, grad_y, grad_weight, grad_bias};
}

}  // namespace

void register_cuda_generated_dynamic_filter_backward(Registration& registration) {
  registration.under(c10::DispatchKey::CUDA)
      .impl("generated_dynamic_filter_backward", &generated_dynamic_filter_backward_cuda);
}

}  // namespace hdfnet::ops
