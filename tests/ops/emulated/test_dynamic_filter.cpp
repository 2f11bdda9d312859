// The kernels of dynamic_filter and of its gradients on the emulated card, beside float64.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "cuda/filter_arguments.h"
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
  int batch, channels, height, width, kernel_size;
  std::vector<int> dilations;
  bool concat_input = false;
  bool slices = false;  // x and the result are parts of larger tensors

  // Words of four bytes that channels of a larger tensor take before and behind its own.
  struct Gap {
    int before = 0, behind = 0;
  };
  Gap around_x = {}, around_out = {};

  int branches() const { return static_cast<int>(dilations.size()); }
  std::string name() const {
    std::string text = "N " + std::to_string(batch) + ", C " + std::to_string(channels) + ", " +
                       std::to_string(height) + " x " + std::to_string(width) + ", K " +
                       std::to_string(kernel_size) + ", " + emulated::name(dilations);
    const auto gap = [](const char* of, const Gap& g) {
      return g.before + g.behind == 0
                 ? ""
                 : of + std::to_string(g.before) + " and " + std::to_string(g.behind);
    };
    return text + (concat_input ? ", x in front" : "") + (slices ? ", slices" : "") +
           gap(", words around x ", around_x) + gap(", around the result ", around_out);
  }
};

Lie lie(Format format, bool slice) {
  Lie l = emulated::lie(format);
  if (slice) l.before = {1, 0, 1, 8}, l.after = {0, 1, 2, 8};
  // Pixels of channels_last that do not follow one another are left to other kernels.
  if (slice && format == Format::kChannelsLast) l.before = {1, 0, 0, 0}, l.after = {1, 0, 0, 0};
  return l;
}

Lie lie(Format format, bool slice, const Case::Gap& gap, Type type) {
  Lie l = lie(format, slice);
  if (l.before.empty()) l.before = l.after = {0, 0, 0, 0};
  l.before[1] += gap.before * 4 / size_of(type);
  l.after[1] += gap.behind * 4 / size_of(type);
  return l;
}

/// N, B, C, K*K, H, W.
Lie lie_of_kernels(Format format) {
  return {format == Format::kPlanes ? std::vector{0, 1, 2, 3, 4, 5} : std::vector{0, 4, 5, 1, 2, 3},
          {},
          {}};
}

class Call {
 public:
  Call(const Case& c, Type type, Format format) : Call(c, type, format, format) {}
  Call(const Case& c, Type type, Format format, Format format_of_kernels)
      : case_(c),
        type_(type),
        format_(format),
        format_of_kernels_(format_of_kernels),
        x_(type, {c.batch, c.channels, c.height, c.width}, lie(format, c.slices, c.around_x, type)),
        kernels_(type, of_kernels(), lie_of_kernels(format_of_kernels)),
        out_(type, {c.batch, (c.branches() + front()) * c.channels, c.height, c.width},
             lie(format, c.slices, c.around_out, type)) {
    x_.fill(1, 1);
    kernels_.fill(2, 1);
    FilterArguments& a = arguments_;
    a.x = x_.data(), a.kernels = kernels_.data(), a.out = out_.data();
    a.type = type;
    a.batch = c.batch, a.branches = c.branches(), a.channels = c.channels;
    a.height = c.height, a.width = c.width;
    a.kernel_size = c.kernel_size;
    a.concat_input = c.concat_input;
    a.output_channel = front() * c.channels;
    x_.strides_to(a.x_stride);
    kernels_.strides_to(a.kernel_stride);
    out_.strides_to(a.out_stride);
    std::copy(c.dilations.begin(), c.dilations.end(), a.dilation);
  }

  const FilterArguments& arguments() const { return arguments_; }

  /// Lays x of channels_last elsewhere, with so many elements behind each row and each image.
  void lay_x_apart(int64_t behind_row, int64_t behind_image) {
    FilterArguments& a = arguments_;
    const auto size = static_cast<std::size_t>(size_of(type_));
    const int64_t row = case_.width * a.x_stride[3];
    const int64_t row_stride = row + behind_row;
    const int64_t image_stride = case_.height * row_stride + behind_image;
    moved_x_.resize(static_cast<std::size_t>(case_.batch * image_stride) * size);
    for (int64_t n = 0; n < case_.batch; ++n) {
      for (int64_t h = 0; h < case_.height; ++h) {
        std::memcpy(
            moved_x_.data() + static_cast<std::size_t>(n * image_stride + h * row_stride) * size,
            static_cast<const char*>(x_.data()) +
                static_cast<std::size_t>(n * a.x_stride[0] + h * a.x_stride[2]) * size,
            static_cast<std::size_t>(row) * size);
      }
    }
    a.x = moved_x_.data();
    a.x_stride[0] = image_stride;
    a.x_stride[2] = row_stride;
  }

  void expect_result(const std::string& kernel) const {
    expect_float64s(out_, kernel + ": " + case_.name(), [&](const Sizes& at) {
      const Case& c = case_;
      Expected result;
      const int64_t of_results = at[1] - front() * c.channels;
      if (of_results < 0) {
        result.add(x_.get(at));
        return result;
      }
      const int64_t b = of_results / c.channels, of_x = of_results % c.channels;
      for (int64_t tap = 0; tap < taps(); ++tap) {
        int64_t row = at[2], column = at[3];
        if (!move(b, tap, 1, &row, &column)) continue;
        result.add(kernels_.get({at[0], b, of_x, tap, at[2], at[3]}) *
                   x_.get({at[0], of_x, row, column}));
      }
      return result;
    });
  }

  /// The gradient of x by `launch`, from a gradient that lies as the result.
  template <typename Can, typename Launch>
  bool expect_gradient_of_input(const std::string& kernel, const Can& can, const Launch& launch) {
    Tensor grad(type_, out_.sizes(), lie(format_, case_.slices));
    grad.fill(3, 1);
    Tensor result(type_, x_.sizes(), lie(format_, false));
    FilterGradientArguments a = gradient(grad, result);
    if (!can(a)) return false;
    EXPECT_EQ(launch(a, nullptr), cudaSuccess);
    expect_float64s(result, kernel + ": " + case_.name(), [&](const Sizes& at) {
      const Case& c = case_;
      Expected sum;
      if (c.concat_input) sum.add(grad.get(at));
      for (int64_t b = 0; b < c.branches(); ++b) {
        for (int64_t tap = 0; tap < taps(); ++tap) {
          int64_t row = at[2], column = at[3];
          if (!move(b, tap, -1, &row, &column)) continue;
          sum.add(kernels_.get({at[0], b, at[1], tap, row, column}) *
                  grad.get({at[0], (front() + b) * c.channels + at[1], row, column}));
        }
      }
      return sum;
    });
    return true;
  }

  template <typename Can, typename Launch>
  bool expect_gradient_of_kernels(const std::string& kernel, const Can& can, const Launch& launch) {
    Tensor grad(type_, out_.sizes(), lie(format_, case_.slices));
    grad.fill(3, 1);
    Tensor result(type_, of_kernels(), lie_of_kernels(format_of_kernels_));
    FilterGradientArguments a = gradient(grad, result);
    if (!can(a)) return false;
    EXPECT_EQ(launch(a, nullptr), cudaSuccess);
    expect_float64s(result, kernel + ": " + case_.name(), [&](const Sizes& at) {
      const Case& c = case_;
      Expected product;
      int64_t row = at[4], column = at[5];
      if (move(at[1], at[3], 1, &row, &column)) {
        product.add(grad.get({at[0], (front() + at[1]) * c.channels + at[2], at[4], at[5]}) *
                    x_.get({at[0], at[2], row, column}));
      }
      return product;
    });
    return true;
  }

 private:
  int front() const { return case_.concat_input ? 1 : 0; }
  int64_t taps() const { return int64_t{case_.kernel_size} * case_.kernel_size; }
  Sizes of_kernels() const {
    const Case& c = case_;
    return {c.batch, c.branches(), c.channels, taps(), c.height, c.width};
  }

  /// By a tap, there or back; whether that is in the plane.
  bool move(int64_t b, int64_t tap, int direction, int64_t* row, int64_t* column) const {
    const Case& c = case_;
    const int64_t dilation = direction * c.dilations[static_cast<std::size_t>(b)];
    *row += (tap / c.kernel_size - c.kernel_size / 2) * dilation;
    *column += (tap % c.kernel_size - c.kernel_size / 2) * dilation;
    return *row >= 0 && *row < c.height && *column >= 0 && *column < c.width;
  }

  FilterGradientArguments gradient(Tensor& grad, Tensor& result) const {
    FilterGradientArguments a{};
    a.filter = arguments_;
    a.grad = grad.data();
    grad.strides_to(a.grad_stride);
    a.out = result.data();
    result.strides_to(a.out_stride);
    return a;
  }

  Case case_;
  Type type_;
  Format format_, format_of_kernels_;
  Tensor x_, kernels_, out_;
  std::vector<char> moved_x_;
  FilterArguments arguments_{};
};

std::vector<Case> cases() {
  std::vector<Case> all = {
      {2, 8, 13, 24, 3, {1, 3, 5}, true},
      {1, 8, 9, 16, 5, {2}, false, true},
  };
#if !defined(__SANITIZE_THREAD__)
  all.push_back({1, 3, 7, 9, 3, {4, 1}});
  all.push_back({1, 8, 21, 136, 3, {1}, false, true});
  all.push_back({1, 2, 40, 72, 7, {1, 3}, true});
  all.push_back({1, 2, 5, 24, 7, {17, 1}, true});  // one block of the ring
  all.push_back({3, 16, 5, 6, 3, {32, 2}, true});
  all.push_back({1, 1, 1, 1, 5, {1}});
  all.push_back({2, 3, 9, 10, 1, {1}, true});
#endif
  return all;
}

class DynamicFilter : public emulated::OfTypeAndFormat {
 protected:
  bool planes() const { return format() == Format::kPlanes; }
};

TEST_P(DynamicFilter, EveryKernelsResultIsFloat64s) {
  in_every_order([&] {
    struct Kernel {
      const char* name;
      bool (*can)(const FilterArguments&, std::string*);
      cudaError_t (*launch)(const FilterArguments&, cudaStream_t);
      bool planes, channels_last;  // what it takes of these cases
    };
    const auto always = [](const FilterArguments&, std::string*) { return true; };
    const Kernel kernels[] = {
        {"direct", &can_run_filter_direct, &launch_filter_direct, true, false},
        {"planes", &can_run_filter_planes, &launch_filter_planes, true, false},
        {"ring", &can_run_filter_ring, &launch_filter_ring, true, false},
        {"direct pixels", &can_run_filter_direct_pixels, &launch_filter_direct_pixels, false, true},
        {"pixels", &can_run_filter_pixels, &launch_filter_pixels, false, true},
        {"strided", always, &launch_filter_strided, true, true},
    };
    std::map<std::string, int> runs;
    for (const Case& c : cases()) {
      for (const Kernel& kernel : kernels) {
        const Call call(c, type(), format());
        if (!kernel.can(call.arguments(), nullptr)) continue;
        EXPECT_EQ(kernel.launch(call.arguments(), nullptr), cudaSuccess);
        call.expect_result(kernel.name);
        ++runs[kernel.name];
      }
    }
    for (const Kernel& kernel : kernels) {
      if (planes() ? kernel.planes : kernel.channels_last) {
        EXPECT_GT(runs[kernel.name], 0) << kernel.name;
      }
    }
  });
}

TEST_P(DynamicFilter, EveryGradientIsFloat64s) {
  in_every_order([&] {
    std::map<std::string, int> runs;
    for (const Case& c : cases()) {
      Call call(c, type(), format());
      const auto always = [](const FilterGradientArguments&) { return true; };
      const auto can = [](auto function, bool of_kernels) {
        return [=](const FilterGradientArguments& a) { return function(a, of_kernels, nullptr); };
      };
      const auto note = [&](const char* kernel, bool ran) { runs[kernel] += ran ? 1 : 0; };
      note("of x, planes", call.expect_gradient_of_input(
                               "of x, planes", can(&can_run_filter_gradient_planes, false),
                               &launch_filter_gradient_of_input_planes));
      note("of x, pixels", call.expect_gradient_of_input(
                               "of x, pixels", can(&can_run_filter_gradient_pixels, false),
                               &launch_filter_gradient_of_input_pixels));
      call.expect_gradient_of_input("of x, strided", always, &launch_filter_gradient_of_input);
      note("of kernels, planes",
           call.expect_gradient_of_kernels("of kernels, planes",
                                           can(&can_run_filter_gradient_planes, true),
                                           &launch_filter_gradient_of_kernels_planes));
      note("of kernels, pixels",
           call.expect_gradient_of_kernels("of kernels, pixels",
                                           can(&can_run_filter_gradient_pixels, true),
                                           &launch_filter_gradient_of_kernels_pixels));
      call.expect_gradient_of_kernels("of kernels, strided", always,
                                      &launch_filter_gradient_of_kernels);
    }
    const std::string form = planes() ? "planes" : "pixels";
    EXPECT_GT(runs["of x, " + form], 0);
    EXPECT_GT(runs["of kernels, " + form], 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Types, DynamicFilter, emulated::every_type_and_format(),
                         [](const auto& parameters) { return name(parameters.param); });

class DynamicFilterOfPixels : public testing::TestWithParam<Type> {};

// Eight bytes of results a thread and, where any one thing is not so aligned, four; warps and
// blocks that are not full; reach beyond the plane; kernels that are no whole pieces of 16 bytes.
TEST_P(DynamicFilterOfPixels, TheDirectKernelTakesWholePieces) {
  const Type type = GetParam();
  const auto expect_reason = [&](const Case& c, const std::string& reason) {
    std::string why;
    EXPECT_FALSE(
        can_run_filter_direct_pixels(Call(c, type, Format::kChannelsLast).arguments(), &why));
    EXPECT_EQ(why, reason) << c.name();
  };
  const bool is_float = type == Type::kFloat;
  const std::string part = "kernels are no multiple of 16 bytes";
  expect_reason({1, 6, 3, 3, 3, {1}}, part);
  expect_reason({1, 3, 7, 9, 3, {4, 1}}, is_float ? part : "odd number of channels");
  expect_reason({1, 8, 4, 4, 5, {1}}, "kernel size other than 3");
  std::vector<Case> all = {
      {1, 12, 5, 6, 3, {2, 6}, true},
      {1, 12, 5, 6, 3, {2, 6}, true, false, {1, 1}},
  };
#if !defined(__SANITIZE_THREAD__)
  all.push_back({1, 8, 1, 1, 3, {1}});
  all.push_back({1, 8, 1, 1, 3, {1}, true, false, {1, 1}});
  all.push_back({3, 6, 9, 12, 3, {1, 4, 30}, true});
  all.push_back({2, 16, 7, 6, 3, {1, 3, 5, 2}, false, true});
  all.push_back({1, 12, 5, 6, 3, {2, 6}, true, false, {0, 1}});
  all.push_back({1, 12, 5, 6, 3, {2, 6}, true, false, {}, {1, 1}});
  all.push_back({1, 12, 5, 6, 3, {2, 6}, true, false, {}, {0, 1}});
  all.push_back({1, is_float ? 5 : 10, 8, 7, 3, {1, 13, 2}, true});
  all.push_back({1, is_float ? 5 : 10, 8, 7, 3, {1, 13, 2, 4}, false, false, {0, 1}});
#endif
  in_every_order([&] {
    for (const Case& c : all) {
      const Call call(c, type, Format::kChannelsLast);
      std::string why;
      ASSERT_TRUE(can_run_filter_direct_pixels(call.arguments(), &why)) << c.name() << ": " << why;
      EXPECT_EQ(launch_filter_direct_pixels(call.arguments(), nullptr), cudaSuccess);
      call.expect_result("direct pixels");
    }
  });
}

// Pixels are aligned to eight bytes, rows or images to four.
TEST_P(DynamicFilterOfPixels, TheDirectKernelLooksAtEveryStride) {
  const int64_t word = 4 / size_of(GetParam());
  in_every_order([&] {
    for (const auto& [row, image] : {std::pair{word, int64_t{0}}, {int64_t{0}, word}}) {
      Call call({2, 12, 4, 6, 3, {1, 2}, true}, GetParam(), Format::kChannelsLast);
      call.lay_x_apart(row, image);
      ASSERT_TRUE(can_run_filter_direct_pixels(call.arguments(), nullptr));
      EXPECT_EQ(launch_filter_direct_pixels(call.arguments(), nullptr), cudaSuccess);
      call.expect_result("direct pixels, x apart");
    }
  });
}

// Nothing is read.
TEST_P(DynamicFilterOfPixels, TheDirectKernelCountsUnitsWith31Bits) {
  const Call call({1, 8, 1, 1, 3, {1}}, GetParam(), Format::kChannelsLast);
  FilterArguments a = call.arguments();
  const int64_t words = a.channels * size_of(a.type) / 4;  // of a pixel's results
  std::string why;
  a.batch = ((int64_t{1} << 31) - 256) / words;
  EXPECT_TRUE(can_run_filter_direct_pixels(a, &why)) << why;
  ++a.batch;
  EXPECT_FALSE(can_run_filter_direct_pixels(a, &why));
  EXPECT_EQ(why, "more than 2^31 - 256 words of results");
  a.batch = 1;
  a.channels = (int64_t{1} << 30) + 8;
  EXPECT_FALSE(can_run_filter_pixels(a, &why));
  EXPECT_EQ(why, "more than 2^30 channels");
}

// One channel of x may be planes and pixels at once. Its branches, and x in front of them, are one
// or the other: kernels that write pixels leave planes to others.
TEST_P(DynamicFilterOfPixels, PlanesOfBranchesAreNotPixels) {
  const bool is_float = GetParam() == Type::kFloat;
  const Case all[] = {{1, 1, 8, 7, 3, {1, 3}}, {1, 1, 8, 7, 3, {1}, true}};
  for (const Case& c : all) {
    Call call(c, GetParam(), Format::kPlanes, Format::kChannelsLast);
    for (const auto can : {&can_run_filter_pixels, &can_run_filter_direct_pixels}) {
      std::string why;
      EXPECT_FALSE(can(call.arguments(), &why));
      EXPECT_EQ(why, is_float ? "channels are not neighbours in memory" : "odd number of channels");
    }
    const auto can = [](bool of_kernels) {
      return [=](const FilterGradientArguments& a) {
        return can_run_filter_gradient_pixels(a, of_kernels, nullptr);
      };
    };
    EXPECT_TRUE(
        call.expect_gradient_of_input("of x", can(false), &launch_filter_gradient_of_input_pixels));
    EXPECT_TRUE(call.expect_gradient_of_kernels("of kernels", can(true),
                                                &launch_filter_gradient_of_kernels_pixels));
  }
  // One branch alone is both.
  const Call one({1, 1, 8, 8, 3, {2}}, GetParam(), Format::kPlanes, Format::kChannelsLast);
  EXPECT_EQ(is_float, can_run_filter_direct_pixels(one.arguments(), nullptr));
}

INSTANTIATE_TEST_SUITE_P(Types, DynamicFilterOfPixels,
                         testing::Values(Type::kHalf, Type::kBFloat16, Type::kFloat),
                         [](const auto& parameters) { return name(parameters.param); });

}  // namespace
}  // namespace hdfnet::ops::cuda
