#include "common/check_convolution.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

namespace hdfnet::ops {
namespace {

void check_map(const char* op, const char* what, const at::Tensor& map) {
  TORCH_CHECK(map.dim() == 4, op, ": ", what, " must be (N, C, H, W), found ", map.sizes());
  TORCH_CHECK(at::isFloatingType(map.scalar_type()), op, ": ", what,
              " must be of a floating type, found ", map.scalar_type());
}

void check_same(const char* op, const char* what, const at::Tensor& tensor, const at::Tensor& x) {
  TORCH_CHECK(tensor.scalar_type() == x.scalar_type(), op, ": ", what, " must be ", x.scalar_type(),
              " as the input, found ", tensor.scalar_type());
  TORCH_CHECK(tensor.device() == x.device(), op, ": ", what, " must be on ", x.device(),
              " as the input, found ", tensor.device());
}

void check_weight(const char* op, const at::Tensor& weight, int64_t channels) {
  TORCH_CHECK(weight.dim() == 4 && weight.size(1) == channels && weight.size(2) == weight.size(3) &&
                  weight.size(2) % 2 == 1,
              op, ": weight must be (O, ", channels, ", K, K) with an odd K, found ",
              weight.sizes());
}

}  // namespace

void check_concat_conv2d(at::TensorList inputs, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias, int64_t groups, const char* op) {
  TORCH_CHECK(!inputs.empty(), op, ": needs at least one input");
  TORCH_CHECK(groups >= 1, op, ": groups must be at least 1, found ", groups);
  const at::Tensor& first = inputs[0];
  int64_t channels = 0;
  for (const at::Tensor& input : inputs) {
    check_map(op, "every input", input);
    check_same(op, "every input", input, first);
    TORCH_CHECK(input.size(0) == first.size(0) && input.size(2) == first.size(2) &&
                    input.size(3) == first.size(3),
                op, ": all inputs must have the batch, height and width of the first, ",
                first.sizes(), ", found ", input.sizes());
    TORCH_CHECK(input.size(1) % groups == 0, op,
                ": channels must be a multiple of groups = ", groups, ", found ", input.sizes());
    channels += input.size(1) / groups;
  }
  check_weight(op, weight, channels);
  check_same(op, "weight", weight, first);
  TORCH_CHECK(weight.size(0) % groups == 0, op,
              ": weight must have a multiple of groups = ", groups, " rows, found ",
              weight.sizes());
  if (bias.has_value() && bias->defined()) {
    TORCH_CHECK(bias->dim() == 1 && bias->size(0) == weight.size(0), op, ": bias must be (",
                weight.size(0), "), found ", bias->sizes());
    check_same(op, "bias", *bias, first);
  }
}

void check_conv2d_pool(at::TensorList inputs, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias,
                       const std::optional<at::Tensor>& side_weight,
                       const std::optional<at::Tensor>& side_bias) {
  const char* op = "hdfnet::conv2d_pool";
  check_concat_conv2d(inputs, weight, bias, /*groups=*/1, op);
  const at::Tensor& first = inputs[0];
  TORCH_CHECK(first.size(2) >= 2 && first.size(3) >= 2, op,
              ": inputs must have at least 2 x 2 pixels, found ", first.sizes());
  const bool side = side_weight.has_value() && side_weight->defined();
  const bool bias_of_side = side_bias.has_value() && side_bias->defined();
  TORCH_CHECK(side == bias_of_side, op, ": side_weight and side_bias belong together, found only ",
              side ? "side_weight" : "side_bias");
  if (!side) return;
  TORCH_CHECK(side_weight->dim() == 4 && side_weight->size(1) == weight.size(0) &&
                  side_weight->size(2) == 1 && side_weight->size(3) == 1,
              op, ": side_weight must be (S, ", weight.size(0), ", 1, 1), found ",
              side_weight->sizes());
  TORCH_CHECK(side_bias->dim() == 1 && side_bias->size(0) == side_weight->size(0), op,
              ": side_bias must be (", side_weight->size(0), "), found ", side_bias->sizes());
  check_same(op, "side_weight", *side_weight, first);
  check_same(op, "side_bias", *side_bias, first);
}

void check_conv2d_head(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const at::Tensor& head_weight, const at::Tensor& head_bias) {
  const char* op = "hdfnet::conv2d_head";
  check_map(op, "x", x);
  check_weight(op, weight, x.size(1));
  const int64_t outputs = weight.size(0);
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) == outputs, op, ": bias must be (", outputs,
              "), found ", bias.sizes());
  TORCH_CHECK(head_weight.sizes() == at::IntArrayRef({1, outputs, 1, 1}), op,
              ": head_weight must be (1, ", outputs, ", 1, 1), found ", head_weight.sizes());
  TORCH_CHECK(head_bias.sizes() == at::IntArrayRef({1}), op, ": head_bias must be (1), found ",
              head_bias.sizes());
  check_same(op, "weight", weight, x);
  check_same(op, "bias", bias, x);
  check_same(op, "head_weight", head_weight, x);
  check_same(op, "head_bias", head_bias, x);
}

void check_bias_relu(const at::Tensor& y, const at::Tensor& bias,
                     const std::optional<at::Tensor>& other) {
  const char* op = "hdfnet::bias_relu_";
  check_map(op, "y", y);
  TORCH_CHECK(bias.sizes() == at::IntArrayRef({y.size(1)}), op, ": bias must be (", y.size(1),
              "), found ", bias.sizes());
  check_same(op, "bias", bias, y);
  const auto check_no_gradient = [&](const char* what, const at::Tensor& tensor) {
    TORCH_CHECK(!(at::GradMode::is_enabled() && tensor.requires_grad()), op, ": ", what,
                " must not need a gradient: y is overwritten");
  };
  check_no_gradient("y", y);
  check_no_gradient("bias", bias);
  if (!other.has_value() || !other->defined()) return;
  TORCH_CHECK(other->sizes() == y.sizes(), op, ": other must be ", y.sizes(), " as y, found ",
              other->sizes());
  check_same(op, "other", *other, y);
  check_no_gradient("other", *other);
}

void check_conv2d_add(const at::Tensor& x, const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias, const at::Tensor& other) {
  const char* op = "hdfnet::conv2d_add";
  check_concat_conv2d(x, weight, bias, /*groups=*/1, op);
  check_map(op, "other", other);
  check_same(op, "other", other, x);
  const std::vector<int64_t> expected = {x.size(0), weight.size(0), x.size(2), x.size(3)};
  TORCH_CHECK(other.sizes() == at::IntArrayRef(expected), op, ": other must be ",
              at::IntArrayRef(expected), ", found ", other.sizes());
}

void check_upsample_bilinear2d(const at::Tensor& x, int64_t height, int64_t width) {
  const char* op = "hdfnet::upsample_bilinear2d";
  check_map(op, "x", x);
  TORCH_CHECK(x.size(1) > 0 && x.size(2) > 0 && x.size(3) > 0, op, ": x must not be empty, found ",
              x.sizes());
  TORCH_CHECK(height >= 1 && width >= 1, op, ": height and width must be at least 1, found ",
              height, " and ", width);
}

void check_upsample_add(const at::Tensor& x, const at::Tensor& y) {
  const char* op = "hdfnet::upsample_add";
  check_map(op, "x", x);
  check_map(op, "y", y);
  check_same(op, "x", x, y);
  TORCH_CHECK(x.size(0) == y.size(0) && x.size(1) == y.size(1), op, ": x must be (", y.size(0),
              ", ", y.size(1), ", h, w) as y is ", y.sizes(), ", found ", x.sizes());
  TORCH_CHECK(x.size(2) > 0 && x.size(3) > 0, op, ": x must not be empty, found ", x.sizes());
}

void check_stem_conv2d(const at::Tensor& x, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, int64_t stride) {
  const char* op = "hdfnet::stem_conv2d";
  check_map(op, "x", x);
  TORCH_CHECK(x.size(2) > 0 && x.size(3) > 0, op, ": x must not be empty, found ", x.sizes());
  check_weight(op, weight, x.size(1));
  TORCH_CHECK(at::isFloatingType(weight.scalar_type()), op,
              ": weight must be of a floating type, found ", weight.scalar_type());
  TORCH_CHECK(weight.device() == x.device(), op, ": weight must be on ", x.device(),
              " as the input, found ", weight.device());
  TORCH_CHECK(stride >= 1, op, ": stride must be at least 1, found ", stride);
  if (!bias.has_value() || !bias->defined()) return;
  TORCH_CHECK(bias->dim() == 1 && bias->size(0) == weight.size(0), op, ": bias must be (",
              weight.size(0), "), found ", bias->sizes());
  TORCH_CHECK(bias->scalar_type() == weight.scalar_type(), op, ": bias must be ",
              weight.scalar_type(), " as the weight, found ", bias->scalar_type());
  TORCH_CHECK(bias->device() == x.device(), op, ": bias must be on ", x.device(),
              " as the input, found ", bias->device());
}

void check_max_pool2d(const at::Tensor& x, int64_t kernel_size, int64_t stride, int64_t padding) {
  const char* op = "hdfnet::max_pool2d";
  check_map(op, "x", x);
  TORCH_CHECK(kernel_size >= 1, op, ": kernel_size must be at least 1, found ", kernel_size);
  TORCH_CHECK(stride >= 1, op, ": stride must be at least 1, found ", stride);
  TORCH_CHECK(padding >= 0 && padding <= kernel_size / 2, op, ": padding must be 0 to ",
              kernel_size / 2, ", half of kernel_size, found ", padding);
  TORCH_CHECK(x.size(2) + 2 * padding >= kernel_size && x.size(3) + 2 * padding >= kernel_size, op,
              ": x must be at least as large as the kernel, ", kernel_size, ", found ", x.sizes());
}

}  // namespace hdfnet::ops
