// The kernels of generated_dynamic_filter on the emulated card, beside float64.
#include <gtest/gtest.h>

#include "cuda/generated_filter_arguments.h"
#include "tensors.h"

namespace hdfnet::ops::cuda {
namespace {

using emulated::Expected;
using emulated::Format;
using emulated::in_every_order;
using emulated::Lie;
using emulated::name;
using emulated::Sizes;
using emulated::Tensor;

struct Case {
  int batch, branches, groups, channels, source_channels, height, width;
  std::vector<int> dilations;
  bool concat_input = false;
  bool bias = true;
  bool slices = false;  // of larger tensors, beginning at 16 bytes
  int kernel_size = 3;
  bool whole_planes = false;  // of larger tensors

  int taps() const { return kernel_size * kernel_size; }

  std::string name() const {
    std::string text = "N " + std::to_string(batch) + ", B " + std::to_string(branches) + ", G " +
                       std::to_string(groups) + ", C " + std::to_string(channels) + ", Cy " +
                       std::to_string(source_channels) + ", " + std::to_string(height) + " x " +
                       std::to_string(width) + ", " + emulated::name(dilations);
    return text + (concat_input ? ", x in front" : "") + (bias ? "" : ", no bias") +
           (slices ? ", slices" : "") + (whole_planes ? ", whole planes" : "") + ", K " +
           std::to_string(kernel_size);
  }
};

/// As a whole, or as a part of a larger tensor.
Lie lie(Format format, const Case& c) {
  Lie l = emulated::lie(format);
  if (c.slices) l.before = {1, 16, 1, 8}, l.after = {0, 8, 2, 8};
  if (c.whole_planes) l.before = {1, 16, 0, 0}, l.after = {0, 8, 0, 0};
  return l;
}
Lie lie_of_y(Format format, const Case& c) {
  Lie l = emulated::lie_of_groups(format);
  if (c.slices) l.before = {1, 0, 0, 1, 8}, l.after = {0, 0, 0, 2, 8};
  if (c.whole_planes) l.before = {1, 1, 8, 0, 0}, l.after = {0, 1, 0, 0, 0};
  return l;
}

/// A call: its tensors, its arguments and what should come out.
class Call {
 public:
  Call(const Case& c, Type type, Format format, bool tf32)
      : case_(c),
        tf32_(tf32),
        x_(type, {c.batch, c.channels, c.height, c.width}, lie(format, c)),
        y_(type, {c.batch, c.groups, c.source_channels, c.height, c.width}, lie_of_y(format, c)),
        weight_(type, {c.branches, c.channels * c.taps(), c.source_channels}, {{0, 1, 2}, {}, {}}),
        bias_(type, {c.branches, c.channels * c.taps()}, {{0, 1}, {}, {}}),
        out_(type, {c.batch, (c.branches + front()) * c.channels, c.height, c.width},
             lie(format, c)) {
    x_.fill(1, 1);
    y_.fill(2, 1);
    weight_.fill(3, 1 / std::sqrt(static_cast<float>(c.source_channels)));
    bias_.fill(4, 1);
    GeneratedFilterArguments& a = arguments_;
    a.x = x_.data(), a.y = y_.data(), a.weight = weight_.data(), a.out = out_.data();
    a.bias = c.bias ? bias_.data() : nullptr;
    a.type = type;
    a.allow_tf32 = tf32;
    a.batch = c.batch, a.branches = c.branches, a.groups = c.groups, a.channels = c.channels;
    a.source_channels = c.source_channels, a.height = c.height, a.width = c.width;
    a.kernel_size = c.kernel_size;
    a.concat_input = c.concat_input;
    a.output_channel = front() * c.channels;
    x_.strides_to(a.x_stride);
    y_.strides_to(a.y_stride);
    weight_.strides_to(a.weight_stride);
    bias_.strides_to(a.bias_stride);
    out_.strides_to(a.out_stride);
    std::copy(c.dilations.begin(), c.dilations.end(), a.dilation);
  }

  const GeneratedFilterArguments& arguments() const { return arguments_; }

  void expect_result() const {
    const Case& c = case_;
    expect_float64s(out_, c.name(), [&](const Sizes& at) {
      Expected result;
      const int64_t of_results = at[1] - front() * c.channels;
      if (of_results < 0) {
        result.add(x_.get(at));
        return result;
      }
      const int64_t b = of_results / c.channels, of_x = of_results % c.channels;
      const int64_t dilation = c.dilations[static_cast<std::size_t>(b)];
      for (int64_t tap = 0; tap < c.taps(); ++tap) {
        const int64_t row = at[2] + (tap / c.kernel_size - c.kernel_size / 2) * dilation;
        const int64_t column = at[3] + (tap % c.kernel_size - c.kernel_size / 2) * dilation;
        if (row < 0 || row >= c.height || column < 0 || column >= c.width) continue;
        const double x = x_.get({at[0], of_x, row, column});
        const int64_t product = of_x * c.taps() + tap;
        if (c.bias) result.add(bias_.get({b, product}) * x);
        for (int64_t s = 0; s < c.source_channels; ++s) {
          const double y = y_.get({at[0], c.groups == 1 ? 0 : b, s, at[2], at[3]});
          result.add(operand(weight_.get({b, product, s})) * operand(y) * x);
        }
      }
      return result;
    });
  }

 private:
  int front() const { return case_.concat_input ? 1 : 0; }

  /// To the nearest that TF32 holds, ties away from zero.
  double operand(double value) const {
    if (!tf32_) return value;
    const auto bits = std::bit_cast<unsigned>(static_cast<float>(value));
    return std::bit_cast<float>((bits + 0x1000u) & 0xffffe000u);
  }

  Case case_;
  bool tf32_;
  Tensor x_, y_, weight_, bias_, out_;
  GeneratedFilterArguments arguments_{};
};

/// Partial tiles, several of a block, groups, branches, slices.
std::vector<Case> few_cases() {
  return {
      {1, 2, 2, 32, 64, 13, 40, {1, 3}, true},
      {2, 2, 1, 16, 24, 10, 24, {8, 2}, true, false, true},
  };
}

/// The same, and more images, reaches and rounds of a block; fewer where every access is followed.
std::vector<Case> cases() {
  std::vector<Case> all = few_cases();
#if !defined(__SANITIZE_THREAD__)
  all.push_back({2, 2, 2, 16, 8, 5, 8, {8, 7}});
  all.push_back({1, 5, 1, 16, 64, 9, 24, {1, 2, 4, 6, 8}, true});
  all.push_back({3, 1, 1, 16, 16, 40, 40, {3}, true});
#endif
  return all;
}

class GeneratedFilter : public emulated::OfTypeAndFormat {
 protected:
  void expect_warpgroups(const Case& c) const {
    const Call call(c, type(), format(), type() == Type::kFloat);
    const GeneratedFilterArguments& a = call.arguments();
    const std::int64_t before = emulated::products();
    std::string why;
    if (type() == Type::kFloat) {
      ASSERT_TRUE(can_run_generated_filter_wgmma_tf32(a, &why)) << c.name() << ": " << why;
      ASSERT_EQ(launch_generated_filter_wgmma_tf32(a, nullptr), cudaSuccess);
    } else {
      ASSERT_TRUE(can_run_generated_filter_wgmma(a, &why)) << c.name() << ": " << why;
      ASSERT_EQ(launch_generated_filter_wgmma(a, nullptr), cudaSuccess);
    }
    EXPECT_GT(emulated::products(), before) << "no other kernel takes its place";
    call.expect_result();
  }
};

TEST_P(GeneratedFilter, OfWarpgroupsIsFloat64s) {
  in_every_order([&] {
    for (const Case& c : cases()) expect_warpgroups(c);
  });
}

// Blocks whose tiles begin within an image, go on to the next one, and end with a part of a tile.
TEST_P(GeneratedFilter, OfRunsIsFloat64s) {
  if (type() == Type::kFloat || format() != Format::kPlanes) GTEST_SKIP() << "for two-byte planes";
  in_every_order([&] {
    std::vector<Case> all = {{2, 2, 2, 32, 64, 23, 24, {1, 8}, true},
                             {2, 3, 1, 16, 24, 9, 80, {1, 3, 5}, true, false},
                             // What comes from above the reach would fall into a row that is kept.
                             {1, 1, 1, 16, 16, 70, 8, {2}, true}};
    all[0].whole_planes = true;
#if !defined(__SANITIZE_THREAD__)
    all.push_back({5, 1, 1, 16, 8, 3, 48, {2}});
    all.push_back({3, 1, 1, 16, 8, 37, 8, {3}});
    all.push_back({4, 5, 5, 16, 64, 17, 32, {1, 2, 4, 6, 8}, true});
    all.push_back({3, 1, 1, 16, 8, 1, 88, {5}});
#endif
    for (const Case& c : all) {
      const Call call(c, type(), format(), false);
      std::string why;
      ASSERT_TRUE(can_run_generated_filter_wgmma_runs(call.arguments(), &why))
          << c.name() << ": " << why;
      const std::int64_t before = emulated::products();
      ASSERT_EQ(launch_generated_filter_wgmma_runs(call.arguments(), nullptr), cudaSuccess);
      EXPECT_GT(emulated::products(), before) << "no other kernel takes its place";
      call.expect_result();
    }
  });
}

// Rows that end within a 16-byte piece of what is fetched or written at a time.
TEST_P(GeneratedFilter, OfWarpgroupsTakesWidthsOfFours) {
  if (type() != Type::kFloat || format() != Format::kPlanes) GTEST_SKIP() << "widths are eights";
  in_every_order([&] {
    for (const int width : {4, 12, 20, 28})
      expect_warpgroups({1, 2, 1, 16, 16, 7, width, {1, 8}, true});
  });
}

TEST_P(GeneratedFilter, OfWarpsIsFloat64s) {
  in_every_order([&] {
    std::vector<Case> all = few_cases();
    all.push_back({1, 2, 1, 16, 8, 5, 7, {1, 2}, true, true, false, 5});
    all.push_back({1, 1, 1, 16, 16, 6, 9, {3}, false, true, true, 1});
    for (const Case& c : all) {
      const Call call(c, type(), format(), type() == Type::kFloat);
      std::string why;
      ASSERT_TRUE(can_run_generated_filter_mma(call.arguments(), &why)) << c.name() << ": " << why;
      ASSERT_EQ(launch_generated_filter_mma(call.arguments(), nullptr), cudaSuccess);
      call.expect_result();
    }
  });
}

TEST_P(GeneratedFilter, InExactArithmeticIsFloat64s) {
  if (type() != Type::kFloat) GTEST_SKIP() << "for float";
  in_every_order([&] {
    std::vector<Case> all = few_cases();
    all.push_back({1, 2, 2, 3, 5, 7, 9, {1, 3}, true});
    all.push_back({1, 1, 1, 16, 72, 6, 8, {2}});
    for (const Case& c : all) {
      const Call call(c, type(), format(), false);
      std::string why;
      ASSERT_TRUE(can_run_generated_filter_simt(call.arguments(), &why)) << c.name() << ": " << why;
      ASSERT_EQ(launch_generated_filter_simt(call.arguments(), nullptr), cudaSuccess);
      call.expect_result();
    }
  });
}

TEST_P(GeneratedFilter, OfAnySizesIsFloat64s) {
  in_every_order([&] {
    for (const Case& c : std::vector<Case>{{1, 2, 2, 3, 5, 7, 9, {1, 3}, true},
                                           {2, 1, 1, 2, 3, 5, 6, {9}, false, false, true, 5}}) {
      const Call call(c, type(), format(), false);
      ASSERT_EQ(launch_generated_filter_scalar(call.arguments(), nullptr), cudaSuccess);
      call.expect_result();
    }
  });
}

// TF32, in either format: what the kernels of warpgroups do not take is said.
TEST(GeneratedFilterChoice, OfWarpgroupsInTf32SaysWhyNot) {
  for (const Format format : {Format::kPlanes, Format::kChannelsLast}) {
    const bool planes = format == Format::kPlanes;
    const auto reason = [&](auto change) {
      const Call call({1, 1, 1, 16, 16, 8, 12, {2}, true}, Type::kFloat, format, true);
      GeneratedFilterArguments a = call.arguments();
      change(a);
      std::string why;
      return can_run_generated_filter_wgmma_tf32(a, &why) ? "it can" : why;
    };
    using Arguments = GeneratedFilterArguments;
    EXPECT_EQ(reason([](Arguments&) {}), "it can");
    EXPECT_EQ(reason([](Arguments& a) { a.dilation[0] = 8; }), "it can");
    EXPECT_EQ(reason([](Arguments& a) { a.dilation[0] = 9; }), "dilation above 8");
    EXPECT_EQ(reason([](Arguments& a) { a.type = Type::kHalf; }), "not float");
    EXPECT_EQ(reason([](Arguments& a) { a.kernel_size = 5; }), "kernel size other than 3");
    for (const int i : {0, 2}) {
      EXPECT_EQ(reason([i](Arguments& a) { a.x_stride[i] += 2; }),
                "strides of x, y or the result are no multiples of 4");
      EXPECT_EQ(reason([i](Arguments& a) { a.out_stride[i] += 2; }),
                "strides of x, y or the result are no multiples of 4");
    }
    EXPECT_EQ(reason([](Arguments& a) { a.y_stride[0] += 2; }),
              "strides of x, y or the result are no multiples of 4");
    EXPECT_EQ(reason([planes](Arguments& a) { a.x_stride[planes ? 3 : 1] = 2; }),
              "x or y is not in the result's format");
    EXPECT_EQ(reason([](Arguments& a) { a.out = static_cast<float*>(a.out) + 1; }),
              "x, y or the result is not 16-byte aligned");
    EXPECT_EQ(reason([](Arguments& a) { a.y = static_cast<const float*>(a.y) + 1; }),
              "x, y or the result is not 16-byte aligned");
    emulated::card().minor = 1;
    EXPECT_EQ(reason([](Arguments&) {}), "compute capability other than 9.0");
    emulated::card().minor = 0;
  }
}

// What runs of pixels do not take.
TEST(GeneratedFilterChoice, OfRunsSaysWhyNot) {
  const auto reason = [](int height, int width, const std::vector<int>& dilations, auto change,
                         Format format = Format::kPlanes) {
    const Call call({1, static_cast<int>(dilations.size()), 1, 16, 16, height, width, dilations},
                    Type::kHalf, format, false);
    GeneratedFilterArguments a = call.arguments();
    change(a);
    std::string why;
    return can_run_generated_filter_wgmma_runs(a, &why) ? "it can" : why;
  };
  using Arguments = GeneratedFilterArguments;
  const auto same = [](Arguments&) {};
  EXPECT_EQ(reason(4, 88, {1, 3, 5}, same), "it can");
  EXPECT_EQ(reason(4, 96, {1, 3, 5}, same), "rows too long for the ring of x");
  EXPECT_EQ(reason(4, 96, {1, 3, 4}, same), "it can");
  EXPECT_EQ(reason(2, 56, {8}, same), "rows too long for the ring of x");
  EXPECT_EQ(reason(2, 48, {8}, same), "it can");
  EXPECT_EQ(reason(2, 8, {1}, [](Arguments& a) { a.width = 1 << 29; }),
            "rows too long for the ring of x");
  EXPECT_EQ(reason(2, 8, {9}, same), "dilation above 8");
  EXPECT_EQ(reason(4, 24, {2}, same, Format::kChannelsLast), "a result in channels_last");
  const std::string apart = "rows of x, y or the result do not follow one another";
  EXPECT_EQ(reason(4, 24, {2}, [](Arguments& a) { a.x_stride[2] += 8; }), apart);
  EXPECT_EQ(reason(4, 24, {2}, [](Arguments& a) { a.y_stride[3] += 8; }), apart);
  EXPECT_EQ(reason(4, 24, {2}, [](Arguments& a) { a.out_stride[2] += 8; }), apart);
  EXPECT_EQ(reason(1, 24, {2}, [](Arguments& a) { a.x_stride[2] += 8; }), "it can");
  EXPECT_EQ(reason(4, 24, {2}, [](Arguments& a) { a.height = (1 << 30) / 24 + 1; }),
            "plane of more than 2^30 pixels");
}

// Where runs were measured to be faster than rectangles on a card of 132 multiprocessors.
TEST(GeneratedFilterChoice, OfRunsPaysInLongCalls) {
  emulated::card().processors = 132;
  const auto reason = [](int batch, int channels, int side) {
    GeneratedFilterArguments a{};
    a.batch = batch, a.branches = 3, a.channels = channels, a.height = a.width = side;
    std::string why;
    return generated_filter_runs_pay(a, &why) ? "it does" : why;
  };
  const std::string few = "few rounds of tiles, and no fewer than of rectangles";
  EXPECT_EQ(reason(32, 16, 80), "it does");
  EXPECT_EQ(reason(16, 16, 80), "it does");
  EXPECT_EQ(reason(3, 16, 80), "it does");
  EXPECT_EQ(reason(1, 16, 80), few);
  EXPECT_EQ(reason(2, 16, 80), few);
  EXPECT_EQ(reason(8, 16, 80), few);
  EXPECT_EQ(reason(8, 16, 64), few);
  EXPECT_EQ(reason(32, 16, 64), "it does");
  EXPECT_EQ(reason(8, 16, 48), "it does");
  EXPECT_EQ(reason(4, 64, 80), "it does");
  EXPECT_EQ(reason(4, 64, 64), few);
  const std::string small = "tiles for less than 3/4 of the card";
  EXPECT_EQ(reason(1, 16, 40), small);
  EXPECT_EQ(reason(1, 16, 88), small);
  EXPECT_EQ(reason(4, 16, 40), "it does");
  EXPECT_EQ(reason(2, 16, 72), "it does");
  EXPECT_EQ(reason(1, 64, 40), "it does");
}

TEST(GeneratedFilterChoice, OfWarpsCountsPixelsIn31Bits) {
  const Call call({1, 1, 1, 16, 16, 1, 8, {1}}, Type::kHalf, Format::kPlanes, false);
  GeneratedFilterArguments a = call.arguments();
  std::string why;
  a.batch = (int64_t{1} << 28) - 1;
  EXPECT_TRUE(can_run_generated_filter_mma(a, &why)) << why;
  a.batch = int64_t{1} << 28;
  EXPECT_FALSE(can_run_generated_filter_mma(a, &why));
  EXPECT_EQ(why, "2^31 pixels or more");
}

INSTANTIATE_TEST_SUITE_P(Types, GeneratedFilter, emulated::every_type_and_format(),
                         [](const auto& parameters) { return name(parameters.param); });

}  // namespace
}  // namespace hdfnet::ops::cuda
