// The network's convolutions on the emulated card, beside float64.
#include <gtest/gtest.h>

#include "cuda/concat_conv2d_arguments.h"
#include "cuda/conv2d_add_arguments.h"
#include "tensors.h"

namespace hdfnet::ops::cuda {
namespace {

using emulated::Expected;
using emulated::in_every_order;
using emulated::name;
using emulated::Sizes;
using emulated::Tensor;

const emulated::Lie kPixels{{0, 2, 3, 1}, {}, {}};   // N, C, H, W as channels_last
const emulated::Lie kWeights{{0, 2, 3, 1}, {}, {}};  // outputs, inputs, K, K: inputs innermost
const emulated::Lie kRow{{0}, {}, {}};

struct Case {
  int batch, height, width, kernel_size, groups;
  std::vector<int> channels;  // of a group, of each input
  int outputs;                // of a group
  bool relu = false;
  bool pool = false;
  int side_outputs = 0;

  std::string name() const {
    std::string text = "N " + std::to_string(batch) + ", " + std::to_string(height) + " x " +
                       std::to_string(width) + ", K " + std::to_string(kernel_size) + ", groups " +
                       std::to_string(groups) + ", channels";
    for (const int count : channels) text += " " + std::to_string(count);
    return text + ", outputs " + std::to_string(outputs) + (relu ? ", ReLU" : "") +
           (pool ? ", pool" : "") + (side_outputs > 0 ? ", side" : "");
  }
};

class Call {
 public:
  Call(const Case& c, Type type)
      : case_(c),
        of_group_(std::accumulate(c.channels.begin(), c.channels.end(), 0)),
        weight_(type, {c.groups * c.outputs, of_group_, c.kernel_size, c.kernel_size}, kWeights),
        bias_(type, {c.groups * c.outputs}, kRow),
        out_(type, {c.batch, c.groups * c.outputs, c.height, c.width}, kPixels),
        pooled_(type, {c.batch, c.outputs, c.height / 2, c.width / 2}, kPixels),
        side_weight_(type, {c.side_outputs, c.outputs, 1, 1}, kWeights),
        side_bias_(type, {c.side_outputs}, kRow),
        side_(type, {c.batch, c.side_outputs, c.height, c.width}, kPixels) {
    ConcatConvolutionArguments& a = arguments_;
    for (std::size_t i = 0; i < c.channels.size(); ++i) {
      inputs_.emplace_back(type, Sizes{c.batch, c.groups * c.channels[i], c.height, c.width},
                           kPixels);
      inputs_.back().fill(static_cast<unsigned>(10 + i), 1);
      a.input[i] = {inputs_.back().data(), c.groups * c.channels[i], c.channels[i]};
    }
    weight_.fill(1, 1 / std::sqrt(static_cast<float>(of_group_ * c.kernel_size * c.kernel_size)));
    bias_.fill(2, 1);
    side_weight_.fill(3, 1 / std::sqrt(static_cast<float>(c.outputs)));
    side_bias_.fill(4, 1);
    a.inputs = static_cast<int>(c.channels.size());
    a.inputs_are_dense = true;
    a.weight = weight_.data(), a.bias = bias_.data(), a.out = out_.data();
    a.type = type;
    a.batch = c.batch, a.height = c.height, a.width = c.width;
    a.groups = c.groups, a.group_inputs = of_group_, a.group_outputs = c.outputs;
    a.kernel_size = c.kernel_size;
    a.relu = c.relu;
    if (c.pool) a.pool_out = pooled_.data();
    if (c.side_outputs > 0) {
      a.side_weight = side_weight_.data(), a.side_bias = side_bias_.data();
      a.side_out = side_.data(), a.side_outputs = c.side_outputs;
    }
  }

  const ConcatConvolutionArguments& arguments() const { return arguments_; }

  void expect_result() const {
    const Case& c = case_;
    // Once each: a side's results use them all.
    std::vector<Expected> values;
    emulated::for_each(out_.sizes(), [&](const Sizes& at) { values.push_back(value_of(at)); });
    const auto result = [&](const Sizes& at) {
      std::int64_t place = 0;
      for (std::size_t i = 0; i < 4; ++i) place = place * out_.sizes()[i] + at[i];
      return values[static_cast<std::size_t>(place)];
    };
    if (!c.pool) {
      expect_float64s(out_, c.name(), [&](const Sizes& at) { return result(at); });
      return;
    }
    // Rounding keeps the order of values: the largest of rounded ones is the rounded largest.
    expect_float64s(pooled_, c.name() + ", pooled", [&](const Sizes& at) {
      Expected largest;
      for (int64_t i = 0; i < 4; ++i) {
        const Expected one = result({at[0], at[1], 2 * at[2] + i / 2, 2 * at[3] + i % 2});
        if (i == 0 || one.value > largest.value) largest = one;
      }
      return largest;
    });
    if (c.side_outputs == 0) return;
    // Of what was rounded to the type once.
    const double rounding = side_.type() == Type::kHalf ? std::ldexp(1, -11) : std::ldexp(1, -8);
    expect_float64s(
        side_, c.name() + ", side",
        [&](const Sizes& at) {
          Expected sum;
          sum.add(side_bias_.get({at[1]}));
          for (int64_t i = 0; i < c.outputs; ++i) {
            sum.add(side_weight_.get({at[1], i, 0, 0}) * result({at[0], i, at[2], at[3]}).value);
          }
          return sum;
        },
        rounding * 1.01);
  }

 private:
  Expected value_of(const Sizes& at) const {
    const Case& c = case_;
    const int64_t group = at[1] / c.outputs;
    Expected sum;
    sum.add(bias_.get({at[1]}));
    int64_t of_weight = 0;
    for (std::size_t i = 0; i < c.channels.size(); ++i) {
      for (int64_t channel = 0; channel < c.channels[i]; ++channel, ++of_weight) {
        for (int64_t tap = 0; tap < int64_t{c.kernel_size} * c.kernel_size; ++tap) {
          const int64_t row = at[2] + tap / c.kernel_size - c.kernel_size / 2;
          const int64_t column = at[3] + tap % c.kernel_size - c.kernel_size / 2;
          if (row < 0 || row >= c.height || column < 0 || column >= c.width) continue;
          sum.add(weight_.get({at[1], of_weight, tap / c.kernel_size, tap % c.kernel_size}) *
                  inputs_[i].get({at[0], group * c.channels[i] + channel, row, column}));
        }
      }
    }
    if (c.relu) sum.value = std::max(sum.value, 0.);
    return sum;
  }

  Case case_;
  int of_group_;
  std::vector<Tensor> inputs_;
  Tensor weight_, bias_, out_, pooled_, side_weight_, side_bias_, side_;
  ConcatConvolutionArguments arguments_{};
};

class Convolution : public testing::TestWithParam<Type> {
 protected:
  Convolution() { emulated::card().processors = 2; }

  template <typename Can, typename Launch>
  void expect_each(const std::vector<Case>& cases, const Can& can, const Launch& launch) const {
    in_every_order([&] {
      for (const Case& c : cases) {
        const Call call(c, GetParam());
        std::string why;
        ASSERT_TRUE(can(call.arguments(), &why)) << c.name() << ": " << why;
        ASSERT_EQ(launch(call.arguments(), nullptr), cudaSuccess);
        call.expect_result();
      }
    });
  }
};

TEST_P(Convolution, OfWarpsIsFloat64s) {
  expect_each({{1, 9, 19, 3, 1, {16, 32}, 32, true}, {2, 5, 7, 1, 2, {16}, 16}},
              &can_run_concat_conv2d_mma, &launch_concat_conv2d_mma);
}

TEST_P(Convolution, Of1x1IsFloat64s) {
  expect_each({{1, 9, 13, 1, 1, {64}, 32, true}, {2, 3, 11, 1, 1, {128}, 64}},
              &can_run_pointwise_conv2d_mma, &launch_pointwise_conv2d_mma);
}

TEST_P(Convolution, OfWarpgroupsIsFloat64s) {
  expect_each({{1, 17, 9, 3, 1, {64}, 128, true},
               {2, 6, 18, 3, 1, {64, 64}, 64},
               {1, 18, 16, 3, 1, {64}, 64, true, true},
               {2, 16, 6, 3, 1, {64}, 128, true, true, 64}},
              &can_run_concat_conv2d_wgmma, &launch_concat_conv2d_wgmma);
}

TEST_P(Convolution, Of1x1AndASumIsFloat64s) {
  in_every_order([&] {
    constexpr int64_t kOfPixels = 150, kChannels = 128, kOutputs = 128;
    Tensor x(GetParam(), {kOfPixels, kChannels}, {{0, 1}, {0, 0}, {0, 8}});
    Tensor weight(GetParam(), {kOutputs, kChannels}, {{0, 1}, {}, {}});
    Tensor bias(GetParam(), {kOutputs}, kRow);
    Tensor other(GetParam(), {kOfPixels, kOutputs}, {{0, 1}, {}, {}});
    Tensor out(GetParam(), {kOfPixels, kOutputs}, {{0, 1}, {}, {}});
    x.fill(1, 1);
    weight.fill(2, 1 / std::sqrt(static_cast<float>(kChannels)));
    bias.fill(3, 1);
    other.fill(4, 1);
    PointwiseAddArguments a{x.data(),   weight.data(),  bias.data(), other.data(), out.data(),
                            GetParam(), x.strides()[0], kOfPixels,   kChannels,    kOutputs,
                            true};
    std::string why;
    ASSERT_TRUE(can_run_pointwise_add_wgmma(a, &why)) << why;
    ASSERT_EQ(launch_pointwise_add_wgmma(a, nullptr), cudaSuccess);
    expect_float64s(out, "1x1 and a sum", [&](const Sizes& at) {
      Expected sum;
      sum.add(bias.get({at[1]}));
      sum.add(other.get(at));
      for (int64_t i = 0; i < kChannels; ++i) {
        sum.add(weight.get({at[1], i}) * x.get({at[0], i}));
      }
      sum.value = std::max(sum.value, 0.);
      return sum;
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Types, Convolution, testing::Values(Type::kHalf, Type::kBFloat16),
                         [](const auto& parameters) { return name(parameters.param); });

}  // namespace
}  // namespace hdfnet::ops::cuda
