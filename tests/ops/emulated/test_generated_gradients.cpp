// The gradients of generated_dynamic_filter on the emulated card, beside float64.
#include <gtest/gtest.h>

#include "cuda/generated_gradient_arguments.h"
#include "tensors.h"

namespace hdfnet::ops::cuda {
namespace {

using emulated::Expected;
using emulated::Format;
using emulated::in_every_order;
using emulated::lie;
using emulated::Lie;
using emulated::lie_of_groups;
using emulated::name;
using emulated::Sizes;
using emulated::Tensor;

struct Case {
  int batch, groups, channels, source_channels, height, width;
  std::vector<int> dilations;
  bool concat_input = false;
  bool bias = true;

  int branches() const { return static_cast<int>(dilations.size()); }
  int front() const { return concat_input ? 1 : 0; }
  std::string name() const {
    std::string text = "N " + std::to_string(batch) + ", G " + std::to_string(groups) + ", C " +
                       std::to_string(channels) + ", Cy " + std::to_string(source_channels) + ", " +
                       std::to_string(height) + " x " + std::to_string(width) + ", " +
                       emulated::name(dilations);
    return text + (concat_input ? ", x in front" : "") + (bias ? "" : ", no bias");
  }
};

const Lie kDense3{{0, 1, 2}, {}, {}};
const Lie kDense2{{0, 1}, {}, {}};

/// The tensors of a call of the backward pass, and what float64 makes of them.
class Call {
 public:
  Call(const Case& c, Type type, Format format)
      : case_(c),
        x(type, {c.batch, c.channels, c.height, c.width}, lie(format)),
        y(type, {c.batch, c.groups, c.source_channels, c.height, c.width}, lie_of_groups(format)),
        weight(type, {c.branches(), c.channels * 9, c.source_channels}, kDense3),
        bias(type, {c.branches(), c.channels * 9}, kDense2),
        grad(type, {c.batch, (c.branches() + c.front()) * c.channels, c.height, c.width},
             lie(format)),
        grad_x(type, x.sizes(), lie(format)),
        grad_y(type, y.sizes(), lie_of_groups(format)),
        grad_weight(type, weight.sizes(), kDense3),
        grad_bias(type, bias.sizes(), kDense2) {
    x.fill(1, 1);
    y.fill(2, 1);
    weight.fill(3, 1 / std::sqrt(static_cast<float>(c.source_channels)));
    bias.fill(4, 1);
    grad.fill(5, 1);
  }

  /// `of_term`: what products of rounded operands lose of each.
  void expect_gradients(double of_term) const {
    const Case& c = case_;
    expect_float64s(
        grad_x, "x: " + c.name(),
        [&](const Sizes& at) {
          Expected sum;
          if (c.concat_input) sum.add(grad.get(at));
          for (int64_t b = 0; b < c.branches(); ++b) {
            for (int64_t tap = 0; tap < 9; ++tap) {
              int64_t row = at[2], column = at[3];
              if (!move(b, tap, -1, &row, &column)) continue;
              const double of_grad = grad.get({at[0], channel(b, at[1]), row, column});
              const int64_t product = at[1] * 9 + tap;
              if (c.bias) sum.add(bias.get({b, product}) * of_grad);
              for (int64_t s = 0; s < c.source_channels; ++s) {
                sum.add(weight.get({b, product, s}) *
                        y.get({at[0], c.groups == 1 ? 0 : b, s, row, column}) * of_grad);
              }
            }
          }
          return sum;
        },
        of_term);
    expect_float64s(
        grad_y, "y: " + c.name(),
        [&](const Sizes& at) {
          Expected sum;
          for (int64_t b = 0; b < c.branches(); ++b) {
            if (c.groups != 1 && b != at[1]) continue;
            for (int64_t i = 0; i < c.channels; ++i) {
              for (int64_t tap = 0; tap < 9; ++tap) {
                sum.add(weight.get({b, i * 9 + tap, at[2]}) *
                        of_tap(at[0], b, i, tap, at[3], at[4]));
              }
            }
          }
          return sum;
        },
        of_term);
    const auto of_product = [&](int64_t b, int64_t product, const auto& factor) {
      Expected sum;
      emulated::for_each({c.batch, c.height, c.width}, [&](const Sizes& at) {
        sum.add(of_tap(at[0], b, product / 9, product % 9, at[1], at[2]) * factor(at));
      });
      return sum;
    };
    expect_float64s(
        grad_weight, "weight: " + c.name(),
        [&](const Sizes& at) {
          return of_product(at[0], at[1], [&](const Sizes& p) {
            return y.get({p[0], c.groups == 1 ? 0 : at[0], at[2], p[1], p[2]});
          });
        },
        of_term);
    if (!c.bias) return;
    expect_float64s(
        grad_bias, "bias: " + c.name(),
        [&](const Sizes& at) { return of_product(at[0], at[1], [](const Sizes&) { return 1.; }); },
        of_term);
  }

 private:
  int64_t channel(int64_t b, int64_t i) const { return (case_.front() + b) * case_.channels + i; }
  bool move(int64_t b, int64_t tap, int direction, int64_t* row, int64_t* column) const {
    const int64_t dilation = direction * case_.dilations[static_cast<std::size_t>(b)];
    *row += (tap / 3 - 1) * dilation;
    *column += (tap % 3 - 1) * dilation;
    return *row >= 0 && *row < case_.height && *column >= 0 && *column < case_.width;
  }
  /// The gradient of a tap at a pixel.
  double of_tap(int64_t n, int64_t b, int64_t i, int64_t tap, int64_t row, int64_t column) const {
    int64_t from_row = row, from_column = column;
    if (!move(b, tap, 1, &from_row, &from_column)) return 0;
    return grad.get({n, channel(b, i), row, column}) * x.get({n, i, from_row, from_column});
  }

  Case case_;

 public:
  Tensor x, y, weight, bias, grad, grad_x, grad_y, grad_weight, grad_bias;
};

std::vector<Case> cases() {
  std::vector<Case> all = {{2, 2, 16, 24, 9, 19, {1, 3}, true}};
#if !defined(__SANITIZE_THREAD__)
  all.push_back({1, 1, 16, 64, 17, 18, {5, 2}, false});
  all.push_back({1, 1, 32, 8, 5, 7, {8}, true, false});
#endif
  return all;
}

class GeneratedGradients : public testing::TestWithParam<Type> {
 protected:
  GeneratedGradients() { emulated::card().processors = 2; }
};

TEST_P(GeneratedGradients, OfWarpsAreFloat64s) {
  in_every_order([&] {
    for (const Case& c : cases()) {
      Call call(c, GetParam(), Format::kChannelsLast);
      GeneratedGradientArguments a{};
      a.grad = call.grad.data(), a.x = call.x.data(), a.y = call.y.data();
      a.weight = call.weight.data();
      a.bias = c.bias ? call.bias.data() : nullptr;
      a.grad_x = call.grad_x.data(), a.grad_y = call.grad_y.data();
      a.grad_weight = call.grad_weight.data();
      a.grad_bias = c.bias ? call.grad_bias.data() : nullptr;
      a.type = GetParam();
      a.batch = c.batch, a.branches = c.branches(), a.groups = c.groups, a.channels = c.channels;
      a.source_channels = c.source_channels, a.height = c.height, a.width = c.width;
      a.concat_input = c.concat_input;
      std::copy(c.dilations.begin(), c.dilations.end(), a.dilation);
      std::string why;
      ASSERT_TRUE(can_run_generated_gradient(a, 3, &why)) << c.name() << ": " << why;
      Tensor partial(Type::kFloat, {generated_gradient_scratch(a)}, {{0}, {}, {}});
      a.partial = static_cast<float*>(partial.data());
      ASSERT_EQ(launch_generated_gradient(a, nullptr), cudaSuccess);
      // Operands of two bytes, rounded once: a tap's gradient, or the tap.
      call.expect_gradients(std::ldexp(1, GetParam() == Type::kHalf ? -11 : -8));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Types, GeneratedGradients, testing::Values(Type::kHalf, Type::kBFloat16),
                         [](const auto& parameters) { return name(parameters.param); });

class ExactGeneratedGradients : public testing::TestWithParam<Format> {
 protected:
  ExactGeneratedGradients() { emulated::card().processors = 2; }
};

TEST_P(ExactGeneratedGradients, AreFloat64s) {
  in_every_order([&] {
    for (const Case& c : cases()) {
      Call call(c, Type::kFloat, GetParam());
      GeneratedGradientSimtArguments a{};
      GeneratedFilterArguments& f = a.filter;
      f.x = call.x.data(), f.y = call.y.data(), f.weight = call.weight.data();
      f.bias = c.bias ? call.bias.data() : nullptr;
      f.type = Type::kFloat;
      f.batch = c.batch, f.branches = c.branches(), f.groups = c.groups, f.channels = c.channels;
      f.source_channels = c.source_channels, f.height = c.height, f.width = c.width;
      f.kernel_size = 3;
      f.concat_input = c.concat_input;
      f.output_channel = c.front() * c.channels;
      call.x.strides_to(f.x_stride);
      call.y.strides_to(f.y_stride);
      call.weight.strides_to(f.weight_stride);
      call.bias.strides_to(f.bias_stride);
      std::copy(c.dilations.begin(), c.dilations.end(), f.dilation);
      a.grad = static_cast<const float*>(call.grad.data());
      call.grad.strides_to(a.grad_stride);
      a.grad_x = static_cast<float*>(call.grad_x.data());
      call.grad_x.strides_to(a.grad_x_stride);
      a.grad_y = static_cast<float*>(call.grad_y.data());
      call.grad_y.strides_to(a.grad_y_stride);
      a.grad_weight = static_cast<float*>(call.grad_weight.data());
      a.grad_bias = c.bias ? static_cast<float*>(call.grad_bias.data()) : nullptr;
      std::string why;
      ASSERT_TRUE(can_run_generated_gradient_simt(a, &why)) << c.name() << ": " << why;
      Tensor partial(Type::kFloat, {generated_gradient_simt_scratch(a)}, {{0}, {}, {}});
      a.partial = static_cast<float*>(partial.data());
      ASSERT_EQ(launch_generated_gradient_of_x_simt(a, nullptr), cudaSuccess);
      ASSERT_EQ(launch_generated_gradient_of_y_simt(a, nullptr), cudaSuccess);
      ASSERT_EQ(launch_generated_gradient_of_weight_simt(a, nullptr), cudaSuccess);
      call.expect_gradients(0);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Formats, ExactGeneratedGradients,
                         testing::Values(Format::kPlanes, Format::kChannelsLast),
                         [](const auto& parameters) { return name(parameters.param); });

}  // namespace
}  // namespace hdfnet::ops::cuda
