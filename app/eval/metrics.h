#pragma once

#include <opencv2/core/mat.hpp>

#include "eval/threshold_curves.h"

namespace hdfnet::eval {

/// Every metric of one saliency map against the true mask. All but the MAE are better when higher.
struct Scores {
  double mae = 0;                 ///< mean absolute error
  double structure = 0;           ///< S-measure
  double weighted_f = 0;          ///< weighted F-measure
  ThresholdCurves at_thresholds;  ///< precision, recall, F- and E-measure
};

/// The definitions, and so the numbers, are those of the field's usual toolbox PySODMetrics.
/// `prediction` and `truth`: as normalise() takes them, and with its errors.
Scores score(const cv::Mat& prediction, const cv::Mat& truth);

}  // namespace hdfnet::eval
