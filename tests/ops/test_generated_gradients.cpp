// The gradients of generated_dynamic_filter in float32 and two-byte types: against float64, by the
// rule for results. (In float64 against finite differences: test_gradients.cpp.)
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "hdfnet/ops/dynamic_filter.h"
#include "hdfnet/ops/generated_dynamic_filter.h"
#include "support.h"
#ifdef HDFNET_WITH_CUDA
#include <c10/cuda/CUDAStream.h>

#include "common/check.h"
#include "cuda/arguments_from_tensors.h"
#include "cuda/generated_gradient_arguments.h"
#endif

namespace hdfnet::test {
namespace {

using Inputs = std::vector<at::Tensor>;  // x, y, weight and, where there is one, bias

Inputs make(const GeneratedCase& c, const at::TensorOptions& options) {
  const GeneratedInputs in = make_inputs(c, options);
  Inputs all = {in.x, in.y, in.weight};
  if (in.bias.has_value()) all.push_back(*in.bias);
  return all;
}

std::optional<at::Tensor> bias_of(const Inputs& in) {
  return in.size() > 3 ? std::optional(in[3]) : std::nullopt;
}

at::Tensor by_unfold(const Inputs& in, at::IntArrayRef dilations, bool concat_input) {
  std::vector<at::Tensor> branches;
  const at::Tensor source = in[1].flatten(3);
  for (int64_t b = 0; b < in[2].size(0); ++b) {
    at::Tensor taps = at::matmul(in[2][b], source.select(1, in[1].size(1) == 1 ? 0 : b));
    if (in.size() > 3) taps = taps + in[3][b].unsqueeze(1);
    branches.push_back(taps);
  }
  const at::Tensor kernels =
      at::stack(branches, 1)
          .view({in[0].size(0), in[2].size(0), in[0].size(1), in[2].size(1) / in[0].size(1),
                 in[0].size(2), in[0].size(3)});
  return filter_by_unfold(in[0], kernels, dilations, concat_input);
}

/// Autograd's gradients of `filter`, computed in `type` on `device`.
template <typename Filter>
Inputs gradients_of(const Filter& filter, const Inputs& inputs, const at::Tensor& direction,
                    at::ScalarType type, at::Device device) {
  Inputs in;
  for (const at::Tensor& input : inputs) {
    in.push_back(input.detach().to(device, type).requires_grad_(true));
  }
  return torch::autograd::grad({filter(in)}, in, {direction.to(device, type)});
}

Inputs own_gradients(const GeneratedCase& c, const Inputs& in, const at::Tensor& direction) {
  Inputs detached;  // the layouts are kept
  for (const at::Tensor& input : in) detached.push_back(input.detach().requires_grad_(true));
  const at::Tensor result = ops::generated_dynamic_filter(
      detached[0], detached[1], detached[2], bias_of(detached), c.dilations, c.concat_input);
  return torch::autograd::grad({result}, detached, {direction});
}

constexpr const char* kNames[] = {"x", "y", "weight", "bias"};

/// Draws together, for the largest error of one is a matter of luck.
constexpr int kDraws = 3;

void expect_right_gradients(const GeneratedCase& c, const at::TensorOptions& options) {
  SCOPED_TRACE(c.describe() + " " + at::toString(options.dtype().toScalarType()));
  std::vector<Inputs> own(4), peer(4), exact(4);  // of each input, the draws
  for (int draw = 0; draw < kDraws; ++draw) {
    const Inputs in = make(c, options);
    const at::Tensor direction =
        at::randn({c.batch, c.result_channels(), c.height, c.width}, options);
    const auto filter = [&](const Inputs& of) {
      return by_unfold(of, c.dilations, c.concat_input);
    };
    const auto keep = [](std::vector<Inputs>& to, const Inputs& gradients) {
      for (size_t i = 0; i < gradients.size(); ++i) to[i].push_back(gradients[i]);
    };
    keep(own, own_gradients(c, in, direction));
    keep(peer, gradients_of(filter, in, direction, in[0].scalar_type(), in[0].device()));
    keep(exact, gradients_of(filter, in, direction, at::kDouble, at::kCPU));
  }
  for (size_t i = 0; i < (c.has_bias ? 4 : 3); ++i) {
    ASSERT_EQ(own[i].size(), static_cast<size_t>(kDraws));
    EXPECT_TRUE(as_good_as(at::cat(own[i]), at::cat(peer[i]), at::cat(exact[i])))
        << "gradient of " << kNames[i];
  }
}

class GeneratedGradients : public testing::TestWithParam<at::DeviceType> {
 protected:
  void SetUp() override { HDFNET_REQUIRE_DEVICE(GetParam()); }
  at::TensorOptions options(at::ScalarType type) const {
    return at::TensorOptions().device(GetParam()).dtype(type);
  }
};
INSTANTIATE_TEST_SUITE_P(, GeneratedGradients, testing::Values(at::kCPU, at::kCUDA),
                         [](const auto& instance) {
                           return instance.param == at::kCPU ? std::string("Cpu")
                                                             : std::string("Cuda");
                         });

constexpr at::ScalarType kInexact[] = {at::kFloat, at::kHalf, at::kBFloat16};

TEST_P(GeneratedGradients, AreAsGoodAsThoseOfUnfold) {
  const Layout dense = Layout::kContiguous, last = Layout::kChannelsLast;
  const GeneratedCase cases[] = {
      {1, 16, 16, 1, 16, 16, 3, {1}, false, true, last, last},
      {1, 16, 16, 1, 1, 1, 3, {1, 3, 5}, true, true, last, last},
      {2, 16, 64, 1, 17, 33, 3, {1, 3, 5}, true, true, last, last},
      {2, 16, 64, 3, 33, 17, 3, {1, 3, 5}, false, true, last, last},
      {3, 32, 24, 3, 5, 40, 3, {8, 1, 8}, true, false, dense, last},
      {1, 48, 32, 1, 30, 31, 3, {2, 7}, false, true, dense, dense},
      {2, 64, 64, 1, 20, 20, 3, {1, 3, 5}, true, true, dense, dense},
      {2, 16, 8, 1, 7, 9, 3, {1, 2}, true, true, Layout::kSliced, Layout::kSliced},
      {2, 16, 16, 2, 9, 7, 3, {4, 5}, false, true, Layout::kExpanded, Layout::kReversed},
      // What the tensor cores don't take.
      {1, 16, 16, 1, 18, 19, 3, {9, 1}, true, true, last, last},
      {1, 16, 16, 1, 18, 19, 5, {1, 2}, true, true, last, last},
      {2, 20, 16, 1, 11, 12, 3, {1, 3}, true, true, last, dense},
      {2, 16, 12, 2, 11, 12, 3, {1, 3}, false, true, dense, dense},
      {2, 16, 72, 1, 11, 12, 3, {1, 3}, false, false, last, last},
      {1, 16, 8, 1, 6, 7, 3, std::vector<int64_t>(33, 2), true, true, dense, dense}};
  for (const at::ScalarType type : kInexact) {
    for (const GeneratedCase& c : cases) {
      expect_right_gradients(c, options(type));
      if (HasFailure()) return;
    }
  }
}

TEST_P(GeneratedGradients, OfRandomCases) {
  std::mt19937 random(7);
  const auto pick = [&](auto... values) {
    const int64_t all[] = {static_cast<int64_t>(values)...};
    return all[random() % (sizeof...(values))];
  };
  for (int64_t i = 0; i < 6 * test_scale(); ++i) {
    std::vector<int64_t> dilations(static_cast<size_t>(pick(1, 2, 3, 4)));
    for (int64_t& dilation : dilations) dilation = pick(1, 2, 3, 5, 8);
    const auto branches = static_cast<int64_t>(dilations.size());
    const GeneratedCase c{pick(1, 2, 3),
                          pick(16, 32, 48),
                          pick(8, 16, 32, 40, 64),
                          random() % 2 == 0 ? 1 : branches,
                          pick(1, 4, 15, 16, 17, 35),
                          pick(1, 7, 16, 18, 40),
                          3,
                          dilations,
                          random() % 2 == 0,
                          random() % 3 != 0,
                          kLayouts[random() % 5],
                          kLayouts[random() % 5]};
    expect_right_gradients(c, options(kInexact[random() % 3]));
    if (HasFailure()) return;
  }
}

// More taps than are made at a time: the parts' gradients come together.
TEST_P(GeneratedGradients, OfABatchInParts) {
  const GeneratedCase c{
      15, 64, 4, 1, 64, 64, 3, {1, 3}, true, true, Layout::kContiguous, Layout::kContiguous};
  const Inputs in = make(c, options(at::kDouble));
  const at::Tensor direction = at::randn({15, 192, 64, 64}, options(at::kDouble));
  const auto gradients = [&](int64_t first, int64_t count) {
    const auto [x, y, weight, bias] = ops::generated_dynamic_filter_backward(
        direction.narrow(0, first, count), in[0].narrow(0, first, count),
        in[1].narrow(0, first, count), in[2], in[3], c.dilations, true, {true, true, true, true});
    return Inputs{x, y, weight, bias};
  };
  const Inputs whole = gradients(0, 15), begin = gradients(0, 7), end = gradients(7, 8);
  for (size_t i = 0; i < 4; ++i) {
    const at::Tensor expected = i < 2 ? at::cat({begin[i], end[i]}) : begin[i] + end[i];
    EXPECT_TRUE(at::allclose(whole[i], expected, 1e-10, 1e-10)) << kNames[i];
  }
}

// The backward pass computes in the type of its tensors, whatever autocast is on around it.
TEST_P(GeneratedGradients, AreTheSameUnderAutocast) {
  const GeneratedCase c{
      1, 20, 12, 2, 9, 11, 3, {1, 2}, false, true, Layout::kContiguous, Layout::kContiguous};
  const Inputs in = make(c, options(at::kFloat));
  const at::Tensor direction = at::randn({1, 40, 9, 11}, options(at::kFloat));
  const auto gradients = [&](at::IntArrayRef dilations) {
    const auto [x, y, weight, bias] = ops::generated_dynamic_filter_backward(
        direction, in[0], in[1], in[2], in[3], dilations, false, {true, true, true, true});
    return Inputs{x, y, weight, bias};
  };
  for (const std::vector<int64_t>& dilations : {std::vector<int64_t>{1, 2}, {1, 9}}) {
    const Inputs expected = gradients(dilations);
    at::autocast::set_autocast_enabled(GetParam(), true);
    const Inputs got = gradients(dilations);
    at::autocast::set_autocast_enabled(GetParam(), false);
    for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(at::equal(got[i], expected[i])) << kNames[i];
  }
}

// A y without channels: the taps are the bias.
TEST_P(GeneratedGradients, WithoutChannelsOfY) {
  for (const at::ScalarType type : {at::kFloat, at::kHalf}) {
    const Inputs in = {at::randn({2, 16, 8, 8}, options(type)),
                       at::empty({2, 1, 0, 8, 8}, options(type)),
                       at::empty({2, 144, 0}, options(type)), at::randn({2, 144}, options(type))};
    const std::vector<int64_t> dilations = {1, 3};
    const at::Tensor kernels =
        in[3].view({1, 2, 16, 9, 1, 1}).expand({2, 2, 16, 9, 8, 8}).contiguous();
    EXPECT_TRUE(at::allclose(
        ops::generated_dynamic_filter(in[0], in[1], in[2], in[3], dilations).to(at::kFloat),
        ops::dynamic_filter(in[0], kernels, dilations).to(at::kFloat), 1e-3, 1e-3));
    const at::Tensor direction = at::randn({2, 32, 8, 8}, options(type));
    const auto [x, y, weight, bias] = ops::generated_dynamic_filter_backward(
        direction, in[0], in[1], in[2], in[3], dilations, false, {true, true, true, true});
    const auto [expected_x, expected_taps] =
        ops::dynamic_filter_backward(direction, in[0], kernels, dilations, false, {true, true});
    EXPECT_TRUE(at::allclose(x.to(at::kFloat), expected_x.to(at::kFloat), 1e-2, 1e-2));
    EXPECT_TRUE(at::allclose(bias.to(at::kFloat),
                             expected_taps.to(at::kFloat).sum({0, 4, 5}).view({2, 144}), 1e-2,
                             0.1));
    EXPECT_EQ(y.sizes(), in[1].sizes());
    EXPECT_EQ(weight.sizes(), in[2].sizes());
  }
}

TEST_P(GeneratedGradients, OnlyThoseThatAreWanted) {
  const GeneratedCase c{
      2, 16, 16, 1, 9, 11, 3, {1, 3}, true, true, Layout::kChannelsLast, Layout::kChannelsLast};
  for (const at::ScalarType type : {at::kFloat, at::kHalf}) {
    const Inputs in = make(c, options(type));
    const at::Tensor direction = at::randn({2, 48, 9, 11}, options(type));
    const auto gradients = [&](std::array<bool, 4> needs) {
      const auto [x, y, weight, bias] = ops::generated_dynamic_filter_backward(
          direction, in[0], in[1], in[2], in[3], c.dilations, true, needs);
      return Inputs{x, y, weight, bias};
    };
    const Inputs all = gradients({true, true, true, true});
    for (size_t wanted = 0; wanted < 4; ++wanted) {
      std::array<bool, 4> needs{};
      needs[wanted] = true;
      const Inputs one = gradients(needs);
      for (size_t i = 0; i < 4; ++i) {
        ASSERT_EQ(one[i].defined(), i == wanted) << kNames[i];
        if (i != wanted) continue;
        EXPECT_TRUE(at::equal(one[i], all[i])) << kNames[i];
      }
    }
  }
}

// A gradient is finite where that of float64 is, and nowhere else:
// x and grad at an edge and near the last columns and rows, which fill their tiles by half or less;
// taps at a pixel and at its neighbours.
TEST_P(GeneratedGradients, HideAndSpreadNothingThatIsNotFinite) {
  const GeneratedCase c{
      1, 16, 16, 1, 20, 21, 3, {1, 3, 5}, true, true, Layout::kChannelsLast, Layout::kChannelsLast};
  struct Place {
    size_t broken;        // 4: the gradient of the result
    int64_t row, column;  // of a map, or the row of weight and bias
  };
  const std::vector<Place> places = {{0, 10, 0}, {0, 10, 19}, {0, 18, 5}, {1, 19, 7}, {2, 40, 0},
                                     {2, 36, 0}, {2, 44, 0},  {3, 40, 0}, {3, 37, 0}, {3, 39, 0},
                                     {4, 10, 0}, {4, 10, 20}, {4, 19, 5}};
  for (const at::ScalarType type : kInexact) {
    for (const double value : {std::nan(""), static_cast<double>(INFINITY)}) {
      for (const Place& place : places) {
        SCOPED_TRACE(std::string(at::toString(type)) + " " + std::to_string(value) + " in " +
                     (place.broken < 4 ? kNames[place.broken] : "the gradient") + " at " +
                     std::to_string(place.row) + ", " + std::to_string(place.column));
        Inputs in = make(c, options(type));
        at::Tensor direction = at::randn({1, 64, 20, 21}, options(type));
        at::Tensor& tensor = place.broken < 4 ? in[place.broken] : direction;
        if (place.broken == 4 || place.broken == 0) {
          tensor.select(1, 5).select(1, place.row).select(1, place.column).fill_(value);
        } else if (place.broken == 1) {
          tensor.select(2, 5).select(2, place.row).select(2, place.column).fill_(value);
        } else {
          tensor.select(0, 1).select(0, place.row).fill_(value);
        }
        const auto filter = [&](const Inputs& of) { return by_unfold(of, c.dilations, true); };
        const Inputs own = own_gradients(c, in, direction);
        const Inputs exact = gradients_of(filter, in, direction, at::kDouble, at::kCPU);
        bool any = false;
        for (size_t i = 0; i < 4; ++i) {
          const at::Tensor lost = at::logical_and(own[i].cpu().isfinite(), ~exact[i].isfinite());
          EXPECT_FALSE(lost.any().item<bool>()) << "gradient of " << kNames[i];
          const at::Tensor made = at::logical_and(~own[i].cpu().isfinite(), exact[i].isfinite());
          EXPECT_FALSE(made.any().item<bool>()) << "gradient of " << kNames[i];
          any = any || !exact[i].isfinite().all().item<bool>();
        }
        EXPECT_TRUE(any);
      }
    }
  }
}

#ifdef HDFNET_WITH_CUDA

class CudaGeneratedGradient : public testing::Test {
 protected:
  void SetUp() override { HDFNET_REQUIRE_DEVICE(at::kCUDA); }
};

ops::cuda::GeneratedGradientArguments some_arguments() {
  ops::cuda::GeneratedGradientArguments a{};
  a.type = ops::cuda::Type::kHalf;
  a.batch = 2;
  a.branches = 3;
  a.groups = 1;
  a.channels = 32;
  a.source_channels = 40;
  a.height = 19;
  a.width = 37;
  a.dilation[0] = 1;
  a.dilation[1] = 3;
  a.dilation[2] = 5;
  return a;
}

// On every card, so that CI sees it, the reasons of sizes come before that of the card.
TEST(GeneratedGradientChoice, SaysWhyNot) {
  using ops::cuda::GeneratedGradientArguments;
  const auto reason = [](auto&& change, int kernel_size = 3) {
    GeneratedGradientArguments a = some_arguments();
    change(a);
    std::string why = "none";
    ops::cuda::can_run_generated_gradient(a, kernel_size, &why);
    return why;
  };
  EXPECT_EQ(reason([](auto& a) { a.type = ops::cuda::Type::kFloat; }), "not a two-byte type");
  EXPECT_EQ(reason([](auto&) {}, 5), "kernel size other than 3");
  EXPECT_EQ(reason([](auto& a) { a.channels = 24; }), "channels of x are no multiple of 16");
  EXPECT_EQ(reason([](auto& a) { a.source_channels = 12; }),
            "channels of y are no multiple of 8 up to 64");
  EXPECT_EQ(reason([](auto& a) { a.source_channels = 72; }),
            "channels of y are no multiple of 8 up to 64");
  EXPECT_EQ(reason([](auto& a) { a.branches = 33; }), "more than 32 branches");
  EXPECT_EQ(reason([](auto& a) { a.dilation[1] = 9; }), "dilation above 8");
  EXPECT_EQ(reason([](auto& a) { a.height = 1 << 20, a.width = 1 << 10; }),
            "more than 2^30 elements in an image");
  EXPECT_EQ(reason([](auto& a) { a.batch = int64_t{1} << 31; }), "more tiles than a grid holds");
}

ops::cuda::GeneratedGradientSimtArguments some_exact_arguments() {
  ops::cuda::GeneratedGradientSimtArguments a{};
  auto& f = a.filter;
  f.type = ops::cuda::Type::kFloat;
  f.batch = 2;
  f.branches = 3;
  f.groups = 1;
  f.channels = 20;
  f.source_channels = 64;
  f.height = f.width = 128;
  f.kernel_size = 3;
  for (int b = 0; b < 3; ++b) f.dilation[b] = 2 * b + 1;
  return a;
}

TEST(GeneratedGradientChoice, SaysWhyNotExactly) {
  const auto reason = [](auto&& change) {
    auto a = some_exact_arguments();
    change(a.filter);
    std::string why = "none";
    ops::cuda::can_run_generated_gradient_simt(a, &why);
    return why;
  };
  EXPECT_EQ(reason([](auto& f) { f.type = ops::cuda::Type::kHalf; }), "not float");
  EXPECT_EQ(reason([](auto& f) { f.kernel_size = 5; }), "kernel size other than 3");
  EXPECT_EQ(reason([](auto& f) { f.branches = 33; }), "more than 32 branches");
  EXPECT_EQ(reason([](auto& f) { f.dilation[1] = 9; }), "dilation above 8");
  EXPECT_EQ(reason([](auto& f) { f.height = f.width = 1 << 15; }), "2^30 pixels or more");
  EXPECT_EQ(reason([](auto& f) { f.batch = 1 << 24; }), "more than 2^30 tiles");
  EXPECT_EQ(reason([](auto& f) { f.channels = 1 << 29; }), "2^30 channels or more");
}

TEST(GeneratedGradientChoice, ExactArithmeticPaysUnlessTf32HasMuchToDo) {
  const auto pays = [](bool tf32, int64_t source, int64_t batch) {
    auto a = some_exact_arguments();
    a.filter.allow_tf32 = tf32;
    a.filter.source_channels = source;
    a.filter.batch = batch;
    std::string why = "it pays";
    ops::cuda::generated_gradient_simt_pays(a, &why);
    return why;
  };
  EXPECT_EQ(pays(false, 64, 100), "it pays");
  EXPECT_EQ(pays(true, 16, 100), "it pays");
  EXPECT_EQ(pays(true, 64, 1), "it pays");
  EXPECT_EQ(pays(true, 64, 2), "TF32 with more than 16 channels of y and many pixels");
}

TEST_F(CudaGeneratedGradient, TakesWhatTheNetworkHas) {
  auto a = some_arguments();
  std::string why;
  EXPECT_TRUE(ops::cuda::can_run_generated_gradient(a, 3, &why)) << why;
  a.type = ops::cuda::Type::kBFloat16;
  a.channels = 16;
  a.source_channels = 64;
  a.groups = 3;
  EXPECT_TRUE(ops::cuda::can_run_generated_gradient(a, 3, &why)) << why;
  EXPECT_TRUE(ops::cuda::can_run_generated_gradient_simt(some_exact_arguments(), &why)) << why;
}

// In exact float32: as the test before, for each of the three launches, in both layouts.
TEST_F(CudaGeneratedGradient, OfFloatWritesItsOutputsAndNothingElse) {
  constexpr int64_t kGuard = 1024;
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kFloat);
  for (const bool last : {false, true}) {
    for (const int64_t channels : {5, 48}) {
      for (const int64_t source : {9, 16, 64, 70}) {
        for (const auto& [height, width] : {std::pair{1, 1}, {16, 32}, {19, 37}}) {
          SCOPED_TRACE(std::string(last ? "channels_last C " : "C ") + std::to_string(channels) +
                       " Cy " + std::to_string(source) + " " + std::to_string(height) + " x " +
                       std::to_string(width));
          Inputs guarded;
          const auto map = [&](const at::Tensor& flat, int64_t count) {
            return last ? flat.view({2, height, width, count}).permute({0, 3, 1, 2})
                        : flat.view({2, count, height, width});
          };
          const auto random = [&](int64_t count) {
            return map(at::randn({2 * height * width * count}, options), count);
          };
          const auto room = [&](int64_t count) {
            guarded.push_back(at::full({count + 2 * kGuard}, std::nan(""), options));
            return guarded.back().narrow(0, kGuard, count);
          };
          const int64_t pixels = 2 * height * width;
          const at::Tensor x = random(channels);
          const at::Tensor y = random(3 * source).unflatten(1, {3, source});
          const at::Tensor grad = random(4 * channels);
          const at::Tensor weight = at::randn({3, channels * 9, source}, options);
          const at::Tensor bias = at::randn({3, channels * 9}, options);
          const std::vector<int64_t> dilations = {1, 8, 3};
          const auto sizes =
              ops::check_generated_dynamic_filter<int64_t>("test", x, y, weight, bias, dilations);
          ops::cuda::GeneratedGradientSimtArguments a{};
          a.filter = ops::cuda::generated_filter_arguments(x, y, weight, bias, x, sizes, dilations,
                                                           true, 0);
          a.grad = grad.const_data_ptr<float>();
          std::copy_n(grad.strides().begin(), 4, a.grad_stride);
          const at::Tensor grad_x = map(room(pixels * channels), channels);
          const at::Tensor grad_y =
              map(room(pixels * 3 * source), 3 * source).unflatten(1, {3, source});
          a.grad_x = grad_x.mutable_data_ptr<float>();
          std::copy_n(grad_x.strides().begin(), 4, a.grad_x_stride);
          a.grad_y = grad_y.mutable_data_ptr<float>();
          std::copy_n(grad_y.strides().begin(), 5, a.grad_y_stride);
          a.grad_weight = room(weight.numel()).mutable_data_ptr<float>();
          a.grad_bias = room(bias.numel()).mutable_data_ptr<float>();
          const int64_t scratch = ops::cuda::generated_gradient_simt_scratch(a);
          const at::Tensor partial =
              at::full({scratch + 2 * kGuard}, std::nan(""), options);  // need not be filled
          a.partial = partial.narrow(0, kGuard, scratch).mutable_data_ptr<float>();
          std::string why;
          ASSERT_TRUE(ops::cuda::can_run_generated_gradient_simt(a, &why)) << why;
          ASSERT_EQ(ops::cuda::launch_generated_gradient_of_x_simt(a, nullptr), cudaSuccess);
          ASSERT_EQ(ops::cuda::launch_generated_gradient_of_y_simt(a, nullptr), cudaSuccess);
          ASSERT_EQ(ops::cuda::launch_generated_gradient_of_weight_simt(a, nullptr), cudaSuccess);
          for (const at::Tensor& all : guarded) {
            const int64_t count = all.numel() - 2 * kGuard;
            EXPECT_TRUE(all.narrow(0, 0, kGuard).isnan().all().item<bool>());
            EXPECT_FALSE(all.narrow(0, kGuard, count).isnan().any().item<bool>());
            EXPECT_TRUE(all.narrow(0, kGuard + count, kGuard).isnan().all().item<bool>());
          }
          EXPECT_TRUE(partial.narrow(0, 0, kGuard).isnan().all().item<bool>());
          EXPECT_TRUE(partial.narrow(0, kGuard + scratch, kGuard).isnan().all().item<bool>());
          if (HasFailure()) return;
        }
      }
    }
  }
}

// Each result and the scratch lie in a larger tensor of NaN: all of a result is written, nothing
// around any of them.
TEST_F(CudaGeneratedGradient, WritesItsOutputsAndNothingElse) {
  constexpr int64_t kGuard = 1024;
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    for (const int64_t groups : {1, 3}) {
      for (const int64_t source : {16, 24, 64}) {
        for (const auto& [height, width] : {std::pair{1, 1}, {16, 32}, {19, 37}}) {
          SCOPED_TRACE(std::string(at::toString(type)) + " G " + std::to_string(groups) + " Cy " +
                       std::to_string(source) + " " + std::to_string(height) + " x " +
                       std::to_string(width));
          const auto options = at::TensorOptions().device(at::kCUDA).dtype(type);
          auto a = some_arguments();
          a.type = ops::cuda::type_of(at::empty({}, options));
          a.groups = static_cast<int>(groups);
          a.source_channels = static_cast<int>(source);
          a.height = height;
          a.width = width;
          a.concat_input = true;
          const int64_t rows = int64_t{a.channels} * 9;
          const at::Tensor grad = at::randn({2, height, width, 4 * 32}, options);
          const at::Tensor x = at::randn({2, height, width, 32}, options);
          const at::Tensor y = at::randn({2, height, width, groups * source}, options);
          const at::Tensor weight = at::randn({3, rows, source}, options);
          const at::Tensor bias = at::randn({3, rows}, options);
          const int64_t scratch = ops::cuda::generated_gradient_scratch(a);
          Inputs guarded;
          const auto room = [&](int64_t count, const at::TensorOptions& of) {
            guarded.push_back(at::full({count + 2 * kGuard}, std::nan(""), of));
            return guarded.back().narrow(0, kGuard, count).mutable_data_ptr();
          };
          a.grad = grad.const_data_ptr();
          a.x = x.const_data_ptr();
          a.y = y.const_data_ptr();
          a.weight = weight.const_data_ptr();
          a.bias = bias.const_data_ptr();
          a.grad_x = room(x.numel(), options);
          a.grad_y = room(y.numel(), options);
          a.grad_weight = room(weight.numel(), options);
          a.grad_bias = room(bias.numel(), options);
          a.partial = static_cast<float*>(room(scratch, options.dtype(at::kFloat)));
          std::string why;
          ASSERT_TRUE(ops::cuda::can_run_generated_gradient(a, 3, &why)) << why;
          ASSERT_EQ(ops::cuda::launch_generated_gradient(a, nullptr), cudaSuccess);
          for (const at::Tensor& all : guarded) {
            const int64_t count = all.numel() - 2 * kGuard;
            EXPECT_TRUE(all.narrow(0, 0, kGuard).isnan().all().item<bool>());
            EXPECT_FALSE(all.narrow(0, kGuard, count).isnan().any().item<bool>());
            EXPECT_TRUE(all.narrow(0, kGuard + count, kGuard).isnan().all().item<bool>());
          }
          if (HasFailure()) return;
        }
      }
    }
  }
}

// The same bits every time, in either layout of memory; gradients of y come in y's.
TEST_F(CudaGeneratedGradient, IsTheSameInEveryLayout) {
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kHalf);
  const GeneratedCase c{
      2, 32, 40, 3, 37, 29, 3, {1, 3, 5}, false, true, Layout::kContiguous, Layout::kContiguous};
  Inputs in = make(c, options);
  const at::Tensor direction = at::randn({2, 96, 37, 29}, options);
  const Inputs first = own_gradients(c, in, direction);
  in[0] = in[0].contiguous(at::MemoryFormat::ChannelsLast);
  in[1] = in[1].flatten(1, 2).contiguous(at::MemoryFormat::ChannelsLast).unflatten(1, {3, 40});
  const Inputs second = own_gradients(c, in, direction.contiguous(at::MemoryFormat::ChannelsLast));
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(at::equal(first[i], second[i])) << kNames[i];
  EXPECT_TRUE(first[1].is_contiguous());
  EXPECT_EQ(second[1].strides(), in[1].strides());
  EXPECT_EQ(second[0].strides(), in[0].strides());
}

// On another stream than the default one, and with memory straight from the device.
TEST_F(CudaGeneratedGradient, RunsOnTheStreamOfItsCaller) {
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kHalf);
  const GeneratedCase c{
      1, 16, 64, 1, 64, 64, 3, {1, 3, 5}, true, true, Layout::kChannelsLast, Layout::kChannelsLast};
  const Inputs in = make(c, options);
  const at::Tensor direction = at::randn({1, 64, 64, 64}, options);
  const Inputs expected = own_gradients(c, in, direction);
  at::Tensor late = at::zeros_like(direction);
  const auto stream = c10::cuda::getStreamFromPool();
  c10::cuda::getCurrentCUDAStream().synchronize();
  c10::cuda::setCurrentCUDAStream(stream);
  const at::Tensor big = at::ones({4096, 4096}, options);
  for (int i = 0; i < 20; ++i) at::mm(big, big);  // what follows has to wait for it
  late.copy_(direction);
  const auto [x, y, weight, bias] = ops::generated_dynamic_filter_backward(
      late, in[0], in[1], in[2], in[3], c.dilations, true, {true, true, true, true});
  stream.synchronize();
  c10::cuda::setCurrentCUDAStream(c10::cuda::getDefaultCUDAStream());
  const Inputs got = {x, y, weight, bias};
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(at::equal(got[i], expected[i])) << kNames[i];
}

#endif  // HDFNET_WITH_CUDA

}  // namespace
}  // namespace hdfnet::test
