#include "composite/convolution.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "common/check_convolution.h"
#include "hdfnet/ops/convolution.h"
#include "registration.h"

namespace hdfnet::ops {

at::Tensor concat_conv2d_composite(at::TensorList inputs, const at::Tensor& weight,
                                   const std::optional<at::Tensor>& bias, int64_t groups,
                                   bool relu) {
  check_concat_conv2d(inputs, weight, bias, groups);
  std::vector<at::Tensor> slices;
  for (int64_t g = 0; g < groups; ++g) {
    for (const at::Tensor& input : inputs) {
      const int64_t channels = input.size(1) / groups;
      slices.push_back(input.narrow(1, g * channels, channels));
    }
  }
  const at::Tensor x = slices.size() == 1 ? slices.front() : at::cat(slices, 1);
  const int64_t padding = weight.size(2) / 2;
  const at::Tensor y = at::conv2d(x, weight, bias, {1, 1}, {padding, padding}, {1, 1}, groups)
                           .contiguous(inputs[0].suggest_memory_format());
  return relu ? at::relu(y) : y;
}

std::tuple<at::Tensor, at::Tensor> conv2d_pool_composite(
    at::TensorList inputs, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    const std::optional<at::Tensor>& side_weight, const std::optional<at::Tensor>& side_bias) {
  check_conv2d_pool(inputs, weight, bias, side_weight, side_bias);
  const at::Tensor y = concat_conv2d(inputs, weight, bias, /*groups=*/1, /*relu=*/true);
  const at::Tensor side = side_weight.has_value() && side_weight->defined()
                              ? concat_conv2d({y}, *side_weight, side_bias)
                              : at::empty({0}, y.options());
  return {max_pool2d(y, /*kernel_size=*/2, /*stride=*/2), side};
}

at::Tensor conv2d_head_composite(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& bias, const at::Tensor& head_weight,
                                 const at::Tensor& head_bias) {
  check_conv2d_head(x, weight, bias, head_weight, head_bias);
  const int64_t padding = weight.size(2) / 2;
  const at::Tensor maps = at::relu(at::conv2d(x, weight, bias, {1, 1}, {padding, padding}));
  const at::Tensor logits = at::conv2d(maps, head_weight, head_bias);
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return at::sigmoid(logits.to(type).contiguous());
}

void bias_relu_composite(at::Tensor& y, const at::Tensor& bias,
                         const std::optional<at::Tensor>& other, bool relu) {
  check_bias_relu(y, bias, other);
  y.add_(bias.view({1, -1, 1, 1}));
  if (other.has_value() && other->defined()) y.add_(*other);
  if (relu) y.relu_();
}

at::Tensor upsample_add_composite(const at::Tensor& x, const at::Tensor& y) {
  check_upsample_add(x, y);
  const at::Tensor up = x.sizes() == y.sizes() ? x
                                               : at::upsample_bilinear2d(x, {y.size(2), y.size(3)},
                                                                         /*align_corners=*/false);
  return at::add(y, up).contiguous(y.suggest_memory_format());
}

at::Tensor upsample_bilinear2d_composite(const at::Tensor& x, int64_t height, int64_t width,
                                         bool align_corners) {
  check_upsample_bilinear2d(x, height, width);
  return at::upsample_bilinear2d(x, {height, width}, align_corners)
      .contiguous(x.suggest_memory_format());
}

at::Tensor conv2d_add_composite(const at::Tensor& x, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias, const at::Tensor& other,
                                bool relu) {
  check_conv2d_add(x, weight, bias, other);
  const int64_t padding = weight.size(2) / 2;
  const at::Tensor y = at::add(at::conv2d(x, weight, bias, {1, 1}, {padding, padding}), other);
  return (relu ? at::relu(y) : y).contiguous(other.suggest_memory_format());
}

at::Tensor stem_conv2d_composite(const at::Tensor& x, const at::Tensor& weight,
                                 const std::optional<at::Tensor>& bias, int64_t stride, bool relu) {
  check_stem_conv2d(x, weight, bias, stride);
  const int64_t padding = weight.size(2) / 2;
  const at::Tensor y =
      at::conv2d(x.to(weight.scalar_type()), weight, bias, {stride, stride}, {padding, padding});
  return (relu ? at::relu(y) : y).contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor max_pool2d_composite(const at::Tensor& x, int64_t kernel_size, int64_t stride,
                                int64_t padding) {
  check_max_pool2d(x, kernel_size, stride, padding);
  return at::max_pool2d(x, {kernel_size, kernel_size}, {stride, stride}, {padding, padding})
      .contiguous(x.suggest_memory_format());
}

namespace {

bool needs_gradient(std::initializer_list<at::Tensor> tensors) {
  return at::GradMode::is_enabled() &&
         std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& t) { return t.defined() && t.requires_grad(); });
}

// Where a gradient is needed the operators are made of ATen's, which have one.
at::Tensor concat_conv2d_autograd(at::TensorList inputs, const at::Tensor& weight,
                                  const std::optional<at::Tensor>& bias, int64_t groups,
                                  bool relu) {
  bool gradient = needs_gradient({weight, bias.value_or(at::Tensor())});
  for (const at::Tensor& input : inputs) gradient = gradient || needs_gradient({input});
  if (gradient) return concat_conv2d_composite(inputs, weight, bias, groups, relu);
  const at::AutoDispatchBelowADInplaceOrView below;
  return concat_conv2d(inputs, weight, bias, groups, relu);
}

std::tuple<at::Tensor, at::Tensor> conv2d_pool_autograd(
    at::TensorList inputs, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    const std::optional<at::Tensor>& side_weight, const std::optional<at::Tensor>& side_bias) {
  bool gradient =
      needs_gradient({weight, bias.value_or(at::Tensor()), side_weight.value_or(at::Tensor()),
                      side_bias.value_or(at::Tensor())});
  for (const at::Tensor& input : inputs) gradient = gradient || needs_gradient({input});
  if (gradient) return conv2d_pool_composite(inputs, weight, bias, side_weight, side_bias);
  const at::AutoDispatchBelowADInplaceOrView below;
  return conv2d_pool(inputs, weight, bias, side_weight, side_bias);
}

at::Tensor conv2d_head_autograd(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& bias, const at::Tensor& head_weight,
                                const at::Tensor& head_bias) {
  if (needs_gradient({x, weight, bias, head_weight, head_bias})) {
    return conv2d_head_composite(x, weight, bias, head_weight, head_bias);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return conv2d_head(x, weight, bias, head_weight, head_bias);
}

at::Tensor upsample_add_autograd(const at::Tensor& x, const at::Tensor& y) {
  if (needs_gradient({x, y})) return upsample_add_composite(x, y);
  const at::AutoDispatchBelowADInplaceOrView below;
  return upsample_add(x, y);
}

at::Tensor upsample_bilinear2d_autograd(const at::Tensor& x, int64_t height, int64_t width,
                                        bool align_corners) {
  if (needs_gradient({x})) return upsample_bilinear2d_composite(x, height, width, align_corners);
  const at::AutoDispatchBelowADInplaceOrView below;
  return upsample_bilinear2d(x, height, width, align_corners);
}

at::Tensor conv2d_add_autograd(const at::Tensor& x, const at::Tensor& weight,
                               const std::optional<at::Tensor>& bias, const at::Tensor& other,
                               bool relu) {
  if (needs_gradient({x, weight, bias.value_or(at::Tensor()), other})) {
    return conv2d_add_composite(x, weight, bias, other, relu);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return conv2d_add(x, weight, bias, other, relu);
}

at::Tensor stem_conv2d_autograd(const at::Tensor& x, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias, int64_t stride, bool relu) {
  if (needs_gradient({x, weight, bias.value_or(at::Tensor())})) {
    return stem_conv2d_composite(x, weight, bias, stride, relu);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return stem_conv2d(x, weight, bias, stride, relu);
}

at::Tensor max_pool2d_autograd(const at::Tensor& x, int64_t kernel_size, int64_t stride,
                               int64_t padding) {
  if (needs_gradient({x})) return max_pool2d_composite(x, kernel_size, stride, padding);
  const at::AutoDispatchBelowADInplaceOrView below;
  return max_pool2d(x, kernel_size, stride, padding);
}

}  // namespace

void register_composite_convolution(Registration& registration) {
  for (const auto key : {c10::DispatchKey::CPU, c10::DispatchKey::Meta}) {
    torch::Library& library = registration.under(key);
    library.impl("concat_conv2d", &concat_conv2d_composite);
    library.impl("conv2d_pool", &conv2d_pool_composite);
    library.impl("conv2d_head", &conv2d_head_composite);
    library.impl("bias_relu_", &bias_relu_composite);
    library.impl("conv2d_add", &conv2d_add_composite);
    library.impl("upsample_add", &upsample_add_composite);
    library.impl("upsample_bilinear2d", &upsample_bilinear2d_composite);
    library.impl("stem_conv2d", &stem_conv2d_composite);
    library.impl("max_pool2d", &max_pool2d_composite);
  }
  torch::Library& library = registration.under(c10::DispatchKey::Autograd);
  library.impl("concat_conv2d", &concat_conv2d_autograd);
  library.impl("conv2d_pool", &conv2d_pool_autograd);
  library.impl("conv2d_head", &conv2d_head_autograd);
  library.impl("conv2d_add", &conv2d_add_autograd);
  library.impl("upsample_add", &upsample_add_autograd);
  library.impl("upsample_bilinear2d", &upsample_bilinear2d_autograd);
  library.impl("stem_conv2d", &stem_conv2d_autograd);
  library.impl("max_pool2d", &max_pool2d_autograd);
}

}  // namespace hdfnet::ops
