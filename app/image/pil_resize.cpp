// Image.resize(size, BILINEAR) with Pillow's values.
//
// Each output sample is a weighted sum of the input samples under a triangle whose half width is
// the scale (at least 1), first along the rows, then along the columns, rounded to 8 bits after
// each. The weights are integers of 22 fractional bits. Both passes are sums of 32-bit products;
// what differs is the layout: along rows the taps of a pixel lie side by side (one pixel of four
// lanes a step), along columns whole rows are added up. 640x480x3 -> 320x320 takes 0.8 ms on one
// core with AVX2 (tests/image/pil_speed.cpp measures it).

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <opencv2/core.hpp>
#include <stdexcept>
#include <vector>

#include "image/pil.h"

// Compiles the marked function a second time for AVX2; which one runs is decided when the program
// is loaded.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define HDFNET_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define HDFNET_VECTOR_CLONES
#endif

namespace hdfnet::app {
namespace {

constexpr int kFractionBits = 32 - 8 - 2;
constexpr std::int32_t kHalf = 1 << (kFractionBits - 1);

/// The inputs under the filter of one output: weights[0..count) from position `first` on.
struct Taps {
  int first;
  int count;
  const std::int32_t* weights;
};

/// The taps of every output along one axis.
class Filter {
 public:
  Filter(int in, int out) {
    const double scale = static_cast<double>(in) / out;
    const double half_width = std::max(scale, 1.0);
    width_ = static_cast<std::size_t>(std::ceil(half_width)) * 2 + 1;
    weights_.resize(width_ * static_cast<std::size_t>(out));
    taps_.reserve(static_cast<std::size_t>(out));
    std::vector<double> real(width_);
    for (int i = 0; i < out; ++i) {
      const double centre = (i + 0.5) * scale;
      // NOLINTBEGIN(bugprone-incorrect-roundings): Pillow truncates, so must we
      const int first = std::max(0, static_cast<int>(centre - half_width + 0.5));
      const int end = std::min(in, static_cast<int>(centre + half_width + 0.5));
      // NOLINTEND(bugprone-incorrect-roundings)
      std::int32_t* target = &weights_[width_ * static_cast<std::size_t>(i)];
      set_weights(first, end - first, centre, 1.0 / half_width, real, target);
      taps_.push_back({first, end - first, target});
    }
  }

  Filter(const Filter&) = delete;  // taps_ points into weights_
  Filter& operator=(const Filter&) = delete;

  const Taps& operator[](int i) const { return taps_[static_cast<std::size_t>(i)]; }

 private:
  /// The order of the operations is Pillow's, since the last bit of a double can decide a rounding.
  static void set_weights(int first, int count, double centre, double inverse,
                          std::vector<double>& real, std::int32_t* target) {
    double sum = 0;
    for (int x = 0; x < count; ++x) {
      const double distance = std::abs((x + first - centre + 0.5) * inverse);
      real[static_cast<std::size_t>(x)] = distance < 1.0 ? 1.0 - distance : 0.0;
      sum += real[static_cast<std::size_t>(x)];
    }
    for (int x = 0; x < count; ++x) {
      double weight = real[static_cast<std::size_t>(x)];
      if (sum != 0.0) weight /= sum;
      // NOLINTNEXTLINE(bugprone-incorrect-roundings): as above
      target[x] = static_cast<std::int32_t>(0.5 + weight * (1 << kFractionBits));
    }
  }

  std::size_t width_;
  std::vector<std::int32_t> weights_;
  std::vector<Taps> taps_;
};

/// All weights are positive and their sum is 1, so that only rounding can reach past 255.
unsigned char to_byte(std::int32_t sum) {
  return static_cast<unsigned char>(std::min(sum >> kFractionBits, 255));
}

constexpr int kLanes = 4;

/// One row of three channels; `padded` holds each input pixel in four lanes.
HDFNET_VECTOR_CLONES
void filter_row_of_3(const std::int32_t* padded, const Filter& filter, int out, unsigned char* to) {
  for (int x = 0; x < out; ++x) {
    const Taps& taps = filter[x];
    std::int32_t sum[kLanes] = {kHalf, kHalf, kHalf, kHalf};
    const std::int32_t* pixel = padded + static_cast<std::ptrdiff_t>(taps.first) * kLanes;
    for (int k = 0; k < taps.count; ++k, pixel += kLanes) {
      for (int c = 0; c < kLanes; ++c) sum[c] += pixel[c] * taps.weights[k];
    }
    for (int c = 0; c < 3; ++c) to[3 * x + c] = to_byte(sum[c]);
  }
}

void filter_row_of_1(const unsigned char* from, const Filter& filter, int out, unsigned char* to) {
  for (int x = 0; x < out; ++x) {
    const Taps& taps = filter[x];
    std::int32_t sum = kHalf;
    for (int k = 0; k < taps.count; ++k) sum += from[taps.first + k] * taps.weights[k];
    to[x] = to_byte(sum);
  }
}

/// A row of bytes times a weight, added to the sums.
HDFNET_VECTOR_CLONES
void add_weighted(const unsigned char* from, std::int32_t weight, std::size_t count,
                  std::int32_t* sums) {
  for (std::size_t i = 0; i < count; ++i) sums[i] += from[i] * weight;
}

HDFNET_VECTOR_CLONES
void store(const std::int32_t* sums, std::size_t count, unsigned char* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = to_byte(sums[i]);
}

cv::Mat resize_rows(const cv::Mat& image, int out) {
  const Filter filter(image.cols, out);
  cv::Mat result(image.rows, out, image.type());
  std::vector<std::int32_t> padded(static_cast<std::size_t>(image.cols) * kLanes);
  for (int y = 0; y < image.rows; ++y) {
    const unsigned char* from = image.ptr(y);
    if (image.channels() == 1) {
      filter_row_of_1(from, filter, out, result.ptr(y));
      continue;
    }
    for (std::size_t x = 0; x < static_cast<std::size_t>(image.cols); ++x) {
      for (std::size_t c = 0; c < 3; ++c) padded[x * kLanes + c] = from[3 * x + c];
    }
    filter_row_of_3(padded.data(), filter, out, result.ptr(y));
  }
  return result;
}

cv::Mat resize_columns(const cv::Mat& image, int out) {
  const Filter filter(image.rows, out);
  cv::Mat result(out, image.cols, image.type());
  const auto samples = static_cast<std::size_t>(image.cols) * image.elemSize();
  std::vector<std::int32_t> sums(samples);
  for (int y = 0; y < out; ++y) {
    const Taps& taps = filter[y];
    std::fill(sums.begin(), sums.end(), kHalf);
    for (int k = 0; k < taps.count; ++k) {
      add_weighted(image.ptr(taps.first + k), taps.weights[k], samples, sums.data());
    }
    store(sums.data(), samples, result.ptr(y));
  }
  return result;
}

}  // namespace

cv::Mat pil_resize_bilinear(const cv::Mat& image, cv::Size size) {
  if (image.type() != CV_8UC1 && image.type() != CV_8UC3) {
    throw std::invalid_argument("pil_resize_bilinear: 8-bit images of one or three channels only");
  }
  if (image.empty() || size.width <= 0 || size.height <= 0) {
    throw std::invalid_argument(
        "pil_resize_bilinear: the image and the new size must not be empty");
  }
  cv::Mat result = image;
  if (size.width != image.cols) result = resize_rows(result, size.width);
  if (size.height != image.rows) result = resize_columns(result, size.height);
  return result;
}

}  // namespace hdfnet::app
