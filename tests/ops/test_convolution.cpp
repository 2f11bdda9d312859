// The convolution operators against float64, on the CPU and, where there is one,
// on the card; and what only their kernels have: slices read in place, guards, predicates.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

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

  // Whether NaN stays in the windows that it lies in: cuDNN's Winograd kernels spread it further.
  bool keeps_windows_apart() const {
    const at::ScalarType type = std::get<1>(GetParam());
    return std::get<0>(GetParam()) == at::kCPU || type == at::kHalf || type == at::kBFloat16;
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
    {1, 20, 20, 1, {512}, 64, 1, true, false},
    {4, 97, 131, 1, {64}, 32, 1, true, true},  // more tiles than blocks
    {3, 81, 79, 1, {128}, 96, 1, false, true},
    {1, 13, 9, 1, {2048}, 64, 1, true, false},
    {1, 5, 4, 1, {4096}, 64, 1, true, false},  // more weights than stay in shared memory
    {2, 21, 13, 1, {64, 16}, 32, 1, true, false},
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
      {4, 97, 94, 64, 64, 32},  {4, 97, 94, 64, 64, 0},   {3, 112, 113, 128, 128, 64},
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

TEST_P(ConvolutionOn, SaysWhetherItIsWideAndWhyNot) {
  const at::Tensor x = map({4, 64, 96, 96});
  const at::Tensor w = weight({64, 128, 3, 3});
  std::string why;
  const bool wide = ops::concat_conv2d_is_wide({x, x}, w, std::nullopt, 1, &why);
  const auto type = std::get<1>(GetParam());
  if (on_cpu()) {
    EXPECT_FALSE(wide);
    EXPECT_TRUE(why == "not on a CUDA device" || why == "this build has no CUDA kernels") << why;
  } else if (type != at::kHalf && type != at::kBFloat16) {
    EXPECT_FALSE(wide);
    EXPECT_EQ(why, "not fp16 or bf16");
  } else if (!wide) {
    EXPECT_EQ(why, "compute capability other than 9.0");
  } else {
    // The other tests' large cases are there for this kernel.
    EXPECT_FALSE(ops::concat_conv2d_is_wide({map({1, 128, 20, 20})}, w, std::nullopt, 1, &why));
    EXPECT_EQ(why, "tiles for fewer than 3/4 of the card");
    EXPECT_FALSE(
        ops::concat_conv2d_is_wide({x, x}, weight({32, 128, 3, 3}), std::nullopt, 1, &why));
    EXPECT_EQ(why, "outputs not in 64s");
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

TEST_P(ConvolutionOn, ReadsASliceOfAMapForA1x1) {
  const at::Tensor x = map({2, 256, 20, 23}).narrow(1, 64, 128);
  const at::Tensor w = weight({64, 128, 1, 1});
  EXPECT_LT(error_of(ops::concat_conv2d({x}, w, std::nullopt, 1, false),
                     reference({x}, w, std::nullopt, 1, false))
                .largest,
            3 * tolerance());
}

// A ReLU that takes NaN for zero would hide an overflow.
TEST_P(ConvolutionOn, KeepsWhatIsNotANumber) {
  for (const int64_t kernel : {1, 3}) {
    const at::Tensor x = map({1, 64, 9, 11});
    x.select(1, 5).select(1, 4).select(1, 7).fill_(std::nan(""));
    const at::Tensor result =
        ops::concat_conv2d({x}, weight({32, 64, kernel, kernel}), std::nullopt, 1, /*relu=*/true);
    const int64_t found = result.isnan().sum().item<int64_t>();
    EXPECT_GE(found, 32 * kernel * kernel);
    if (keeps_windows_apart()) {
      EXPECT_EQ(found, 32 * kernel * kernel);
    }
  }
}

TEST_P(ConvolutionOn, AddsBiasAndOtherInPlace) {
  for (const auto layout : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    for (const std::vector<int64_t>& sizes :
         {std::vector<int64_t>{2, 64, 12, 10}, {3, 5, 7, 9}, {1, 8, 1, 1}, {2, 6, 5, 8}}) {
      const at::Tensor bias = at::randn({sizes[1]}).to(options());
      for (const bool with_other : {false, true}) {
        for (const bool relu : {false, true}) {
          at::Tensor y = at::randn(sizes).to(options()).contiguous(layout);
          y.flatten()[3] = std::numeric_limits<double>::quiet_NaN();
          std::optional<at::Tensor> other;
          if (with_other) other = at::randn(sizes).to(options()).contiguous(layout);
          // On the card two-byte types are summed in float32 and rounded once.
          const at::ScalarType sum =
              on_cpu() || y.scalar_type() == at::kDouble ? y.scalar_type() : at::kFloat;
          at::Tensor expected = y.to(sum) + bias.to(sum).view({1, -1, 1, 1});
          if (other) expected = expected + other->to(sum);
          if (relu) expected = at::relu(expected);
          expected = expected.to(y.scalar_type());
          at::Tensor& result = ops::bias_relu_(y, bias, other, relu);
          EXPECT_EQ(&result, &y);
          EXPECT_TRUE(at::allclose(y, expected, 0, 0, /*equal_nan=*/true)) << y.sizes();
        }
      }
    }
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

TEST_P(ConvolutionOn, UpsamplesAsAtenDoes) {
  const std::vector<std::vector<int64_t>> sizes = {
      {20, 20, 40, 40}, {7, 6, 13, 11}, {5, 5, 5, 5}, {9, 3, 1, 1}, {1, 1, 6, 3}, {33, 17, 66, 34}};
  for (const std::vector<int64_t>& s : sizes) {
    for (const int64_t channels : {64, 3}) {
      for (const bool corners : {false, true}) {
        const at::Tensor x = map({2, channels, s[0], s[1]});
        const at::Tensor result = ops::upsample_bilinear2d(x, s[2], s[3], corners);
        EXPECT_TRUE(result.is_contiguous(at::MemoryFormat::ChannelsLast));
        EXPECT_LT(
            error_of(result, at::upsample_bilinear2d(exactly(x), {s[2], s[3]}, corners)).largest,
            tolerance())
            << s << " " << corners;
      }
    }
  }
}

struct AddCase {
  int64_t batch, height, width, channels, outputs, kernel;
  bool bias, relu;
};

const AddCase kAddCases[] = {
    {2, 7, 5, 64, 128, 1, true, true},     // too few pixels for a kernel
    {4, 80, 80, 64, 256, 1, true, true},   // as many slabs, outputs and tiles as ResNet-50 has
    {7, 41, 39, 128, 512, 1, true, true},  // a last tile that is not full
    {9, 21, 19, 256, 1024, 1, true, false}, {9, 13, 17, 512, 2048, 1, false, true},
    {40, 33, 31, 64, 128, 1, true, true},  // more tiles than blocks
    {2, 33, 31, 576, 128, 1, true, true},  // more channels than the kernel takes
    {2, 33, 31, 48, 96, 1, true, true},    // nor these
    {2, 17, 13, 32, 16, 3, true, true},     {2, 17, 13, 32, 16, 3, false, false},
};

TEST_P(ConvolutionOn, AddsAnotherMap) {
  for (const AddCase& c : kAddCases) {
    if (on_cpu() && c.batch > 2) continue;
    const at::Tensor x = map({c.batch, c.channels, c.height, c.width});
    const at::Tensor w = weight({c.outputs, c.channels, c.kernel, c.kernel});
    std::optional<at::Tensor> bias;
    if (c.bias) bias = at::randn({c.outputs}).to(options());
    const at::Tensor other = map({c.batch, c.outputs, c.height, c.width});
    const at::Tensor kept = other.clone();
    const at::Tensor result = ops::conv2d_add(x, w, bias, other, c.relu);
    ASSERT_EQ(result.sizes(), other.sizes());
    EXPECT_TRUE(result.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(at::equal(other, kept));
    at::Tensor exact = reference({x}, w, bias, 1, false) + exactly(other);
    if (c.relu) exact = at::relu(exact);
    EXPECT_LT(error_of(result, exact).largest, 3 * tolerance())
        << c.channels << " to " << c.outputs << " channels, " << c.height << "x" << c.width;
  }
}

TEST_P(ConvolutionOn, AddsToASliceOfAMapAndKeepsNaN) {
  const at::Tensor wide = map({4, 192, 80, 80});
  const at::Tensor x = wide.narrow(1, 64, 64);
  const at::Tensor w = weight({128, 64, 1, 1});
  at::Tensor other = map({4, 128, 80, 80});
  EXPECT_LT(error_of(ops::conv2d_add(x, w, std::nullopt, other, false),
                     reference({x}, w, std::nullopt, 1, false) + exactly(other))
                .largest,
            3 * tolerance());
  other[3][7][79][78] = std::numeric_limits<double>::quiet_NaN();
  const at::Tensor result = exactly(ops::conv2d_add(x, w, std::nullopt, other));
  EXPECT_TRUE(result[3][7][79][78].isnan().item<bool>());
  EXPECT_EQ(result.isnan().sum().item<int64_t>(), 1);
}

struct StemCase {
  int64_t batch, channels, height, width, outputs, kernel, stride;
  bool bias, relu;
};

const StemCase kStemCases[] = {
    {2, 3, 40, 64, 64, 3, 1, true, true},   {1, 1, 40, 64, 64, 3, 1, true, true},
    {3, 3, 19, 35, 64, 3, 1, true, true},   {3, 1, 9, 71, 128, 3, 1, true, false},
    {2, 3, 37, 71, 64, 7, 2, true, true},   {2, 1, 40, 67, 64, 7, 2, false, true},
    {1, 3, 1, 1, 64, 3, 1, false, false},   {40, 1, 5, 3, 64, 7, 2, true, false},
    {4, 3, 160, 256, 64, 3, 1, true, true},  // more tiles than blocks
    {2, 2, 11, 13, 64, 3, 1, true, true},    // no kernel takes two channels
    {2, 3, 11, 13, 48, 3, 1, true, true},    // nor these outputs
    {2, 3, 12, 13, 64, 3, 2, true, true},    // nor this stride
    {1, 4, 11, 13, 32, 5, 3, true, true},   {0, 3, 8, 8, 64, 3, 1, true, false},
};

// In float64, after x has been rounded to the type that the products are made in.
at::Tensor stem_reference(const at::Tensor& x, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias, int64_t stride, bool relu) {
  const int64_t padding = weight.size(2) / 2;
  const at::Tensor y =
      at::conv2d(exactly(x.to(weight.scalar_type())), exactly(weight),
                 bias ? exactly(*bias) : at::Tensor(), {stride, stride}, {padding, padding});
  return relu ? at::relu(y) : y;
}

TEST_P(ConvolutionOn, BeginsWithFewChannels) {
  for (const StemCase& c : kStemCases) {
    // float32 in rows of pixels, as the network's inputs come, and the weight's own type.
    for (const bool own_type : {false, true}) {
      const at::Tensor plain =
          at::randn({c.batch, c.channels, c.height, c.width}, options().dtype(at::kFloat));
      const at::Tensor x =
          own_type ? plain.to(options()).contiguous(at::MemoryFormat::ChannelsLast) : plain;
      const at::Tensor w = weight({c.outputs, c.channels, c.kernel, c.kernel});
      std::optional<at::Tensor> bias;
      if (c.bias) bias = at::randn({c.outputs}).to(options());
      const at::Tensor result = ops::stem_conv2d(x, w, bias, c.stride, c.relu);
      ASSERT_EQ(result.sizes(), at::IntArrayRef({c.batch, c.outputs, (c.height - 1) / c.stride + 1,
                                                 (c.width - 1) / c.stride + 1}));
      ASSERT_EQ(result.scalar_type(), w.scalar_type());
      if (c.batch == 0) continue;
      EXPECT_TRUE(result.is_contiguous(at::MemoryFormat::ChannelsLast));
      EXPECT_LT(error_of(result, stem_reference(x, w, bias, c.stride, c.relu)).largest,
                3 * tolerance())
          << c.channels << " channels, " << c.height << "x" << c.width << ", K " << c.kernel;
    }
  }
}

TEST_P(ConvolutionOn, BeginsWithASliceOfAMap) {
  const at::Tensor whole = at::randn({3, 4, 30, 50}, options().dtype(at::kFloat));
  const at::Tensor x = whole.narrow(0, 1, 2).narrow(1, 1, 3).narrow(2, 3, 21).narrow(3, 1, 45);
  const at::Tensor w = weight({64, 3, 3, 3});
  EXPECT_LT(error_of(ops::stem_conv2d(x, w, std::nullopt, 1, true),
                     stem_reference(x, w, std::nullopt, 1, true))
                .largest,
            3 * tolerance());
}

// What is not a number must be seen in the result, by exactly the windows that it lies in: a ReLU
// that takes it for zero would hide an overflow.
TEST_P(ConvolutionOn, BeginsWithWhatIsNotANumber) {
  const at::Tensor x = at::randn({1, 3, 20, 40}, options().dtype(at::kFloat));
  x.select(1, 2).select(1, 7).select(1, 15).fill_(std::nan(""));
  const at::Tensor result =
      ops::stem_conv2d(x, weight({64, 3, 3, 3}), std::nullopt, 1, /*relu=*/true);
  const at::Tensor found = result.isnan().cpu();
  if (keeps_windows_apart()) {
    EXPECT_EQ(found.sum().item<int64_t>(), 64 * 9);
  }
  EXPECT_TRUE(found.narrow(2, 6, 3).narrow(3, 14, 3).all().item<bool>());
}

TEST_P(ConvolutionOn, PoolsAsAtenDoes) {
  const std::vector<std::vector<int64_t>> cases = {
      // channels, height, width, kernel, stride, padding
      {64, 40, 40, 2, 2, 0}, {128, 21, 35, 2, 2, 0}, {64, 21, 34, 3, 2, 1},
      {8, 40, 22, 3, 2, 1},  {512, 2, 3, 2, 2, 0},   {16, 1, 1, 3, 2, 1},
      {3, 9, 11, 2, 2, 0},   {16, 9, 11, 3, 1, 1},   {16, 9, 11, 5, 3, 2}};
  for (const std::vector<int64_t>& c : cases) {
    for (const Layout layout : {Layout::kChannelsLast, Layout::kContiguous, Layout::kSliced}) {
      const at::Tensor x = random_map({3, c[0], c[1], c[2]}, options(), layout) - 3;
      x.select(0, 1).select(1, c[1] / 2).select(1, c[2] / 2).fill_(std::nan(""));
      const at::Tensor result = ops::max_pool2d(x, c[3], c[4], c[5]);
      const at::Tensor exact = at::max_pool2d(exactly(x), {c[3], c[3]}, {c[4], c[4]}, {c[5], c[5]});
      EXPECT_TRUE(at::allclose(exactly(result), exact, 0, 0, /*equal_nan=*/true))
          << c[0] << "x" << c[1] << "x" << c[2] << ", K " << c[3] << ", " << name(layout);
      EXPECT_EQ(result.scalar_type(), x.scalar_type());
      EXPECT_TRUE(result.is_contiguous(x.suggest_memory_format()));
    }
  }
}

TEST_P(ConvolutionOn, PoolsASliceOfABatch) {
  const at::Tensor whole = map({4, 64, 20, 22});
  const at::Tensor x = whole.narrow(0, 1, 2);
  EXPECT_TRUE(at::equal(exactly(ops::max_pool2d(x, 2, 2)), at::max_pool2d(exactly(x), 2, 2)));
}

// Dense channels_last that begins one element late: no 16-byte accesses.
TEST_P(ConvolutionOn, TakesMapsThatAreNotAligned) {
  const at::Tensor x = at::randn({2 * 12 * 10 * 64 + 1}, options())
                           .narrow(0, 1, 2 * 12 * 10 * 64)
                           .view({2, 12, 10, 64})
                           .permute({0, 3, 1, 2});
  EXPECT_TRUE(at::equal(exactly(ops::max_pool2d(x, 2, 2)), at::max_pool2d(exactly(x), 2, 2)));
  const at::Tensor w = weight({64, 64, 1, 1});
  EXPECT_LT(error_of(ops::concat_conv2d({x}, w, std::nullopt, 1, true),
                     reference({x}, w, std::nullopt, 1, true))
                .largest,
            3 * tolerance());
  const at::Tensor few = x.narrow(1, 5, 3);
  const at::Tensor first = weight({64, 3, 3, 3});
  EXPECT_LT(error_of(ops::stem_conv2d(few, first, std::nullopt),
                     stem_reference(few, first, std::nullopt, 1, false))
                .largest,
            3 * tolerance());
}

// Rows and images beyond the 65,535 that the second and third side of a grid hold.
TEST_P(ConvolutionOn, TakesMoreRowsAndImagesThanAGridHolds) {
  if (on_cpu()) GTEST_SKIP() << "the CPU has no grid";
  constexpr int64_t kMany = 66000;
  for (const auto& [batch, height] : {std::pair{int64_t{1}, kMany}, {kMany, int64_t{2}}}) {
    SCOPED_TRACE(batch);
    const at::Tensor x = map({batch, 16, height, 2});
    const at::Tensor w = weight({16, 16, 3, 3});
    const at::Tensor exact = reference({x}, w, std::nullopt, 1, true);
    EXPECT_LT(error_of(ops::concat_conv2d({x}, w, std::nullopt, 1, true), exact).largest,
              3 * tolerance());
    const at::Tensor pointwise = weight({32, 16, 1, 1});
    EXPECT_LT(error_of(ops::concat_conv2d({x}, pointwise, std::nullopt, 1, false),
                       reference({x}, pointwise, std::nullopt, 1, false))
                  .largest,
              3 * tolerance());
    const at::Tensor head = weight({1, 16, 1, 1});
    const at::Tensor zeros = at::zeros({16}, options());
    EXPECT_LT(error_of(ops::conv2d_head(x, w, zeros, head, zeros.narrow(0, 0, 1)),
                       at::sigmoid(at::conv2d(exact, exactly(head))))
                  .largest,
              2 * tolerance());
    EXPECT_TRUE(at::equal(exactly(ops::max_pool2d(x, 2, 2)), at::max_pool2d(exactly(x), 2, 2)));
    const at::Tensor few = x.narrow(1, 0, 3).contiguous();
    const at::Tensor first = weight({64, 3, 3, 3});
    EXPECT_LT(error_of(ops::stem_conv2d(few, first, std::nullopt),
                       stem_reference(few, first, std::nullopt, 1, false))
                  .largest,
              3 * tolerance());
    const at::Tensor small = map({batch, 16, height / 2, 1});
    EXPECT_LT(error_of(ops::upsample_add(small, x),
                       exactly(x) + at::upsample_bilinear2d(exactly(small), {height, 2}, false))
                  .largest,
              tolerance());
    at::Tensor y = x.clone();
    const at::Tensor bias = at::randn({16}).to(options());
    ops::bias_relu_(y, bias, std::nullopt, true);
    EXPECT_TRUE(at::equal(y, at::relu(x + bias.view({1, -1, 1, 1}))));
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
  says(error([&] {
         ops::conv2d_pool({x}, w, std::nullopt, at::rand({8, 16, 1, 1}));
       }),
       "side_weight and side_bias belong together, found only side_weight");
  says(error([&] {
         ops::conv2d_pool({at::rand({1, 32, 1, 8})}, w, std::nullopt);
       }),
       "at least 2 x 2 pixels, found [1, 32, 1, 8]");
  says(error([&] {
         at::Tensor y = at::rand({1, 32, 8, 8});
         ops::bias_relu_(y, at::rand({31}));
       }),
       "bias must be (32), found [31]");
  says(error([&] {
         at::Tensor y = at::rand({1, 32, 8, 8}).requires_grad_();
         ops::bias_relu_(y, at::rand({32}));
       }),
       "y must not need a gradient");
  says(error([&] {
         at::Tensor y = at::rand({1, 32, 8, 8});
         ops::bias_relu_(y, at::rand({32}).requires_grad_());
       }),
       "bias must not need a gradient");
  says(error([&] { ops::upsample_add(at::rand({1, 3, 4, 4}), x); }), "x must be (1, 32, h, w)");
  says(error([&] { ops::upsample_bilinear2d(x, 0, 8); }),
       "height and width must be at least 1, found 0 and 8");
  says(error([&] {
         ops::upsample_bilinear2d(at::rand({1, 2, 0, 8}), 4, 8);
       }),
       "x must not be empty, found [1, 2, 0, 8]");
  says(error([&] { ops::conv2d_add(x, w, std::nullopt, x); }),
       "other must be [1, 16, 8, 8], found [1, 32, 8, 8]");
  says(error([&] {
         ops::conv2d_add(x, w, std::nullopt, at::rand({1, 16, 8, 8}, at::kDouble));
       }),
       "other must be Float as the input, found Double");
  says(error([&] {
         ops::stem_conv2d(at::rand({1, 3, 8, 8}), w, std::nullopt);
       }),
       "weight must be (O, 3, K, K) with an odd K, found [16, 32, 3, 3]");
  says(error([&] { ops::stem_conv2d(x, w, at::rand({15})); }), "bias must be (16), found [15]");
  says(error([&] { ops::stem_conv2d(x, w.to(at::kHalf), at::rand({16})); }),
       "bias must be Half as the weight, found Float");
  says(error([&] { ops::stem_conv2d(x, w, std::nullopt, 0); }), "stride must be at least 1");
  says(error([&] { ops::max_pool2d(x, 3, 2, 2); }), "padding must be 0 to 1");
  says(error([&] { ops::max_pool2d(x, 9, 2); }), "at least as large as the kernel, 9, found");
  says(error([&] { ops::max_pool2d(x.to(at::kInt), 2, 2); }), "floating type, found Int");
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

TEST(ConvolutionGradients, FlowThroughTheResidualAndTheUpsampling) {
  const at::Tensor x = at::rand({1, 3, 8, 8}, at::kDouble).requires_grad_();
  const at::Tensor w = at::rand({4, 3, 1, 1}, at::kDouble);
  const at::Tensor other = at::rand({1, 4, 8, 8}, at::kDouble).requires_grad_();
  ops::upsample_bilinear2d(ops::conv2d_add(x, w, std::nullopt, other), 16, 16, true)
      .sum()
      .backward();
  EXPECT_GT(x.grad().abs().sum().item<double>(), 0);
  EXPECT_NEAR(other.grad().sum().item<double>(), 4 * 16 * 16, 1e-9);
}

TEST(ConvolutionGradients, FlowThroughTheStemAndThePooling) {
  const at::Tensor x = at::rand({1, 3, 8, 8}, at::kDouble).requires_grad_();
  const at::Tensor w = at::rand({4, 3, 3, 3}, at::kDouble).requires_grad_();
  ops::max_pool2d(ops::stem_conv2d(x, w, std::nullopt), 2, 2).sum().backward();
  EXPECT_GT(x.grad().abs().sum().item<double>(), 0);
  EXPECT_GT(w.grad().abs().sum().item<double>(), 0);
}

}  // namespace
}  // namespace hdfnet::test
