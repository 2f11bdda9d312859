// The operators on the second GPU while the first one is current: they must follow their arguments.
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "hdfnet/ops/dynamic_filter.h"
#include "hdfnet/ops/generated_dynamic_filter.h"
#include "support.h"

namespace hdfnet::test {
namespace {

using Inputs = std::vector<at::Tensor>;
using Function = std::function<at::Tensor(const Inputs&)>;

const at::Device kSecond(at::kCUDA, 1);

struct Case {
  bool generated;
  Layout layout;
  at::ScalarType type;
};

/// The result and the gradients of all inputs.
Inputs forward_and_backward(const Function& f, const Inputs& values, const at::Tensor& direction) {
  Inputs inputs;
  inputs.reserve(values.size());
  for (const at::Tensor& value : values) inputs.push_back(value.detach().requires_grad_(true));
  Inputs all = {f(inputs)};
  const Inputs gradients = torch::autograd::grad(all, inputs, {direction});
  all.insert(all.end(), gradients.begin(), gradients.end());
  return all;
}

/// The values in new tensors, written by the current stream of the second device, late.
Inputs written_late(const Inputs& values) {
  Inputs copies;
  copies.reserve(values.size());
  for (const at::Tensor& value : values) copies.push_back(at::zeros_like(value));
  at::Tensor busy = at::randn({4096, 4096}, at::TensorOptions().device(kSecond).dtype(at::kHalf));
  for (int i = 0; i < 4; ++i) busy = at::matmul(busy, busy);
  for (std::size_t i = 0; i < values.size(); ++i) copies[i].copy_(values[i]);
  return copies;
}

class SecondDevice : public testing::Test {
 protected:
  void SetUp() override {
    HDFNET_REQUIRE_DEVICE(at::kCUDA);
    const int devices = c10::cuda::device_count();
    if (devices < 2) GTEST_SKIP() << "needs two CUDA devices, and there is " << devices;
    c10::cuda::set_device(0);
  }

  static Inputs random_inputs(const Case& c) {
    const auto options = at::TensorOptions().device(kSecond).dtype(c.type);
    const at::Tensor x = random_map({2, 16, 40, 40}, options, c.layout);
    if (!c.generated) return {x, random_taps({2, 3, 16, 9, 40, 40}, options, c.layout)};
    return {x, random_map({2, 64, 40, 40}, options, c.layout).unsqueeze(1),
            at::randn({3, 144, 64}, options) / 8, at::randn({3, 144}, options)};
  }

  static Function function(bool generated) {
    if (!generated) {
      return [](const Inputs& in) { return ops::dynamic_filter(in[0], in[1], {1, 3, 5}, true); };
    }
    return [](const Inputs& in) {
      return ops::generated_dynamic_filter(in[0], in[1], in[2], in[3], {1, 3, 5}, true);
    };
  }

  /// On the stream of the second device that is current, with the first device current.
  static void expect_right(const Case& c) {
    SCOPED_TRACE(std::string(c.generated ? "generated, " : "taps given, ") + name(c.layout) + ", " +
                 at::toString(c.type));
    const Inputs values = random_inputs(c);
    const at::Tensor direction = at::randn({2, 64, 40, 40}, values[0].options());
    Inputs in_double;
    for (const at::Tensor& value : values) in_double.push_back(value.to(at::kCPU, at::kDouble));
    const Inputs exact =
        forward_and_backward(function(c.generated), in_double, direction.to(at::kCPU, at::kDouble));
    const Inputs own = forward_and_backward(function(c.generated), written_late(values), direction);
    EXPECT_EQ(c10::cuda::current_device(), 0);
    c10::cuda::getCurrentCUDAStream(kSecond.index()).synchronize();
    const double allowed = c.type == at::kHalf ? 2e-2 : 2e-3;
    for (std::size_t i = 0; i < own.size(); ++i) {
      EXPECT_EQ(own[i].device(), kSecond);
      EXPECT_LT(error_of(own[i], exact[i]).largest, allowed * exact[i].abs().max().item<double>())
          << (i == 0 ? "the result" : "the gradient of input " + std::to_string(i - 1));
    }
  }

  static void expect_all_right() {
    for (const bool generated : {false, true}) {
      for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
        for (const at::ScalarType type : {at::kFloat, at::kHalf}) {
          expect_right({generated, layout, type});
        }
      }
    }
  }
};

TEST_F(SecondDevice, WhileTheFirstIsCurrent) {
  expect_all_right();
}

TEST_F(SecondDevice, OnAStreamOfItsOwnWhileTheFirstIsCurrent) {
  const auto before = c10::cuda::getCurrentCUDAStream(kSecond.index());
  // Unlike a guard, this leaves the first device the current one.
  c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(false, kSecond.index()));
  expect_all_right();
  c10::cuda::setCurrentCUDAStream(before);
}

TEST_F(SecondDevice, BothDevicesAtOnce) {
  const FilterCase c{2, 16, 80, 80, 3, {1, 3, 5}, false, Layout::kContiguous, Layout::kContiguous};
  const auto options = at::TensorOptions().device(kSecond).dtype(at::kHalf);
  const at::Tensor x = c.make_x(options);
  const at::Tensor kernels = c.make_kernels(options);
  const at::Tensor x_first = x.to(at::Device(at::kCUDA, 0));
  const at::Tensor kernels_first = kernels.to(x_first.device());
  for (int round = 0; round < 10; ++round) {
    const at::Tensor second = ops::dynamic_filter(x, kernels, c.dilations);
    const at::Tensor first = ops::dynamic_filter(x_first, kernels_first, c.dilations);
    ASSERT_LT(error_of(first, second.cpu()).largest, 0.05);
  }
}

}  // namespace
}  // namespace hdfnet::test
