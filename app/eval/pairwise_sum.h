#pragma once

#include <cstddef>

namespace hdfnet::eval {

/// The sum of n numbers, added in a tree so that the rounding error grows with log(n).
///
/// The order is NumPy's (blocks of up to 128 in eight lanes, halves above that): some metrics ask
/// whether a variance is exactly zero or compare pixels with a mean, and there the last bit
/// decides.
inline double pairwise_sum(const double* values, std::size_t n) {
  if (n < 8) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += values[i];
    return sum;
  }
  if (n <= 128) {
    double lane[8];
    for (std::size_t j = 0; j < 8; ++j) lane[j] = values[j];
    std::size_t i = 8;
    for (; i + 8 <= n; i += 8) {
      for (std::size_t j = 0; j < 8; ++j) lane[j] += values[i + j];
    }
    double sum =
        ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    for (; i < n; ++i) sum += values[i];
    return sum;
  }
  const std::size_t half = n / 2 - n / 2 % 8;
  return pairwise_sum(values, half) + pairwise_sum(values + half, n - half);
}

}  // namespace hdfnet::eval
