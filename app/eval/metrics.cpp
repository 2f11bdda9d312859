#include "eval/metrics.h"

#include <opencv2/core.hpp>

#include "eval/normalised_pair.h"
#include "eval/structure_measure.h"
#include "eval/weighted_f_measure.h"

namespace hdfnet::eval {

Scores score(const cv::Mat& prediction, const cv::Mat& truth) {
  const NormalisedPair pair = normalise(prediction, truth);
  Scores scores;
  scores.mae = cv::norm(pair.prediction, cv::Mat_<double>(pair.truth), cv::NORM_L1) /
               static_cast<double>(pair.prediction.total());
  scores.structure = structure_measure(pair);
  scores.weighted_f = weighted_f_measure(pair);
  scores.at_thresholds = threshold_curves(pair);
  return scores;
}

}  // namespace hdfnet::eval
