#pragma once

#include <span>

#include "eval/metrics.h"

namespace hdfnet::eval {

/// Means over a data set. Maximum and mean over thresholds are taken from the mean curve, as the
/// benchmarks do: one threshold for all images.
struct Summary {
  double mae = 0;
  double structure = 0;
  double weighted_f = 0;
  double max_f = 0, mean_f = 0, adaptive_f = 0;
  double max_e = 0, mean_e = 0, adaptive_e = 0;
  Curve precision{}, recall{}, f_measure{}, e_measure{};
};

/// `scores` must not be empty. The order does not matter beyond rounding.
Summary summarise(std::span<const Scores> scores);

/// The same for one image, whose maximum and mean are those of its own curve.
inline Summary summarise(const Scores& scores) {
  return summarise(std::span(&scores, 1));
}

}  // namespace hdfnet::eval
