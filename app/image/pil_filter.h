#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "image/exact.h"

/// The filter of Image.resize(size, BILINEAR), one output sample at a time, for the host and the
/// device. Each output is a weighted sum of the inputs under a triangle whose half width is the
/// scale (at least 1); the weights are integers of 22 fractional bits.
namespace hdfnet::app {

inline constexpr int kPilFractionBits = 32 - 8 - 2;
inline constexpr std::int32_t kPilHalf = 1 << (kPilFractionBits - 1);

/// The inputs under one output's filter: `count` from position `first` on.
struct PilSpan {
  int first;
  int count;
};

namespace pil_detail {

HDFNET_HOST_DEVICE inline double half_width(double scale) {
  return scale > 1.0 ? scale : 1.0;
}

/// The triangle's height over an input. The order of the operations is Pillow's, here and below,
/// since the last bit of a double can decide a rounding.
HDFNET_HOST_DEVICE inline double height(int position, double centre, double inverse) {
  const double distance = std::fabs(
      exact::product(exact::sum(exact::sum(static_cast<double>(position), -centre), 0.5), inverse));
  return distance < 1.0 ? exact::sum(1.0, -distance) : 0.0;
}

}  // namespace pil_detail

/// The most inputs under a filter of an axis that goes from `in` samples to `out`.
HDFNET_HOST_DEVICE inline int pil_filter_width(int in, int out) {
  const double scale = exact::quotient(static_cast<double>(in), static_cast<double>(out));
  return static_cast<int>(std::ceil(pil_detail::half_width(scale))) * 2 + 1;
}

/// The filter of output `i`; weights[0..count) are written, of at most pil_filter_width().
HDFNET_HOST_DEVICE inline PilSpan pil_filter(int in, int out, int i, std::int32_t* weights) {
  const double scale = exact::quotient(static_cast<double>(in), static_cast<double>(out));
  const double half_width = pil_detail::half_width(scale);
  const double centre = exact::product(i + 0.5, scale);
  // NOLINTBEGIN(bugprone-incorrect-roundings): Pillow truncates, so must we
  int first = static_cast<int>(exact::sum(exact::sum(centre, -half_width), 0.5));
  int end = static_cast<int>(exact::sum(exact::sum(centre, half_width), 0.5));
  // NOLINTEND(bugprone-incorrect-roundings)
  if (first < 0) first = 0;
  if (end > in) end = in;
  const double inverse = exact::quotient(1.0, half_width);
  double sum = 0;
  for (int x = first; x < end; ++x) {
    sum = exact::sum(sum, pil_detail::height(x, centre, inverse));
  }
  for (int x = first; x < end; ++x) {
    double weight = pil_detail::height(x, centre, inverse);
    if (sum != 0.0) weight = exact::quotient(weight, sum);
    // NOLINTNEXTLINE(bugprone-incorrect-roundings): as above
    weights[x - first] = static_cast<std::int32_t>(
        exact::sum(0.5, exact::product(weight, static_cast<double>(1 << kPilFractionBits))));
  }
  return {first, end - first};
}

/// A filter's sum, which starts at kPilHalf, as a byte. All weights are positive and their sum is
/// 1, so that only rounding can reach past 255.
HDFNET_HOST_DEVICE inline unsigned char pil_byte(std::int32_t sum) {
  const std::int32_t level = sum >> kPilFractionBits;
  return static_cast<unsigned char>(level < 255 ? level : 255);
}

/// One output: inputs `step` bytes apart, the first of them at `from`.
HDFNET_HOST_DEVICE inline unsigned char pil_sample(const unsigned char* from, std::ptrdiff_t step,
                                                   const std::int32_t* weights, int count) {
  std::int32_t sum = kPilHalf;
  for (int k = 0; k < count; ++k) sum += from[k * step] * weights[k];
  return pil_byte(sum);
}

}  // namespace hdfnet::app
