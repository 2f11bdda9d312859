#pragma once

#include <array>

#include "eval/normalised_pair.h"

namespace hdfnet::eval {

/// One value for each threshold 255, 254, ..., 0: entry i counts a pixel as object when its level
/// floor(255 * map) is at least 255 - i.
using Curve = std::array<double, 256>;

/// Weight of precision against recall in the F-measure, as the field's benchmarks use it.
inline constexpr double kBetaSquared = 0.3;

struct ThresholdCurves {
  Curve precision{};
  Curve recall{};
  Curve f_measure{};
  Curve e_measure{};
  /// At the adaptive threshold: twice the map's mean, at most 1.
  double adaptive_f = 0;
  double adaptive_e = 0;
};

/// Precision, recall and F-measure (Achanta et al., CVPR 2009) and the enhanced-alignment measure
/// (Fan et al., IJCAI 2018) of the map cut at each threshold.
///
/// Without any object pixel in the mask, precision, recall and F are 0 and E is the share of pixels
/// that are not taken for an object.
ThresholdCurves threshold_curves(const NormalisedPair& pair);

}  // namespace hdfnet::eval
