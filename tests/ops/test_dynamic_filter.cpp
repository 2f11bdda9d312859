#include <limits>

#include "hdfnet/ops/dynamic_filter.h"
#include "support.h"

namespace hdfnet::test {
namespace {

const at::TensorOptions kExact = at::TensorOptions().dtype(at::kDouble);

TEST(DynamicFilterReference, EqualsUnfoldInFloat64) {
  std::mt19937 random(1);
  for (int64_t i = 0; i < 60 * test_scale(); ++i) {
    const FilterCase c = random_case(random);
    if (c.batch == 0) continue;  // im2col refuses empty batches
    SCOPED_TRACE(c.describe());
    const at::Tensor x = c.make_x(kExact);
    const at::Tensor kernels = c.make_kernels(kExact);
    const at::Tensor got = ops::dynamic_filter_reference(x, kernels, c.dilations, c.concat_input);
    const at::Tensor expected = filter_by_unfold(x, kernels, c.dilations, c.concat_input);
    ASSERT_LT(error_of(got, expected).largest, 1e-12);
  }
}

// Worked by hand: a 3 x 3 plane 1..9, dilation 1, tap t of every pixel = t. At the centre that is
// sum t*(t+1) = 240; at the top left only taps 4, 5, 7, 8 lie inside: 4*1 + 5*2 + 7*4 + 8*5 = 82.
TEST(DynamicFilterReference, WorkedExample) {
  const at::Tensor x = at::arange(1, 10, kExact).view({1, 1, 3, 3});
  const at::Tensor kernels =
      at::arange(0, 9, kExact).view({1, 1, 1, 9, 1, 1}).expand({1, 1, 1, 9, 3, 3});
  const at::Tensor result = ops::dynamic_filter_reference(x, kernels, {1});
  EXPECT_EQ(result[0][0][1][1].item<double>(), 240);
  EXPECT_EQ(result[0][0][0][0].item<double>(), 82);
}

class DynamicFilter : public testing::TestWithParam<at::DeviceType> {
 protected:
  void SetUp() override { HDFNET_REQUIRE_DEVICE(GetParam()); }
  at::TensorOptions options(at::ScalarType type) const {
    return at::TensorOptions().device(GetParam()).dtype(type);
  }
};
INSTANTIATE_TEST_SUITE_P(, DynamicFilter, testing::Values(at::kCPU, at::kCUDA),
                         [](const auto& instance) {
                           return instance.param == at::kCPU ? std::string("Cpu")
                                                             : std::string("Cuda");
                         });

void expect_correct(const at::Tensor& x, const at::Tensor& kernels, at::IntArrayRef dilations,
                    bool concat_input) {
  const at::Tensor got = ops::dynamic_filter(x, kernels, dilations, concat_input);
  const at::Tensor exact = ops::dynamic_filter_reference(x, kernels, dilations, concat_input);
  const at::Tensor peer =
      x.numel() == 0 ? got : filter_by_unfold(x, kernels, dilations, concat_input);
  EXPECT_TRUE(as_good_as(got, peer, exact));
  EXPECT_EQ(got.scalar_type(), x.scalar_type());
  EXPECT_EQ(got.device(), x.device());
  EXPECT_TRUE(got.is_contiguous(x.suggest_memory_format()));
}

TEST_P(DynamicFilter, RandomSweep) {
  std::mt19937 random(2);
  for (int64_t i = 0; i < 100 * test_scale(); ++i) {
    const FilterCase c = random_case(random);
    const at::ScalarType type = kTypes[random() % std::size(kTypes)];
    SCOPED_TRACE(c.describe() + " " + at::toString(type));
    expect_correct(c.make_x(options(type)), c.make_kernels(options(type)), c.dilations,
                   c.concat_input);
    if (HasFailure()) return;
  }
}

TEST_P(DynamicFilter, ShapesOfTheNetwork) {
  for (const at::ScalarType type : kTypes) {
    for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
      for (const int64_t side : {20, 40, 80}) {
        const FilterCase c{1, 16, side, side, 3, {1, 3, 5}, false, layout, layout};
        SCOPED_TRACE(c.describe() + " " + at::toString(type));
        expect_correct(c.make_x(options(type)), c.make_kernels(options(type)), c.dilations, false);
      }
    }
  }
}

TEST_P(DynamicFilter, EveryKernelSizeAndBothFormats) {
  for (const at::ScalarType type : kTypes) {
    for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
      for (const int64_t k : {1, 3, 5, 7, 9}) {
        for (const int64_t width : {64, 65}) {
          const FilterCase c{2, 6, 37, width, k, {1, 2, 3}, true, layout, layout};
          SCOPED_TRACE(c.describe() + " " + at::toString(type));
          expect_correct(c.make_x(options(type)), c.make_kernels(options(type)), c.dilations, true);
        }
      }
    }
  }
}

TEST_P(DynamicFilter, ReachBeyondThePlane) {
  for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
    const FilterCase c{2, 4, 4, 6, 3, {1, 4, 6, 100, 100000}, false, layout, layout};
    expect_correct(c.make_x(options(at::kFloat)), c.make_kernels(options(at::kFloat)), c.dilations,
                   false);
  }
}

TEST_P(DynamicFilter, OnePixel) {
  const FilterCase c{3, 5, 1, 1, 3, {1, 2}, true, Layout::kContiguous, Layout::kContiguous};
  expect_correct(c.make_x(options(at::kFloat)), c.make_kernels(options(at::kFloat)), c.dilations,
                 true);
}

// Beyond the 65,535 that the second and third side of a grid hold.
TEST_P(DynamicFilter, MoreRowsAndPlanesThanAGridHolds) {
  if (GetParam() == at::kCPU) GTEST_SKIP() << "the CPU has no grid";
  for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
    for (const auto& [batch, height] : {std::pair{1, 66000}, {66000, 1}}) {
      const FilterCase c{batch, 2, height, 2, 3, {1, 2}, false, layout, layout};
      expect_correct(c.make_x(options(at::kHalf)), c.make_kernels(options(at::kHalf)), c.dilations,
                     false);
    }
  }
}

TEST_P(DynamicFilter, MoreBranchesThanOneLaunchTakes) {
  FilterCase c{1, 2, 9, 10, 3, {}, true, Layout::kContiguous, Layout::kContiguous};
  for (int64_t b = 0; b < 70; ++b) c.dilations.push_back(b % 7 + 1);
  expect_correct(c.make_x(options(at::kFloat)), c.make_kernels(options(at::kFloat)), c.dilations,
                 true);
}

TEST_P(DynamicFilter, EmptyTensors) {
  for (const auto& shape :
       std::vector<std::vector<int64_t>>{{0, 4, 5, 6}, {2, 0, 5, 6}, {2, 4, 0, 6}, {2, 4, 5, 0}}) {
    const at::Tensor x = at::empty(shape, options(at::kFloat));
    const at::Tensor kernels =
        at::empty({shape[0], 2, shape[1], 9, shape[2], shape[3]}, options(at::kFloat));
    const at::Tensor result = ops::dynamic_filter(x, kernels, {1, 3}, true);
    EXPECT_EQ(result.sizes(), at::IntArrayRef({shape[0], 3 * shape[1], shape[2], shape[3]}));
  }
}

TEST_P(DynamicFilter, InputInFrontIsCopiedBitForBit) {
  for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
    const FilterCase c{2, 4, 20, 22, 3, {1, 5}, true, layout, layout};
    const at::Tensor x = c.make_x(options(at::kHalf));
    const at::Tensor result =
        ops::dynamic_filter(x, c.make_kernels(options(at::kHalf)), c.dilations, true);
    EXPECT_TRUE(at::equal(result.narrow(1, 0, 4), x));
  }
}

// An infinite tap outside of the plane meets the padding's zero and gives NaN, as with unfold.
TEST_P(DynamicFilter, NonFiniteValuesSpreadAsWithUnfold) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const at::ScalarType type : {at::kFloat, at::kHalf}) {
    for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
      const FilterCase c{1, 2, 12, 14, 3, {1, 3}, false, layout, layout};
      at::Tensor x = c.make_x(options(type));
      at::Tensor kernels = c.make_kernels(options(type));
      x[0][0][5][5] = infinity;
      x[0][1][2][7] = std::nan("");
      kernels[0][0][0][0][0][0] = infinity;    // outside: above and left of the plane
      kernels[0][1][1][8][11][13] = infinity;  // outside: below and right of it
      kernels[0][1][1][4][6][6] = infinity;    // inside
      const at::Tensor got = ops::dynamic_filter(x, kernels, c.dilations).to(at::kCPU, at::kDouble);
      const at::Tensor expected = ops::dynamic_filter_reference(x, kernels, c.dilations);
      EXPECT_TRUE(at::equal(got.isnan(), expected.isnan())) << name(layout);
      EXPECT_TRUE(at::equal(got.isinf(), expected.isinf())) << name(layout);
      EXPECT_TRUE(got[0][0][0][0].isnan().item<bool>());
      EXPECT_TRUE(got[0][3][11][13].isnan().item<bool>());
    }
  }
}

TEST(DynamicFilterMeta, GivesTheShapeWithoutComputing) {
  const auto meta = at::TensorOptions().device(at::kMeta).dtype(at::kHalf);
  const at::Tensor x =
      at::empty({2, 16, 20, 30}, meta.memory_format(at::MemoryFormat::ChannelsLast));
  const at::Tensor kernels = at::empty({2, 3, 16, 25, 20, 30}, meta);
  const at::Tensor result = ops::dynamic_filter(x, kernels, {1, 3, 5}, true);
  EXPECT_EQ(result.sizes(), at::IntArrayRef({2, 64, 20, 30}));
  EXPECT_EQ(result.scalar_type(), at::kHalf);
  EXPECT_TRUE(result.is_meta());
  EXPECT_TRUE(result.is_contiguous(at::MemoryFormat::ChannelsLast));
}

}  // namespace
}  // namespace hdfnet::test
