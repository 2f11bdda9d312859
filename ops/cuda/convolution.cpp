// The convolution operators on CUDA: turns tensors into arguments and picks the kernel.
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <optional>

#include "common/check_convolution.h"
#include "composite/convolution.h"
#include "cuda/arguments_from_tensors.h"
#include "cuda/bias_relu_arguments.h"
#include "cuda/check_launch.h"
#include "cuda/concat_conv2d_arguments.h"
#include "cuda/conv2d_add_arguments.h"
#include "cuda/max_pool2d_arguments.h"
#include "cuda/stem_conv2d_arguments.h"
#include "cuda/upsample_arguments.h"
#include "registration.h"

namespace hdfnet::ops {
namespace {

// Pixels of a channels_last map lie a fixed step apart, also in a slice of its channels. Sizes of 1
// leave their stride open.
bool has_dense_pixels(const at::Tensor& map, int64_t step) {
  return (map.size(1) == 1 || map.stride(1) == 1) && (map.size(3) == 1 || map.stride(3) == step) &&
         (map.size(2) == 1 || map.stride(2) == map.size(3) * step) &&
         (map.size(0) == 1 || map.stride(0) == map.size(2) * map.size(3) * step);
}

int64_t pixel_step(const at::Tensor& map) {
  if (map.size(3) > 1) return map.stride(3);
  if (map.size(2) > 1) return map.stride(2);
  return map.size(0) > 1 ? map.stride(0) : map.size(1);
}

cuda::ConcatConvolutionArguments arguments_of(at::TensorList inputs, const at::Tensor& weight,
                                              const std::optional<at::Tensor>& bias, int64_t groups,
                                              bool relu) {
  cuda::ConcatConvolutionArguments a{};
  const at::Tensor& first = inputs[0];
  a.inputs = static_cast<int>(inputs.size());
  a.inputs_are_dense = inputs.size() <= cuda::kMaxConvolutionInputs &&
                       weight.is_contiguous(at::MemoryFormat::ChannelsLast);
  for (size_t i = 0; a.inputs_are_dense && i < inputs.size(); ++i) {
    const int64_t step = pixel_step(inputs[i]);
    a.inputs_are_dense = has_dense_pixels(inputs[i], step);
    a.input[i] = {inputs[i].const_data_ptr(), step, inputs[i].size(1) / groups};
  }
  a.weight = weight.const_data_ptr();
  if (bias.has_value() && bias->defined()) {
    a.bias = bias->const_data_ptr();
    a.inputs_are_dense = a.inputs_are_dense && bias->is_contiguous();
  }
  a.type = cuda::type_of(first);
  a.batch = first.size(0);
  a.height = first.size(2);
  a.width = first.size(3);
  a.groups = groups;
  a.group_inputs = weight.size(1);
  a.group_outputs = weight.size(0) / groups;
  a.kernel_size = static_cast<int>(weight.size(2));
  a.relu = relu;
  return a;
}

at::Tensor concat_conv2d_cuda(at::TensorList inputs, const at::Tensor& weight,
                              const std::optional<at::Tensor>& bias, int64_t groups, bool relu) {
  check_concat_conv2d(inputs, weight, bias, groups);
  const at::Tensor& first = inputs[0];
  const c10::cuda::CUDAGuard guard(first.device());
  cuda::ConcatConvolutionArguments arguments = arguments_of(inputs, weight, bias, groups, relu);
  const bool wide = cuda::can_run_concat_conv2d_wgmma(arguments, nullptr);
  if (!wide && !cuda::can_run_concat_conv2d_mma(arguments, nullptr)) {
    return concat_conv2d_composite(inputs, weight, bias, groups, relu);
  }
  at::Tensor result = at::empty({first.size(0), weight.size(0), first.size(2), first.size(3)},
                                first.options().memory_format(at::MemoryFormat::ChannelsLast));
  if (result.numel() == 0) return result;
  arguments.out = result.mutable_data_ptr();
  const auto launch = wide ? &cuda::launch_concat_conv2d_wgmma
                      : cuda::can_run_pointwise_conv2d_mma(arguments, nullptr)
                          ? &cuda::launch_pointwise_conv2d_mma
                          : &cuda::launch_concat_conv2d_mma;
  cuda::check_launch("hdfnet::concat_conv2d",
                     launch(arguments, c10::cuda::getCurrentCUDAStream().stream()));
  return result;
}

std::tuple<at::Tensor, at::Tensor> conv2d_pool_cuda(at::TensorList inputs, const at::Tensor& weight,
                                                    const std::optional<at::Tensor>& bias,
                                                    const std::optional<at::Tensor>& side_weight,
                                                    const std::optional<at::Tensor>& side_bias) {
  check_conv2d_pool(inputs, weight, bias, side_weight, side_bias);
  const at::Tensor& first = inputs[0];
  const c10::cuda::CUDAGuard guard(first.device());
  cuda::ConcatConvolutionArguments a = arguments_of(inputs, weight, bias, 1, /*relu=*/true);
  const bool with_side = side_weight.has_value() && side_weight->defined();
  bool dense = first.numel() > 0;
  if (with_side) {
    dense = dense && side_weight->stride(1) == 1 && side_weight->stride(0) == weight.size(0) &&
            side_bias->is_contiguous();
    a.side_weight = side_weight->const_data_ptr();
    a.side_bias = side_bias->const_data_ptr();
    a.side_outputs = side_weight->size(0);
  }
  if (!dense || !cuda::can_run_concat_conv2d_wgmma(a, nullptr)) {
    return conv2d_pool_composite(inputs, weight, bias, side_weight, side_bias);
  }
  const auto options = first.options().memory_format(at::MemoryFormat::ChannelsLast);
  at::Tensor pooled = at::empty({a.batch, weight.size(0), a.height / 2, a.width / 2}, options);
  at::Tensor side = at::empty({0}, first.options());
  if (with_side) {
    side = at::empty({a.batch, a.side_outputs, a.height, a.width}, options);
    a.side_out = side.mutable_data_ptr();
  }
  a.pool_out = pooled.mutable_data_ptr();
  cuda::check_launch("hdfnet::conv2d_pool", cuda::launch_concat_conv2d_wgmma(
                                                a, c10::cuda::getCurrentCUDAStream().stream()));
  return {pooled, side};
}

at::Tensor conv2d_head_cuda(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& head_weight, const at::Tensor& head_bias) {
  check_conv2d_head(x, weight, bias, head_weight, head_bias);
  const c10::cuda::CUDAGuard guard(x.device());
  cuda::ConcatConvolutionArguments arguments = arguments_of(x, weight, bias, 1, /*relu=*/true);
  arguments.head_weight = head_weight.const_data_ptr();
  arguments.head_bias = head_bias.const_data_ptr();
  const bool head_is_dense = head_weight.stride(1) == 1;
  if (!head_is_dense || !cuda::can_run_concat_conv2d_mma(arguments, nullptr)) {
    return conv2d_head_composite(x, weight, bias, head_weight, head_bias);
  }
  at::Tensor result =
      at::empty({x.size(0), 1, x.size(2), x.size(3)}, x.options().dtype(at::kFloat));
  if (result.numel() == 0) return result;
  arguments.head_out = result.mutable_data_ptr<float>();
  cuda::check_launch(
      "hdfnet::conv2d_head",
      cuda::launch_concat_conv2d_mma(arguments, c10::cuda::getCurrentCUDAStream().stream()));
  return result;
}

// x brought to a size, and `y` of that size added where it is defined; nothing where there is no
// kernel for it.
std::optional<at::Tensor> upsample(const char* op, const at::Tensor& x, const at::Tensor& y,
                                   int64_t height, int64_t width, bool align_corners) {
  const bool long_row = x.size(1) * std::max(width, x.size(3)) > (int64_t{1} << 30);
  if (x.scalar_type() == at::kDouble || long_row ||
      !x.is_contiguous(at::MemoryFormat::ChannelsLast) ||
      (y.defined() && !y.is_contiguous(at::MemoryFormat::ChannelsLast))) {
    return std::nullopt;
  }
  at::Tensor out = at::empty({x.size(0), x.size(1), height, width},
                             x.options().memory_format(at::MemoryFormat::ChannelsLast));
  if (out.numel() == 0) return out;
  cuda::UpsampleArguments arguments{};
  arguments.x = x.const_data_ptr();
  if (y.defined()) arguments.y = y.const_data_ptr();
  arguments.out = out.mutable_data_ptr();
  arguments.type = cuda::type_of(x);
  arguments.batch = x.size(0);
  arguments.channels = x.size(1);
  arguments.height = height;
  arguments.width = width;
  arguments.x_height = x.size(2);
  arguments.x_width = x.size(3);
  arguments.align_corners = align_corners;
  cuda::check_launch(op,
                     cuda::launch_upsample(arguments, c10::cuda::getCurrentCUDAStream().stream()));
  return out;
}

at::Tensor upsample_add_cuda(const at::Tensor& x, const at::Tensor& y) {
  check_upsample_add(x, y);
  const c10::cuda::CUDAGuard guard(y.device());
  const auto result = upsample("hdfnet::upsample_add", x, y, y.size(2), y.size(3),
                               /*align_corners=*/false);
  return result ? *result : upsample_add_composite(x, y);
}

at::Tensor upsample_bilinear2d_cuda(const at::Tensor& x, int64_t height, int64_t width,
                                    bool align_corners) {
  check_upsample_bilinear2d(x, height, width);
  const c10::cuda::CUDAGuard guard(x.device());
  const auto result = upsample("hdfnet::upsample_bilinear2d", x, {}, height, width, align_corners);
  return result ? *result : upsample_bilinear2d_composite(x, height, width, align_corners);
}

at::Tensor stem_conv2d_cuda(const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, int64_t stride, bool relu) {
  check_stem_conv2d(x, weight, bias, stride);
  const c10::cuda::CUDAGuard guard(x.device());
  const auto is_double = [](const at::Tensor& tensor) {
    return tensor.scalar_type() == at::kDouble;
  };
  if (is_double(weight) || is_double(x)) {
    return stem_conv2d_composite(x, weight, bias, stride, relu);
  }
  cuda::StemConvolutionArguments arguments{};
  arguments.x = x.const_data_ptr();
  arguments.weight = weight.const_data_ptr();
  if (bias.has_value() && bias->defined()) {
    arguments.bias = bias->const_data_ptr();
    arguments.bias_stride = bias->stride(0);
  }
  arguments.x_type = cuda::type_of(x);
  arguments.type = cuda::type_of(weight);
  for (int i = 0; i < 4; ++i) {
    arguments.x_stride[i] = x.stride(i);
    arguments.weight_stride[i] = weight.stride(i);
  }
  arguments.batch = x.size(0);
  arguments.channels = x.size(1);
  arguments.outputs = weight.size(0);
  arguments.x_height = x.size(2);
  arguments.x_width = x.size(3);
  arguments.height = (x.size(2) - 1) / stride + 1;
  arguments.width = (x.size(3) - 1) / stride + 1;
  arguments.kernel_size = static_cast<int>(weight.size(2));
  arguments.stride = static_cast<int>(stride);
  arguments.relu = relu;
  const bool in_float = cuda::can_run_stem_conv2d_scalar(arguments, nullptr);
  if (!in_float && !cuda::can_run_stem_conv2d_mma(arguments, nullptr)) {
    return stem_conv2d_composite(x, weight, bias, stride, relu);
  }
  at::Tensor result = at::empty({x.size(0), weight.size(0), arguments.height, arguments.width},
                                weight.options().memory_format(at::MemoryFormat::ChannelsLast));
  if (result.numel() == 0) return result;
  arguments.out = result.mutable_data_ptr();
  const auto launch = in_float ? &cuda::launch_stem_conv2d_scalar : &cuda::launch_stem_conv2d_mma;
  cuda::check_launch("hdfnet::stem_conv2d",
                     launch(arguments, c10::cuda::getCurrentCUDAStream().stream()));
  return result;
}

void bias_relu_cuda(at::Tensor& y, const at::Tensor& bias, const std::optional<at::Tensor>& other,
                    bool relu) {
  check_bias_relu(y, bias, other);
  const auto layout = y.suggest_memory_format();
  const bool with_other = other.has_value() && other->defined();
  const bool dense = y.is_contiguous(layout) && bias.is_contiguous() &&
                     (!with_other || other->is_contiguous(layout));
  // Blocks of a launch are counted in 32 bits.
  const bool huge = y.numel() / std::max<int64_t>(y.size(0), 1) >= int64_t{1} << 38;
  if (y.scalar_type() == at::kDouble || !dense || huge) {
    return bias_relu_composite(y, bias, other, relu);
  }
  if (y.numel() == 0) return;
  const c10::cuda::CUDAGuard guard(y.device());
  // As every operation in place does: autograd then sees that a value it kept is no longer there.
  y.unsafeGetTensorImpl()->bump_version();
  cuda::BiasReluArguments a{};
  a.y = y.mutable_data_ptr();
  a.bias = bias.const_data_ptr();
  if (with_other) a.other = other->const_data_ptr();
  a.type = cuda::type_of(y);
  a.batch = y.size(0);
  a.channels = y.size(1);
  a.pixels = y.size(2) * y.size(3);
  a.planar = layout == at::MemoryFormat::Contiguous;
  a.relu = relu;
  cuda::check_launch("hdfnet::bias_relu_",
                     cuda::launch_bias_relu(a, c10::cuda::getCurrentCUDAStream().stream()));
}

at::Tensor conv2d_add_cuda(const at::Tensor& x, const at::Tensor& weight,
                           const std::optional<at::Tensor>& bias, const at::Tensor& other,
                           bool relu) {
  check_conv2d_add(x, weight, bias, other);
  const c10::cuda::CUDAGuard guard(x.device());
  const bool with_bias = bias.has_value() && bias->defined();
  const cuda::ConcatConvolutionArguments dense = arguments_of(x, weight, bias, 1, relu);
  cuda::PointwiseAddArguments arguments{};
  arguments.x = dense.input[0].data;
  arguments.weight = dense.weight;
  arguments.bias = dense.bias;
  arguments.other = other.const_data_ptr();
  arguments.type = cuda::type_of(x);
  arguments.pixel_stride = dense.input[0].pixel_stride;
  arguments.pixels = dense.batch * dense.height * dense.width;
  arguments.channels = dense.group_inputs;
  arguments.outputs = dense.group_outputs;
  arguments.relu = relu;
  if (dense.kernel_size == 1 && dense.inputs_are_dense &&
      other.is_contiguous(at::MemoryFormat::ChannelsLast) &&
      cuda::can_run_pointwise_add_wgmma(arguments, nullptr)) {
    at::Tensor result =
        at::empty(other.sizes(), other.options().memory_format(at::MemoryFormat::ChannelsLast));
    arguments.out = result.mutable_data_ptr();
    cuda::check_launch(
        "hdfnet::conv2d_add",
        cuda::launch_pointwise_add_wgmma(arguments, c10::cuda::getCurrentCUDAStream().stream()));
    return result;
  }
  const auto layout = other.suggest_memory_format();
  if (!with_bias || !other.is_contiguous(layout)) {
    return conv2d_add_composite(x, weight, bias, other, relu);
  }
  // cuDNN's own form with an addition takes longer than a pass of its own.
  const int64_t padding = weight.size(2) / 2;
  at::Tensor y = at::conv2d(x, weight, /*bias=*/{}, {1, 1}, {padding, padding}).contiguous(layout);
  bias_relu_cuda(y, *bias, other, relu);
  return y;
}

at::Tensor max_pool2d_cuda(const at::Tensor& x, int64_t kernel_size, int64_t stride,
                           int64_t padding) {
  check_max_pool2d(x, kernel_size, stride, padding);
  if (x.scalar_type() == at::kDouble) {
    return max_pool2d_composite(x, kernel_size, stride, padding);
  }
  const c10::cuda::CUDAGuard guard(x.device());
  cuda::MaxPoolArguments arguments{};
  arguments.x = x.const_data_ptr();
  arguments.type = cuda::type_of(x);
  arguments.batch = x.size(0);
  arguments.channels = x.size(1);
  arguments.x_height = x.size(2);
  arguments.x_width = x.size(3);
  arguments.height = (x.size(2) + 2 * padding - kernel_size) / stride + 1;
  arguments.width = (x.size(3) + 2 * padding - kernel_size) / stride + 1;
  arguments.kernel_size = static_cast<int>(kernel_size);
  arguments.stride = static_cast<int>(stride);
  arguments.padding = static_cast<int>(padding);
  const auto layout = x.suggest_memory_format();
  arguments.x_is_dense = x.is_contiguous(layout);
  arguments.planar = layout == at::MemoryFormat::Contiguous;
  if (!cuda::can_run_max_pool2d(arguments, nullptr)) {
    return max_pool2d_composite(x, kernel_size, stride, padding);
  }
  at::Tensor result = at::empty({x.size(0), x.size(1), arguments.height, arguments.width},
                                x.options().memory_format(layout));
  if (result.numel() == 0) return result;
  arguments.out = result.mutable_data_ptr();
  cuda::check_launch(
      "hdfnet::max_pool2d",
      cuda::launch_max_pool2d(arguments, c10::cuda::getCurrentCUDAStream().stream()));
  return result;
}

}  // namespace

bool concat_conv2d_is_wide(at::TensorList inputs, const at::Tensor& weight,
                           const std::optional<at::Tensor>& bias, int64_t groups,
                           std::string* why) {
  check_concat_conv2d(inputs, weight, bias, groups);
  if (!inputs[0].is_cuda()) {
    if (why != nullptr) *why = "not on a CUDA device";
    return false;
  }
  const c10::cuda::CUDAGuard guard(inputs[0].device());
  return cuda::can_run_concat_conv2d_wgmma(
      arguments_of(inputs, weight, bias, groups, /*relu=*/false), why);
}

void register_cuda_convolution(Registration& registration) {
  torch::Library& library = registration.under(c10::DispatchKey::CUDA);
  library.impl("concat_conv2d", &concat_conv2d_cuda);
  library.impl("conv2d_pool", &conv2d_pool_cuda);
  library.impl("conv2d_head", &conv2d_head_cuda);
  library.impl("bias_relu_", &bias_relu_cuda);
  library.impl("conv2d_add", &conv2d_add_cuda);
  library.impl("upsample_add", &upsample_add_cuda);
  library.impl("upsample_bilinear2d", &upsample_bilinear2d_cuda);
  library.impl("stem_conv2d", &stem_conv2d_cuda);
  library.impl("max_pool2d", &max_pool2d_cuda);
}

}  // namespace hdfnet::ops
