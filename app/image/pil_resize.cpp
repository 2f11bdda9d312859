// Image.resize(size, BILINEAR) with Pillow's values.
//
// Each output sample is a weighted sum of the input samples under a triangle whose half width is
// the scale (at least 1), first along the rows, then along the columns, rounded to 8 bits after
// each. The weights are integers of 22 fractional bits. Both passes are sums of 32-bit products;
// what differs is the layout: along rows the taps of a pixel lie side by side (one pixel of four
// lanes a step), along columns whole rows are added up. 640x480x3 -> 320x320 takes 0.8 ms on one
// core with AVX2 (tests/image/pil_speed.cpp measures it).

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <opencv2/core.hpp>
#include <stdexcept>
#include <vector>

#include "image/pil.h"
#include "image/pil_filter.h"

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

/// The inputs under the filter of one output: weights[0..count) from position `first` on.
struct Taps {
  int first;
  int count;
  const std::int32_t* weights;
};

/// The taps of every output along one axis.
class Filter {
 public:
  Filter(int in, int out) : weights_(width(in, out) * static_cast<std::size_t>(out)) {
    taps_.reserve(static_cast<std::size_t>(out));
    for (int i = 0; i < out; ++i) {
      std::int32_t* weights = &weights_[width(in, out) * static_cast<std::size_t>(i)];
      const PilSpan span = pil_filter(in, out, i, weights);
      taps_.push_back({span.first, span.count, weights});
    }
  }

  Filter(const Filter&) = delete;  // taps_ points into weights_
  Filter& operator=(const Filter&) = delete;

  const Taps& operator[](int i) const { return taps_[static_cast<std::size_t>(i)]; }

 private:
  static std::size_t width(int in, int out) {
    return static_cast<std::size_t>(pil_filter_width(in, out));
  }

  std::vector<std::int32_t> weights_;
  std::vector<Taps> taps_;
};

constexpr int kLanes = 4;

/// One row of three channels; `padded` holds each input pixel in four lanes.
HDFNET_VECTOR_CLONES
void filter_row_of_3(const std::int32_t* padded, const Filter& filter, int out, unsigned char* to) {
  for (int x = 0; x < out; ++x) {
    const Taps& taps = filter[x];
    std::int32_t sum[kLanes] = {kPilHalf, kPilHalf, kPilHalf, kPilHalf};
    const std::int32_t* pixel = padded + static_cast<std::ptrdiff_t>(taps.first) * kLanes;
    for (int k = 0; k < taps.count; ++k, pixel += kLanes) {
      for (int c = 0; c < kLanes; ++c) sum[c] += pixel[c] * taps.weights[k];
    }
    for (int c = 0; c < 3; ++c) to[3 * x + c] = pil_byte(sum[c]);
  }
}

void filter_row_of_1(const unsigned char* from, const Filter& filter, int out, unsigned char* to) {
  for (int x = 0; x < out; ++x) {
    const Taps& taps = filter[x];
    to[x] = pil_sample(from + taps.first, 1, taps.weights, taps.count);
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
  for (std::size_t i = 0; i < count; ++i) to[i] = pil_byte(sums[i]);
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
    std::fill(sums.begin(), sums.end(), kPilHalf);
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
