#include "eval/normalised_pair.h"

#include <opencv2/core.hpp>
#include <stdexcept>
#include <string>

namespace hdfnet::eval {
namespace {

std::string size_of(const cv::Mat& image) {
  return std::to_string(image.cols) + "x" + std::to_string(image.rows);
}

/// The greatest number of the type: 255 or 65535.
double white(const cv::Mat& image, const char* what) {
  if (image.type() == CV_8UC1) return 255;
  if (image.type() == CV_16UC1) return 65535;
  throw std::invalid_argument(std::string(what) + " must be grey with 8 or 16 bits");
}

}  // namespace

NormalisedPair normalise(const cv::Mat& prediction, const cv::Mat& truth) {
  const double prediction_white = white(prediction, "the saliency map");
  const double truth_white = white(truth, "the true mask");
  if (prediction.size() != truth.size()) {
    throw std::invalid_argument("the saliency map is " + size_of(prediction) +
                                ", but the true mask is " + size_of(truth));
  }
  if (prediction.empty()) throw std::invalid_argument("the saliency map is empty");

  NormalisedPair pair;
  cv::compare(truth, 128.0 * truth_white / 255.0, pair.truth, cv::CMP_GT);
  pair.truth &= 1;

  double least = 0, greatest = 0;
  cv::minMaxLoc(prediction, &least, &greatest);
  least /= prediction_white;
  greatest /= prediction_white;
  const double range = greatest - least;
  prediction.convertTo(pair.prediction, CV_64F);
  for (double& value : cv::Mat_<double>(pair.prediction)) {
    value /= prediction_white;
    if (range != 0) value = (value - least) / range;
  }
  return pair;
}

}  // namespace hdfnet::eval
