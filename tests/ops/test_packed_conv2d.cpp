// packed_conv2d against float64, with each instruction set that this processor has: sizes,
// layouts, what is not finite, and that nothing but the values decides about the bits.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "hdfnet/ops/packed_conv2d.h"
#include "support.h"

namespace hdfnet::test {
namespace {

constexpr const char* kNoKernels = "no kernels for this processor";
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

bool none_here() {
  return ops::packed_conv2d_instruction_sets().empty();
}

at::Tensor map(at::IntArrayRef sizes) {
  return random_map(sizes, at::kFloat, Layout::kChannelsLast);
}

at::Tensor weight(int64_t outputs, int64_t channels, int64_t kernel = 3) {
  return at::randn({outputs, channels, kernel, kernel}) /
         std::sqrt(static_cast<double>(kernel * kernel * channels));
}

// Restores the number of threads.
class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

at::Tensor direct(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias,
                  const std::optional<at::Tensor>& other, bool relu, int64_t stride = 1,
                  int64_t groups = 1) {
  const int64_t padding = w.size(2) / 2;
  at::Tensor y = at::conv2d(x, w, bias, {stride, stride}, {padding, padding}, {1, 1}, groups);
  if (other) y = y + *other;
  return relu ? at::relu(y) : y;
}

struct Case {
  int64_t batch, channels, outputs, height, width;
  bool other, relu;
  int64_t kernel = 3, stride = 1, groups = 1;

  std::string describe() const {
    return c10::str(batch, " of ", channels, " to ", outputs, " channels, ", height, "x", width,
                    ", kernel ", kernel, ", stride ", stride, ", ", groups, " groups");
  }
};

const Case kCases[] = {
    {1, 64, 64, 20, 20, false, true},
    {2, 16, 32, 1, 1, false, false},
    {1, 32, 64, 1, 9, true, true},
    {1, 48, 32, 8, 1, true, false},
    {3, 16, 96, 2, 2, false, true},
    {2, 64, 32, 33, 17, true, true},
    {1, 576, 64, 7, 10, false, false},  // several sums
    {1, 128, 128, 40, 41, true, true},
    {5, 32, 32, 13, 6, false, true},
    {1, 16, 32, 97, 131, false, false},
    {2, 64, 240, 9, 8, true, true},  // the last panel is not full
    {1, 16, 16, 5, 5, false, false},
    {2, 48, 48, 11, 12, true, true, 3, 1, 3},
    {1, 240, 192, 10, 9, false, true, 3, 1, 3},
    {1, 64, 32, 31, 30, false, false, 1},
    {3, 16, 16, 1, 1, true, true, 1},
    {1, 2048, 512, 3, 5, false, true, 1},
    {2, 192, 432, 7, 6, true, false, 1, 1, 3},
    {2, 32, 64, 9, 12, false, false, 1, 2},
    {1, 32, 64, 8, 7, true, true, 1, 2},
    {1, 16, 16, 10, 11, false, true, 1, 3},
};

TEST(PackedConv2d, IsAsExactAsPyTorchs) {
  if (none_here()) GTEST_SKIP() << kNoKernels;
  for (const std::string_view set : ops::packed_conv2d_instruction_sets()) {
    for (const Case& c : kCases) {
      const at::Tensor x = map({c.batch, c.channels, c.height, c.width});
      const at::Tensor w = weight(c.outputs, c.channels / c.groups, c.kernel);
      const at::Tensor bias = at::randn({c.outputs});
      const std::vector<int64_t> sizes = {c.batch, c.outputs, (c.height - 1) / c.stride + 1,
                                          (c.width - 1) / c.stride + 1};
      std::optional<at::Tensor> other;
      std::optional<at::Tensor> exact_other;
      if (c.other) {
        other = map(sizes);
        exact_other = other->to(at::kDouble);
      }
      ASSERT_TRUE(ops::can_run_packed_conv2d(w.sizes(), c.stride, c.groups)) << c.describe();
      const at::Tensor y = ops::packed_conv2d(x, ops::pack_conv2d_weight(w, c.groups), bias, other,
                                              {c.stride, c.relu, set});
      ASSERT_EQ(y.sizes(), at::IntArrayRef(sizes)) << c.describe();
      EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
      const at::Tensor exact = direct(x.to(at::kDouble), w.to(at::kDouble), bias.to(at::kDouble),
                                      exact_other, c.relu, c.stride, c.groups);
      EXPECT_TRUE(as_good_as(y, direct(x, w, bias, other, c.relu, c.stride, c.groups), exact))
          << set << ", " << c.describe();
    }
  }
}

TEST(PackedConv2d, TransformsWeightsInFloat64) {
  const at::Tensor w = at::randn({96, 48, 3, 3}, at::kDouble);
  const at::Tensor packed = ops::pack_conv2d_weight(w, 2);  // 48 outputs a group: two panels
  ASSERT_EQ(packed.sizes(), at::IntArrayRef({2, 2, 16, 48, 32}));
  const double g[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  for (const auto& [output, channel] : {std::pair{0, 0}, std::pair{37, 21}, std::pair{95, 47}}) {
    const int in_group = output % 48;
    const at::Tensor points = packed[output / 48][in_group / 32];
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        double sum = 0;
        for (int k = 0; k < 3; ++k) {
          for (int l = 0; l < 3; ++l) {
            sum += g[i][k] * w[output][channel][k][l].item<double>() * g[j][l];
          }
        }
        // One rounding; the order of the sum may tip a tie.
        EXPECT_NEAR(points[4 * i + j][channel][in_group % 32].item<float>(), sum,
                    std::abs(sum) * 6.0e-8);
      }
    }
  }
  EXPECT_EQ(packed.select(1, 1).narrow(3, 16, 16).count_nonzero().item<int64_t>(), 0);
}

TEST(PackedConv2d, ReadsAnyLayout) {
  if (none_here()) GTEST_SKIP() << kNoKernels;
  const at::Tensor bias = at::randn({32});
  for (const int64_t kernel : {1, 3}) {
    const at::Tensor w = ops::pack_conv2d_weight(weight(32, 32, kernel));
    for (const Layout layout : kLayouts) {
      const at::Tensor x = random_map({2, 32, 9, 12}, at::kFloat, layout);
      const at::Tensor other = random_map({2, 32, 9, 12}, at::kFloat, layout);
      const auto plain = [](const at::Tensor& tensor) {
        return tensor.clone(at::MemoryFormat::ChannelsLast);
      };
      EXPECT_TRUE(ops::packed_conv2d(x, w, bias, other)
                      .equal(ops::packed_conv2d(plain(x), w, bias, plain(other))))
          << name(layout);
    }
    // Slices of channels and of pixels are read in place.
    const at::Tensor whole = map({2, 80, 14, 15});
    const at::Tensor part = whole.narrow(1, 16, 32).narrow(2, 3, 9).narrow(3, 1, 12);
    EXPECT_TRUE(ops::packed_conv2d(part, w, bias)
                    .equal(ops::packed_conv2d(part.clone(at::MemoryFormat::Contiguous), w, bias)));
  }
}

TEST(PackedConv2d, GivesTheSameBitsHoweverItIsDivided) {
  if (none_here()) GTEST_SKIP() << kNoKernels;
  const std::vector<Case> cases = {{3, 48, 64, 23, 23, false, false},
                                   {3, 48, 160, 5, 5, false, false},
                                   {3, 64, 144, 7, 6, false, false, 1}};
  for (const Case& c : cases) {
    const at::Tensor x = map({c.batch, c.channels, c.height, c.width});
    const at::Tensor w = ops::pack_conv2d_weight(weight(c.outputs, c.channels, c.kernel));
    const at::Tensor bias = at::randn({c.outputs});
    const at::Tensor expected = ops::packed_conv2d(x, w, bias);
    for (int64_t n = 0; n < c.batch; ++n) {
      EXPECT_TRUE(ops::packed_conv2d(x.narrow(0, n, 1), w, bias).equal(expected.narrow(0, n, 1)))
          << "image " << n << ", " << c.describe();
    }
    for (const int count : {1, 2, 3, 7, 64}) {
      const Threads threads(count);
      EXPECT_TRUE(ops::packed_conv2d(x, w, bias).equal(expected))
          << count << " threads, " << c.describe();
    }
    for (const std::string_view set : ops::packed_conv2d_instruction_sets()) {
      EXPECT_TRUE(ops::packed_conv2d(x, w, bias, std::nullopt, {1, false, set}).equal(expected))
          << set << ", " << c.describe();
    }
  }
}

// What is not finite reaches the results whose windows hold it, and no other.
TEST(PackedConv2d, KeepsWhatIsNotFiniteInItsWindows) {
  if (none_here()) GTEST_SKIP() << kNoKernels;
  const at::Tensor w = weight(32, 16);
  const at::Tensor packed = ops::pack_conv2d_weight(w);
  const at::Tensor bias = at::randn({32});
  for (const std::string_view set : ops::packed_conv2d_instruction_sets()) {
    for (const float value : {kNaN, kInfinity, -kInfinity}) {
      for (int64_t pixel = 0; pixel < 7 * 8; ++pixel) {
        at::Tensor x = map({1, 16, 7, 8});
        x[0][5][pixel / 8][pixel % 8] = value;
        const auto run = [&](bool relu) {
          return ops::packed_conv2d(x, packed, bias, std::nullopt, {1, relu, set});
        };
        const at::Tensor y = run(/*relu=*/false);
        EXPECT_TRUE(y.isfinite().equal(direct(x, w, bias, std::nullopt, false).isfinite()))
            << set << ": " << value << " at pixel " << pixel;
        // A ReLU hides -inf, as it does in a direct convolution, but neither +inf nor NaN.
        const at::Tensor positive = run(/*relu=*/true);
        EXPECT_TRUE(positive.isnan().equal(y.isnan())) << set << ": " << value;
        const at::Tensor shows = direct(x, w, bias, std::nullopt, true).isfinite().logical_not();
        EXPECT_FALSE(positive.isfinite().logical_and(shows).any().item<bool>())
            << set << ": a ReLU hid " << value << " at pixel " << pixel;
      }
    }
  }
}

TEST(PackedConv2d, GivesNothingForAnEmptyBatch) {
  if (none_here()) GTEST_SKIP() << kNoKernels;
  const at::Tensor y = ops::packed_conv2d(at::empty({0, 16, 5, 6}),
                                          ops::pack_conv2d_weight(weight(32, 16)), at::randn({32}));
  EXPECT_EQ(y.sizes(), at::IntArrayRef({0, 32, 5, 6}));
}

TEST(PackedConv2d, SaysWhetherItCanRunAndWhyNot) {
  std::string why;
  EXPECT_EQ(ops::can_run_packed_conv2d({64, 64, 3, 3}, 1, 1, &why), !none_here()) << why;
  EXPECT_EQ(ops::can_run_packed_conv2d({48, 64, 1, 1}, 2, 3, &why), !none_here()) << why;
  const auto refuses = [&why](at::IntArrayRef sizes, int64_t stride, int64_t groups) {
    why.clear();
    return !ops::can_run_packed_conv2d(sizes, stride, groups, &why);
  };
  EXPECT_TRUE(refuses({64, 64, 5, 5}, 1, 1));
  EXPECT_EQ(why, "neither 1x1 nor 3x3");
  EXPECT_TRUE(refuses({64, 64, 3, 3}, 2, 1));
  EXPECT_EQ(why, "3x3 with a stride");
  EXPECT_TRUE(refuses({64, 24, 3, 3}, 1, 1));
  EXPECT_EQ(why, "channels of a group not in 16s");
  EXPECT_TRUE(refuses({64, 64, 3, 3}, 1, 3));
  EXPECT_EQ(why, "outputs of a group not in 16s");
}

template <typename Call>
std::string error_of_call(const Call& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST(PackedConv2d, NamesWhatDoesNotFit) {
  const at::Tensor packed = ops::pack_conv2d_weight(weight(32, 16));
  const at::Tensor bias = at::randn({32});
  const at::Tensor x = at::randn({1, 16, 5, 6});
  const auto expect = [](const auto& call, const std::string& part) {
    const std::string text = error_of_call(call);
    EXPECT_NE(text.find(part), std::string::npos) << '"' << text << "\" does not say " << part;
  };
  expect([&] { ops::packed_conv2d(x.to(at::kDouble), packed, bias); },
         "expected x in float32 on the CPU, found Double on cpu");
  expect([&] { ops::packed_conv2d(x[0], packed, bias); },
         "expected x of shape (N, C, H, W), found [16, 5, 6]");
  expect(
      [&] {
        ops::packed_conv2d(at::randn({1, 32, 5, 6}), packed, bias);
      },
      "expected weight from pack_conv2d_weight for 32 channels, found [1, 1, 16, 16, 32]");
  expect([&] { ops::packed_conv2d(x, packed, at::randn({48})); },
         "expected bias of shape (O) for 1 x 1 panels of 32 outputs, found [48]");
  expect(
      [&] {
        ops::packed_conv2d(x, packed, bias, at::randn({1, 32, 5, 5}));
      },
      "expected other of shape [1, 32, 5, 6], found [1, 32, 5, 5]");
  expect(
      [&] {
        ops::packed_conv2d(x, packed, bias, std::nullopt, {2, false, {}});
      },
      "expected stride 1 for 3x3, found 2");
  expect(
      [&] {
        ops::packed_conv2d(x, packed, bias, std::nullopt, {1, false, "sse"});
      },
      "no kernels for sse");
  expect(
      [&] {
        ops::pack_conv2d_weight(at::randn({32, 16, 5, 5}));
      },
      "expected shape (O, C, K, K), K 1 or 3, O / 1 and C in 16s, found [32, 16, 5, 5]");
}

}  // namespace
}  // namespace hdfnet::test
