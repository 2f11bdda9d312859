// The typed C++ functions: each looks its operator up once and calls it through the dispatcher, so
// that autograd, autocast, tracing and any key added by others see the call.
#include <ATen/core/dispatch/Dispatcher.h>

#include "hdfnet/ops/convolution.h"
#include "hdfnet/ops/dynamic_filter.h"
#include "hdfnet/ops/generated_dynamic_filter.h"

namespace hdfnet::ops {
namespace {

template <typename Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  register_ops();  // of a static library nothing else may have done it
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace

at::Tensor dynamic_filter(const at::Tensor& x, const at::Tensor& kernels, at::IntArrayRef dilations,
                          bool concat_input) {
  static const auto op =
      find<at::Tensor(const at::Tensor&, const at::Tensor&, at::IntArrayRef, bool)>(
          "hdfnet::dynamic_filter");
  return op.call(x, kernels, dilations, concat_input);
}

std::tuple<at::Tensor, at::Tensor> dynamic_filter_backward(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& kernels,
    at::IntArrayRef dilations, bool concat_input, std::array<bool, 2> needs) {
  static const auto op = find<std::tuple<at::Tensor, at::Tensor>(
      const at::Tensor&, const at::Tensor&, const at::Tensor&, at::IntArrayRef, bool,
      std::array<bool, 2>)>("hdfnet::dynamic_filter_backward");
  return op.call(grad, x, kernels, dilations, concat_input, needs);
}

at::Tensor generated_dynamic_filter(const at::Tensor& x, const at::Tensor& y,
                                    const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                    at::IntArrayRef dilations, bool concat_input) {
  static const auto op = find<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                         const std::optional<at::Tensor>&, at::IntArrayRef, bool)>(
      "hdfnet::generated_dynamic_filter");
  return op.call(x, y, weight, bias, dilations, concat_input);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> generated_dynamic_filter_backward(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
    const std::optional<at::Tensor>& bias, at::IntArrayRef dilations, bool concat_input,
    std::array<bool, 4> needs) {
  static const auto op = find<std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>(
      const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
      const std::optional<at::Tensor>&, at::IntArrayRef, bool, std::array<bool, 4>)>(
      "hdfnet::generated_dynamic_filter_backward");
  return op.call(grad, x, y, weight, bias, dilations, concat_input, needs);
}

at::Tensor concat_conv2d(at::TensorList inputs, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias, int64_t groups, bool relu) {
  static const auto op =
      find<at::Tensor(at::TensorList, const at::Tensor&, const std::optional<at::Tensor>&, int64_t,
                      bool)>("hdfnet::concat_conv2d");
  return op.call(inputs, weight, bias, groups, relu);
}

std::tuple<at::Tensor, at::Tensor> conv2d_pool(at::TensorList inputs, const at::Tensor& weight,
                                               const std::optional<at::Tensor>& bias,
                                               const std::optional<at::Tensor>& side_weight,
                                               const std::optional<at::Tensor>& side_bias) {
  static const auto op = find<std::tuple<at::Tensor, at::Tensor>(
      at::TensorList, const at::Tensor&, const std::optional<at::Tensor>&,
      const std::optional<at::Tensor>&, const std::optional<at::Tensor>&)>("hdfnet::conv2d_pool");
  return op.call(inputs, weight, bias, side_weight, side_bias);
}

at::Tensor conv2d_head(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const at::Tensor& head_weight, const at::Tensor& head_bias) {
  static const auto op =
      find<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                      const at::Tensor&)>("hdfnet::conv2d_head");
  return op.call(x, weight, bias, head_weight, head_bias);
}

at::Tensor& bias_relu_(at::Tensor& y, const at::Tensor& bias,
                       const std::optional<at::Tensor>& other, bool relu) {
  static const auto op =
      find<void(at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, bool)>(
          "hdfnet::bias_relu_");
  op.call(y, bias, other, relu);
  return y;
}

at::Tensor upsample_add(const at::Tensor& x, const at::Tensor& y) {
  static const auto op =
      find<at::Tensor(const at::Tensor&, const at::Tensor&)>("hdfnet::upsample_add");
  return op.call(x, y);
}

at::Tensor upsample_bilinear2d(const at::Tensor& x, int64_t height, int64_t width,
                               bool align_corners) {
  static const auto op =
      find<at::Tensor(const at::Tensor&, int64_t, int64_t, bool)>("hdfnet::upsample_bilinear2d");
  return op.call(x, height, width, align_corners);
}

at::Tensor conv2d_add(const at::Tensor& x, const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias, const at::Tensor& other, bool relu) {
  static const auto op =
      find<at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                      const at::Tensor&, bool)>("hdfnet::conv2d_add");
  return op.call(x, weight, bias, other, relu);
}

at::Tensor stem_conv2d(const at::Tensor& x, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, int64_t stride, bool relu) {
  static const auto op =
      find<at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                      int64_t, bool)>("hdfnet::stem_conv2d");
  return op.call(x, weight, bias, stride, relu);
}

at::Tensor max_pool2d(const at::Tensor& x, int64_t kernel_size, int64_t stride, int64_t padding) {
  static const auto op =
      find<at::Tensor(const at::Tensor&, int64_t, int64_t, int64_t)>("hdfnet::max_pool2d");
  return op.call(x, kernel_size, stride, padding);
}

}  // namespace hdfnet::ops
