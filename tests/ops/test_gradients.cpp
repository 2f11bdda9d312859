// Gradients against finite differences in float64, on each device.
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "hdfnet/ops/dynamic_filter.h"
#include "hdfnet/ops/generated_dynamic_filter.h"
#include "support.h"

namespace hdfnet::test {
namespace {

using Inputs = std::vector<at::Tensor>;
using Function = std::function<at::Tensor(const Inputs&)>;

// Compares d(sum(f * direction))/d(inputs) with central differences, element by element.
void expect_gradients(const Function& f, Inputs inputs) {
  for (at::Tensor& input : inputs) input = input.detach().requires_grad_(true);
  const at::Tensor result = f(inputs);
  const at::Tensor direction = at::randn_like(result);
  const Inputs gradients = torch::autograd::grad({(result * direction).sum()}, inputs);
  const c10::AutoGradMode no_gradients(false);
  constexpr double kStep = 1e-4;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_EQ(gradients[i].sizes(), inputs[i].sizes());
    const at::Tensor original = inputs[i].detach().clone();
    const at::Tensor expected = at::empty(original.sizes(), at::kDouble);
    double* to = expected.data_ptr<double>();
    for (int64_t j = 0; j < original.numel(); ++j) {
      const auto value_at = [&](double step) {
        Inputs moved = inputs;
        at::Tensor flat = original.reshape({-1}).clone();
        flat[j] += step;
        moved[i] = flat.view(original.sizes());
        return (f(moved) * direction).sum().item<double>();
      };
      to[j] = (value_at(kStep) - value_at(-kStep)) / (2 * kStep);
    }
    EXPECT_LT(error_of(gradients[i], expected).largest, 1e-7) << "input " << i;
  }
}

class Gradients : public testing::TestWithParam<at::DeviceType> {
 protected:
  void SetUp() override { HDFNET_REQUIRE_DEVICE(GetParam()); }
  at::TensorOptions options(at::ScalarType type = at::kDouble) const {
    return at::TensorOptions().device(GetParam()).dtype(type);
  }
};
INSTANTIATE_TEST_SUITE_P(, Gradients, testing::Values(at::kCPU, at::kCUDA),
                         [](const auto& instance) {
                           return instance.param == at::kCPU ? std::string("Cpu")
                                                             : std::string("Cuda");
                         });

TEST_P(Gradients, OfDynamicFilter) {
  for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast, Layout::kSliced}) {
    for (const bool concat : {false, true}) {
      for (const int64_t k : {1, 3}) {
        const FilterCase c{2, 2, 4, 3, k, {1, 2}, concat, layout, layout};
        SCOPED_TRACE(c.describe());
        expect_gradients(
            [&](const Inputs& in) {
              return ops::dynamic_filter(in[0], in[1], c.dilations, concat);
            },
            {c.make_x(options()), c.make_kernels(options())});
      }
    }
  }
}

TEST_P(Gradients, OfGeneratedDynamicFilter) {
  for (const int64_t groups : {1, 2}) {
    for (const bool concat : {false, true}) {
      expect_gradients(
          [&](const Inputs& in) {
            return ops::generated_dynamic_filter(in[0], in[1], in[2], in[3], {1, 2}, concat);
          },
          {at::randn({2, 2, 3, 4}, options()), at::randn({2, groups, 3, 3, 4}, options()),
           at::randn({2, 18, 3}, options()), at::randn({2, 18}, options())});
    }
  }
}

// In the lower precisions: against the float64 reference's gradients, by the rule for results.
TEST_P(Gradients, OfDynamicFilterInEveryType) {
  for (const at::ScalarType type : kTypes) {
    for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
      for (const auto& [k, width] : {std::pair<int64_t, int64_t>{3, 22}, {5, 22}, {3, 24}}) {
        const FilterCase c{2, 5, 17, width, k, {1, 3}, true, layout, layout};
        SCOPED_TRACE(c.describe() + " " + at::toString(type));
        const at::Tensor x = c.make_x(options(type));
        const at::Tensor kernels = c.make_kernels(options(type));
        const auto gradients = [&](at::ScalarType as, at::Device device, auto&& filter,
                                   const at::Tensor& direction) {
          const Inputs in = {x.to(device, as).detach().requires_grad_(true),
                             kernels.to(device, as).detach().requires_grad_(true)};
          const at::Tensor result = filter(in[0], in[1], c.dilations, true);
          return torch::autograd::grad({result}, in, {direction.to(device, as)});
        };
        const at::Tensor direction = at::randn({2, 15, 17, width}, options(type));
        const auto own = gradients(
            type, x.device(), [](auto&&... in) { return ops::dynamic_filter(in...); }, direction);
        const auto peer = gradients(type, x.device(), filter_by_unfold, direction);
        const auto exact = gradients(at::kDouble, at::kCPU, filter_by_unfold, direction);
        for (int i : {0, 1}) EXPECT_TRUE(as_good_as(own[i], peer[i], exact[i])) << "input " << i;
      }
    }
  }
}

// An expanded gradient, as of a sum, and one in the other format, are as good as a dense one.
TEST_P(Gradients, OfAnyGradientOfTheResult) {
  for (const at::ScalarType type : {at::kFloat, at::kHalf}) {
    for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
      const FilterCase c{2, 6, 9, 12, 3, {1, 3}, true, layout, layout};
      SCOPED_TRACE(c.describe());
      const at::Tensor x = c.make_x(options(type));
      const at::Tensor kernels = c.make_kernels(options(type));
      const auto gradients = [&](const at::Tensor& grad) {
        const auto [grad_x, grad_kernels] =
            ops::dynamic_filter_backward(grad, x, kernels, c.dilations, true, {true, true});
        return Inputs{grad_x, grad_kernels};
      };
      const double allowed = type == at::kHalf ? 4e-3 : 1e-5;  // sums in another order
      const auto expect_equal = [&](const Inputs& got, const Inputs& expected) {
        for (int i : {0, 1}) {
          EXPECT_TRUE(
              at::allclose(got[i].to(at::kFloat), expected[i].to(at::kFloat), allowed, allowed))
              << "input " << i;
          EXPECT_EQ(got[i].strides(), expected[i].strides());
        }
      };
      const at::Tensor one = at::full({1}, 1.5, options(type));
      expect_equal(gradients(one.expand({2, 18, 9, 12})),
                   gradients(one.expand({2, 18, 9, 12}).contiguous(x.suggest_memory_format())));
      const at::Tensor grad = at::randn({2, 18, 9, 12}, options(type));
      expect_equal(gradients(grad), gradients(grad.contiguous(at::MemoryFormat::ChannelsLast)));
    }
  }
}

TEST_P(Gradients, OnlyThoseThatAreWanted) {
  const FilterCase c{1, 2, 5, 5, 3, {1}, false, Layout::kContiguous, Layout::kContiguous};
  const at::Tensor x = c.make_x(options());
  const at::Tensor kernels = c.make_kernels(options());
  const auto [grad_x, grad_kernels] = ops::dynamic_filter_backward(
      at::ones({1, 2, 5, 5}, options()), x, kernels, {1}, false, {false, true});
  EXPECT_FALSE(grad_x.defined());
  EXPECT_TRUE(grad_kernels.defined());
}

TEST_P(Gradients, OfGradientsAreRefused) {
  const FilterCase c{1, 1, 3, 3, 3, {1}, false, Layout::kContiguous, Layout::kContiguous};
  const at::Tensor x = c.make_x(options()).requires_grad_(true);
  const at::Tensor kernels = c.make_kernels(options()).requires_grad_(true);
  const at::Tensor result = ops::dynamic_filter(x, kernels, {1}).square().sum();
  const auto first = torch::autograd::grad({result}, {x}, {}, true, true);
  EXPECT_THROW(torch::autograd::grad({first[0].sum()}, {kernels}), c10::Error);
}

}  // namespace
}  // namespace hdfnet::test
