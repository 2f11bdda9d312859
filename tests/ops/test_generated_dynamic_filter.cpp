#include "hdfnet/ops/dynamic_filter.h"
#include "hdfnet/ops/generated_dynamic_filter.h"
#include "support.h"

namespace hdfnet::test {
namespace {

// What PyTorch users write: the taps by a matrix product, then unfold; all in the arguments' type.
at::Tensor generated_by_unfold(const GeneratedInputs& in, at::IntArrayRef dilations,
                               bool concat_input) {
  std::vector<at::Tensor> branches;
  const at::Tensor source = in.y.flatten(3).contiguous();
  for (int64_t b = 0; b < in.weight.size(0); ++b) {
    at::Tensor taps =
        at::matmul(in.weight[b], source.select(1, in.y.size(1) == 1 ? 0 : b).contiguous());
    if (in.bias.has_value()) taps = at::add(taps, (*in.bias)[b].unsqueeze(1));
    branches.push_back(taps);
  }
  const int64_t channels = in.x.size(1);
  const at::Tensor kernels = at::stack(branches, 1)
                                 .view({in.x.size(0), in.weight.size(0), channels,
                                        in.weight.size(1) / channels, in.x.size(2), in.x.size(3)});
  return filter_by_unfold(in.x, kernels, dilations, concat_input);
}

class GeneratedDynamicFilter : public testing::TestWithParam<at::DeviceType> {
 protected:
  void SetUp() override { HDFNET_REQUIRE_DEVICE(GetParam()); }
  at::TensorOptions options(at::ScalarType type) const {
    return at::TensorOptions().device(GetParam()).dtype(type);
  }
};
INSTANTIATE_TEST_SUITE_P(, GeneratedDynamicFilter, testing::Values(at::kCPU, at::kCUDA),
                         [](const auto& instance) {
                           return instance.param == at::kCPU ? std::string("Cpu")
                                                             : std::string("Cuda");
                         });

/// Draws after the first, which leave later cases the numbers that they would have had.
class FurtherDraws {
 public:
  explicit FurtherDraws(at::Device device)
      : generator_(at::globalContext().defaultGenerator(device)), before_(generator_.get_state()) {}
  ~FurtherDraws() { generator_.set_state(before_); }

 private:
  at::Generator generator_;
  at::Tensor before_;
};

void expect_correct(const GeneratedCase& c, const at::TensorOptions& options) {
  const std::string type = at::toString(c10::typeMetaToScalarType(options.dtype()));
  SCOPED_TRACE(c.describe() + " " + type);
  // Of a few dozen results the largest errors are a matter of luck: they are compared over many.
  constexpr int64_t kLeastResults = 2000;
  std::vector<at::Tensor> results, peers, exacts;
  std::optional<FurtherDraws> further;
  for (int64_t count = 0; count < kLeastResults; count += results.back().numel()) {
    const GeneratedInputs in = make_inputs(c, options);
    if (!further) further.emplace(options.device());
    const at::Tensor got =
        ops::generated_dynamic_filter(in.x, in.y, in.weight, in.bias, c.dilations, c.concat_input);
    EXPECT_TRUE(got.is_contiguous(in.x.suggest_memory_format()));
    if (in.x.numel() == 0) {
      EXPECT_EQ(got.numel(), 0);
      return;
    }
    const at::Tensor exact = ops::generated_dynamic_filter_reference(in.x, in.y, in.weight, in.bias,
                                                                     c.dilations, c.concat_input);
    ASSERT_EQ(got.sizes(), exact.sizes());
    results.push_back(got.flatten());
    peers.push_back(generated_by_unfold(in, c.dilations, c.concat_input).flatten());
    exacts.push_back(exact.flatten());
  }
  EXPECT_TRUE(as_good_as(at::cat(results), at::cat(peers), at::cat(exacts)));
}

GeneratedCase random_generated_case(std::mt19937& random) {
  const FilterCase f = random_case(random);
  const auto pick = [&](auto... values) {
    const std::vector<int64_t> all = {static_cast<int64_t>(values)...};
    return all[random() % all.size()];
  };
  GeneratedCase c{};
  c.batch = f.batch;
  c.channels = pick(1, 3, 8, 16, 16, 32, 48);
  c.source_channels = pick(1, 7, 8, 16, 24, 64, 64, 65, 100);
  c.groups = random() % 2 == 0 ? 1 : static_cast<int64_t>(f.dilations.size());
  c.height = f.height;
  c.width = f.width;
  c.kernel_size = pick(1, 3, 3, 3, 5, 7);
  c.dilations = f.dilations;
  c.concat_input = f.concat_input;
  c.has_bias = random() % 2 == 0;
  c.x_layout = f.x_layout;
  c.y_layout = random() % 3 == 0 ? kLayouts[random() % std::size(kLayouts)] : f.x_layout;
  return c;
}

TEST_P(GeneratedDynamicFilter, RandomSweep) {
  std::mt19937 random(3);
  for (int64_t i = 0; i < 60 * test_scale(); ++i) {
    const GeneratedCase c = random_generated_case(random);
    expect_correct(c, options(kTypes[random() % std::size(kTypes)]));
    if (HasFailure()) return;
  }
}

TEST_P(GeneratedDynamicFilter, ShapesOfTheNetworkAndOfTheSharedGenerator) {
  for (const at::ScalarType type : kTypes) {
    for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
      expect_correct({2, 16, 64, 3, 20, 20, 3, {1, 3, 5}, false, true, layout, layout},
                     options(type));
      expect_correct({1, 64, 64, 1, 33, 35, 3, {1, 3, 5}, true, false, layout, layout},
                     options(type));
      expect_correct({1, 16, 64, 1, 30, 24, 5, {1, 2}, true, true, layout, layout}, options(type));
    }
  }
}

// What picks the kernel and its form: types, formats, alignment (widths, slices), sources below and
// at the 64 of a product, tiles with edges, planes below one tile, one or several groups.
TEST_P(GeneratedDynamicFilter, EveryFormAndItsEdges) {
  const std::pair<int64_t, int64_t> sides[] = {{1, 1}, {19, 19}, {17, 24}, {33, 40}, {18, 50}};
  int64_t i = 0;
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast, Layout::kSliced}) {
      for (const auto& [height, width] : sides) {
        for (const int64_t source_channels : {40, 48, 64}) {
          const int64_t channels = ++i % 2 == 0 ? 16 : 48;
          const int64_t groups = i % 3 == 0 ? 1 : 3;
          expect_correct({1 + i % 2,
                          channels,
                          source_channels,
                          groups,
                          height,
                          width,
                          3,
                          {1, 3, 5},
                          i % 4 == 0,
                          i % 5 != 0,
                          layout,
                          layout},
                         options(type));
          if (HasFailure()) return;
        }
      }
    }
  }
}

// Beyond the 65,535 that the second and third side of a grid hold.
TEST_P(GeneratedDynamicFilter, MoreRowsAndImagesThanAGridHolds) {
  if (GetParam() == at::kCPU) GTEST_SKIP() << "the CPU has no grid";
  for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
    expect_correct({1, 16, 8, 1, 66000, 1, 3, {1, 2}, false, true, layout, layout},
                   options(at::kFloat));
    expect_correct({66000, 16, 8, 1, 1, 1, 3, {1, 2}, false, true, layout, layout},
                   options(at::kFloat));
  }
}

// A tap that is infinite where x is outside of its plane gives NaN, as with padding.
TEST_P(GeneratedDynamicFilter, NonFiniteValuesSpreadAsWithUnfold) {
  for (const at::ScalarType type : {at::kFloat, at::kHalf}) {
    for (const auto& [layout, width] : {std::pair{Layout::kContiguous, 14},
                                        {Layout::kContiguous, 16},
                                        {Layout::kChannelsLast, 14}}) {
      GeneratedInputs in = make_inputs(
          {1, 16, 64, 1, 12, width, 3, {1, 3}, false, true, layout, layout}, options(type));
      in.y[0][0][3][0][0] = std::numeric_limits<double>::infinity();
      in.x[0][2][7][7] = std::nan("");
      const at::Tensor got = ops::generated_dynamic_filter(in.x, in.y, in.weight, in.bias, {1, 3})
                                 .to(at::kCPU, at::kDouble);
      const at::Tensor expected =
          ops::generated_dynamic_filter_reference(in.x, in.y, in.weight, in.bias, {1, 3});
      EXPECT_TRUE(at::equal(got.isnan(), expected.isnan())) << name(layout) << width;
      EXPECT_TRUE(got[0][0][0][0].isnan().item<bool>());
    }
  }
}

// What a TF32 product loses: its operands keep 10 bits of their fractions. Not PyTorch's own
// product with TF32 allowed: cuBLAS multiplies in float32 where rows are not aligned (a side of
// 19).
at::Tensor as_tf32(const at::Tensor& tensor) {
  return ((tensor.view(at::kInt) + 0x1000).bitwise_and(~0x1fff)).view(at::kFloat);
}

// Every form: one group or more, y read by one block or several, Cy below 64, edges, K 3 and
// others.
TEST(GeneratedDynamicFilterTf32, IsAsGoodAsAProductOfTf32Operands) {
  HDFNET_REQUIRE_DEVICE(at::kCUDA);
  const auto float32 = at::TensorOptions().device(at::kCUDA).dtype(at::kFloat);
  for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
    const GeneratedCase cases[] = {
        {2, 32, 64, 1, 40, 50, 3, {1, 3}, true, true, layout, layout},
        {2, 32, 64, 1, 40, 50, 5, {1, 3}, true, true, layout, layout},
        {1, 32, 40, 1, 19, 19, 3, {1, 3, 5}, false, true, layout, layout},
        {2, 16, 64, 3, 47, 24, 3, {1, 3, 5}, false, true, layout, layout},
        {3, 48, 48, 3, 5, 7, 3, {1, 3, 5}, true, false, layout, layout}};
    for (const GeneratedCase& c : cases) {
      const GeneratedInputs in = make_inputs(c, float32);
      const auto call = [&] {
        return ops::generated_dynamic_filter(in.x, in.y, in.weight, in.bias, c.dilations,
                                             c.concat_input);
      };
      at::globalContext().setAllowTF32CuBLAS(true);
      const at::Tensor got = call();
      at::globalContext().setAllowTF32CuBLAS(false);
      const at::Tensor got_exact = call();
      GeneratedInputs rounded = in;
      rounded.y = as_tf32(in.y.contiguous());
      rounded.weight = as_tf32(in.weight);
      const at::Tensor exact = ops::generated_dynamic_filter_reference(
          in.x, in.y, in.weight, in.bias, c.dilations, c.concat_input);
      const at::Tensor peer = generated_by_unfold(rounded, c.dilations, c.concat_input);
      EXPECT_TRUE(as_good_as(got, peer, exact)) << c.describe();
      // Not allowed: float32, a thousand times as exact.
      const at::Tensor peer_exact = generated_by_unfold(in, c.dilations, c.concat_input);
      EXPECT_TRUE(as_good_as(got_exact, peer_exact, exact)) << c.describe();
    }
  }
}

// The bias comes to some of the products in parts, of which none may spoil what is not finite.
TEST(GeneratedDynamicFilterTf32, NonFiniteValuesSpreadAsWithUnfold) {
  HDFNET_REQUIRE_DEVICE(at::kCUDA);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
    GeneratedInputs in = make_inputs({1, 16, 64, 1, 12, 14, 3, {1, 3}, false, true, layout, layout},
                                     at::TensorOptions().device(at::kCUDA).dtype(at::kFloat));
    in.y[0][0][3][0][0] = kInfinity;
    in.x[0][2][7][7] = std::nan("");
    const at::Tensor bias = at::randn({2, 16 * 9}, in.x.options());
    bias[0][5 * 9 + 4] = -kInfinity;
    bias[1][6 * 9 + 1] = std::nan("");
    bias[1][7 * 9 + 4] = 3.4e38;  // rounded up it would be infinite
    in.bias = bias;
    at::globalContext().setAllowTF32CuBLAS(true);
    const at::Tensor got = ops::generated_dynamic_filter(in.x, in.y, in.weight, in.bias, {1, 3})
                               .to(at::kCPU, at::kDouble);
    at::globalContext().setAllowTF32CuBLAS(false);
    const at::Tensor expected =
        ops::generated_dynamic_filter_reference(in.x, in.y, in.weight, in.bias, {1, 3});
    EXPECT_TRUE(at::equal(got.isnan(), expected.isnan())) << name(layout);
    EXPECT_TRUE(got[0][5].isinf().any().item<bool>()) << name(layout);
  }
}

TEST(GeneratedDynamicFilterMeta, GivesTheShapeWithoutComputing) {
  const auto meta = at::TensorOptions().device(at::kMeta).dtype(at::kFloat);
  const at::Tensor result = ops::generated_dynamic_filter(
      at::empty({2, 16, 20, 30}, meta), at::empty({2, 3, 64, 20, 30}, meta),
      at::empty({3, 16 * 9, 64}, meta), at::empty({3, 16 * 9}, meta), {1, 3, 5});
  EXPECT_EQ(result.sizes(), at::IntArrayRef({2, 48, 20, 30}));
}

}  // namespace
}  // namespace hdfnet::test
