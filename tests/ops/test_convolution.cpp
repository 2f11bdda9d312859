// concat_conv2d, conv2d_head and upsample_add against float64, on the CPU and, where there is one,
// on the card; and what only their kernels have: slices read in place, guards, predicates.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hdfnet/ops/convolution.h"
#include "support.h"

namespace hdfnet::test {
namespace {

class ConvolutionOn : public testing::TestWithParam<std::tuple<at::DeviceType, at::ScalarType>> {
 protected:
  void SetUp() override { HDFNET_REQUIRE_DEVICE(std::get<0>(GetParam())); }

  at::TensorOptions options() const {
    return at::TensorOptions().device(std::get<0>(GetParam())).dtype(std::get<1>(GetParam()));
  }

  static bool on_cpu() { return std::get<0>(GetParam()) == at::kCPU; }

  at::Tensor map(at::IntArrayRef sizes) const {
    return random_map(sizes, options(), Layout::kChannelsLast);
  }

  at::Tensor weight(at::IntArrayRef sizes) const {
    const double scale = std::sqrt(static_cast<double>(sizes[1] * sizes[2] * sizes[3]));
    return (at::randn(sizes) / scale).to(options()).contiguous(at::MemoryFormat::ChannelsLast);
  }

  // A result may be as far from float64 as its type's rounding of the inputs' products allows.
  double tolerance() const {
    switch (std::get<1>(GetParam())) {
      case at::kHalf:
        return 4e-3;
      case at::kBFloat16:
        return 3e-2;
      case at::kFloat:
        return 2e-5;
      default:
        return 1e-12;
    }
  }
};

at::Tensor exactly(const at::Tensor& tensor) {
  return tensor.cpu().to(at::kDouble).contiguous();
}

// Written out by groups, in float64.
at::Tensor reference(const std::vector<at::Tensor>& inputs, const at::Tensor& weight,
                     const std::optional<at::Tensor>& bias, int64_t groups, bool relu) {
  std::vector<at::Tensor> results;
  for (int64_t g = 0; g < groups; ++g) {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& input : inputs) parts.push_back(exactly(input).chunk(groups, 1)[g]);
    const int64_t padding = weight.size(2) / 2;
    results.push_back(at::conv2d(at::cat(parts, 1), exactly(weight).chunk(groups, 0)[g],
                                 bias ? exactly(*bias).chunk(groups, 0)[g] : at::Tensor(), {1, 1},
                                 {padding, padding}));
  }
  const at::Tensor y = at::cat(results, 1);
  return relu ? at::relu(y) : y;
}

struct Case {
  int64_t batch, height, width, groups;
  std::vector<int64_t> channels;  // of a group, of each input
  int64_t outputs;                // of a group
  int64_t kernel;
  bool bias, relu;
};

const Case kCases[] = {
    {1, 20, 20, 3, {16}, 16, 3, true, true},
    {2, 21, 35, 3, {16, 16, 16, 16}, 16, 3, true, true},
    {1, 40, 40, 3, {64, 16}, 64, 3, true, true},
    {3, 17, 33, 1, {16, 48}, 64, 3, true, true},
    {1, 9, 17, 1, {64}, 240, 3, true, false},
    {2, 80, 80, 1, {64, 64, 64, 64}, 64, 3, false, true},
    {2, 19, 16, 1, {64}, 32, 1, true, false},
    {1, 1, 1, 2, {32}, 48, 3, false, false},
    {2, 7, 5, 2, {3, 5}, 6, 3, true, true},   // no kernel takes these channels
    {1, 12, 9, 1, {16}, 16, 5, true, false},  // nor this size
    {0, 8, 8, 1, {16}, 16, 3, true, false},
    // enough tiles for the kernel of compute capability 9.0; weights that stay, and that do not
    {3, 150, 97, 1, {64}, 64, 3, true, true},
    {4, 96, 96, 1, {64, 64}, 64, 3, true, false},
    {4, 81, 95, 1, {64, 192}, 64, 3, false, true},
    {3, 97, 113, 1, {64}, 128, 3, true, true},
    {3, 97, 113, 1, {128}, 128, 3, true, false},
    {2, 97, 113, 1, {64, 128}, 256, 3, true, true},
};

TEST_P(ConvolutionOn, ConcatenatesWithoutACopy) {
  for (const Case& c : kCases) {
    if (on_cpu() && c.height > 80) continue;  // tells nothing new where there are no tiles
    std::vector<at::Tensor> inputs;
    int64_t total = 0;
    for (const int64_t channels : c.channels) {
      inputs.push_back(map({c.batch, c.groups * channels, c.height, c.width}));
      total += channels;
    }
    const at::Tensor w = weight({c.groups * c.outputs, total, c.kernel, c.kernel});
    std::optional<at::Tensor> bias;
    if (c.bias) bias = at::randn({c.groups * c.outputs}).to(options());
    const at::Tensor result = ops::concat_conv2d(inputs, w, bias, c.groups, c.relu);
    ASSERT_EQ(result.sizes(), at::IntArrayRef({c.batch, c.groups * c.outputs, c.height, c.width}));
    if (c.batch == 0) continue;
    EXPECT_TRUE(result.is_contiguous(at::MemoryFormat::ChannelsLast));
    const double scale = 3;  // of the results, which are near 1
    EXPECT_LT(error_of(result, reference(inputs, w, bias, c.groups, c.relu)).largest,
              scale * tolerance())
        << c.groups << " groups of " << c.channels.size() << " inputs, " << c.height << "x"
        << c.width;
  }
}

TEST_P(ConvolutionOn, ReadsSlicesOfAMapInPlace) {
  const at::Tensor whole = map({2, 240, 20, 23});
  const std::vector<at::Tensor> inputs = {whole.narrow(1, 0, 192), whole.narrow(1, 192, 48)};
  const at::Tensor w = weight({192, 80, 3, 3});
  EXPECT_LT(error_of(ops::concat_conv2d(inputs, w, std::nullopt, 3, true),
                     reference(inputs, w, std::nullopt, 3, true))
                .largest,
            3 * tolerance());
}

TEST_P(ConvolutionOn, EndsAStageInItsPooledMapAndASide) {
  const std::vector<std::vector<int64_t>> cases = {
      // batch, height, width, inputs, outputs, side
      {4, 97, 94, 64, 64, 32}, {4, 97, 94, 64, 64, 0},    {3, 112, 113, 128, 128, 64},
      {3, 96, 95, 128, 128, 0}, {4, 97, 94, 128, 64, 32}, {2, 19, 22, 64, 64, 32},
      {2, 19, 22, 6, 5, 3}};
  for (const std::vector<int64_t>& c : cases) {
    if (on_cpu() && c[1] > 80) continue;
    const at::Tensor x = map({c[0], c[3], c[1], c[2]});
    const at::Tensor w = weight({c[4], c[3], 3, 3});
    const at::Tensor bias = at::randn({c[4]}).to(options());
    std::optional<at::Tensor> side_weight, side_bias;
    if (c[5] > 0) {
      side_weight = weight({c[5], c[4], 1, 1});
      side_bias = at::randn({c[5]}).to(options());
    }
    const auto [pooled, side] = ops::conv2d_pool({x}, w, bias, side_weight, side_bias);
    const at::Tensor y = reference({x}, w, bias, 1, true);
    ASSERT_EQ(pooled.sizes(), at::IntArrayRef({c[0], c[4], c[1] / 2, c[2] / 2}));
    EXPECT_TRUE(pooled.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_LT(error_of(pooled, at::max_pool2d(y, {2, 2}, {2, 2})).largest, 3 * tolerance());
    if (c[5] == 0) {
      EXPECT_EQ(side.numel(), 0);
      continue;
    }
    ASSERT_EQ(side.sizes(), at::IntArrayRef({c[0], c[5], c[1], c[2]}));
    EXPECT_LT(error_of(side, at::conv2d(y, exactly(*side_weight), exactly(*side_bias))).largest,
              3 * tolerance())
        << c[4] << " outputs, side of " << c[5];
  }
}

TEST_P(ConvolutionOn, LetsNaNThrough) {
  const auto [device, type] = GetParam();
  if (device == at::kCUDA && type != at::kHalf && type != at::kBFloat16) {
    GTEST_SKIP() << "cuDNN's algorithms spread NaN further";
  }
  for (const int64_t side : {20, on_cpu() ? 24 : 200}) {  // a kernel each
    at::Tensor x = map({1, 64, side, side});
    x[0][5][7][9] = std::numeric_limits<double>::quiet_NaN();
    const at::Tensor w = weight({64, 64, 3, 3});
    const at::Tensor y = ops::concat_conv2d({x}, w, std::nullopt, 1, true).cpu();
    EXPECT_TRUE(y[0].slice(1, 6, 9).slice(2, 8, 11).isnan().all().item<bool>());
    EXPECT_EQ(y.isnan().sum().item<int64_t>(), 9 * 64);
    const at::Tensor pooled = std::get<0>(ops::conv2d_pool({x}, w, std::nullopt)).cpu();
    EXPECT_EQ(pooled.isnan().sum().item<int64_t>(), 2 * 2 * 64);
  }
}

TEST_P(ConvolutionOn, EndsInOneMap) {
  for (const int64_t outputs : {32, 64, 20}) {
    const at::Tensor x = map({2, 32, 37, 50});
    const at::Tensor w = weight({outputs, 32, 3, 3});
    const at::Tensor bias = at::randn({outputs}).to(options());
    const at::Tensor head_weight = weight({1, outputs, 1, 1});
    const at::Tensor head_bias = at::randn({1}).to(options());
    const at::Tensor result = ops::conv2d_head(x, w, bias, head_weight, head_bias);
    const at::Tensor exact = at::sigmoid(
        at::conv2d(reference({x}, w, bias, 1, true), exactly(head_weight), exactly(head_bias)));
    ASSERT_EQ(result.sizes(), at::IntArrayRef({2, 1, 37, 50}));
    EXPECT_EQ(result.scalar_type(), x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
    EXPECT_LT(error_of(result, exact).largest, 2 * tolerance()) << outputs;
  }
}

TEST_P(ConvolutionOn, AddsTheUpsampledMap) {
  const std::vector<std::vector<int64_t>> sizes = {
      {20, 20, 40, 40}, {7, 6, 13, 11}, {5, 5, 5, 5}, {9, 1, 5, 5}};
  for (const std::vector<int64_t>& s : sizes) {
    for (const int64_t channels : {64, 3}) {
      const at::Tensor x = map({2, channels, s[0], s[1]});
      const at::Tensor y = map({2, channels, s[2], s[3]});
      const at::Tensor exact =
          exactly(y) + at::upsample_bilinear2d(exactly(x), {s[2], s[3]}, false);
      EXPECT_LT(error_of(ops::upsample_add(x, y), exact).largest, tolerance());
    }
  }
}

std::string type_name(const testing::TestParamInfo<ConvolutionOn::ParamType>& info) {
  return std::string(std::get<0>(info.param) == at::kCUDA ? "Cuda" : "Cpu") +
         at::toString(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Devices, ConvolutionOn,
                         testing::Combine(testing::Values(at::kCPU, at::kCUDA),
                                          testing::ValuesIn(kTypes)),
                         type_name);

template <typename Call>
std::string error(const Call& call) {
  try {
    call();
  } catch (const c10::Error& fault) {
    return fault.what_without_backtrace();
  }
  return "no error";
}

TEST(ConvolutionChecks, NameWhatWasExpectedAndFound) {
  const at::Tensor x = at::rand({1, 32, 8, 8});
  const at::Tensor w = at::rand({16, 32, 3, 3});
  const auto says = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says(error([&] { ops::concat_conv2d({}, w, std::nullopt); }), "at least one input");
  says(error([&] {
         ops::concat_conv2d({x, at::rand({1, 32, 8, 9})}, w, std::nullopt);
       }),
       "batch, height and width of the first, [1, 32, 8, 8], found [1, 32, 8, 9]");
  says(error([&] {
         ops::concat_conv2d({x, x}, w, std::nullopt);
       }),
       "weight must be (O, 64, K, K) with an odd K, found [16, 32, 3, 3]");
  says(error([&] { ops::concat_conv2d({x}, w, std::nullopt, 3); }), "multiple of groups = 3");
  says(error([&] { ops::concat_conv2d({x}, w, at::rand({15})); }), "bias must be (16)");
  says(error([&] { ops::concat_conv2d({x}, w.to(at::kDouble), std::nullopt); }),
       "weight must be Float");
  says(error([&] {
         ops::conv2d_head(x, w, at::rand({16}), at::rand({1, 15, 1, 1}), at::rand({1}));
       }),
       "head_weight must be (1, 16, 1, 1), found [1, 15, 1, 1]");
  says(error([&] {
         ops::conv2d_pool({x}, w, std::nullopt, at::rand({8, 15, 1, 1}), at::rand({8}));
       }),
       "side_weight must be (S, 16, 1, 1), found [8, 15, 1, 1]");
  says(error([&] { ops::conv2d_pool({x}, w, std::nullopt, at::rand({8, 16, 1, 1})); }),
       "side_weight and side_bias belong together, found only side_weight");
  says(error([&] {
         ops::conv2d_pool({at::rand({1, 32, 1, 8})}, w, std::nullopt);
       }),
       "at least 2 x 2 pixels, found [1, 32, 1, 8]");
  says(error([&] { ops::upsample_add(at::rand({1, 3, 4, 4}), x); }), "x must be (1, 32, h, w)");
}

TEST(ConvolutionGradients, FlowThroughTheComposite) {
  const at::Tensor x = at::rand({1, 6, 7, 5}, at::kDouble).requires_grad_();
  const at::Tensor w = at::rand({4, 3, 3, 3}, at::kDouble).requires_grad_();
  const at::Tensor y = ops::concat_conv2d({x}, w, std::nullopt, 2, false);
  ASSERT_TRUE(y.requires_grad());
  y.sum().backward();
  EXPECT_EQ(x.grad().sizes(), x.sizes());
  EXPECT_GT(w.grad().abs().sum().item<double>(), 0);
}

}  // namespace
}  // namespace hdfnet::test
