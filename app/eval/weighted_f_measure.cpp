#include "eval/weighted_f_measure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "eval/nearest_object.h"

namespace hdfnet::eval {
namespace {

constexpr double kTiny = std::numeric_limits<double>::epsilon();
constexpr int kWindow = 7;
constexpr double kSigma = 5;
/// The distance in pixels over which a false alarm's extra weight grows by half of what is left.
constexpr double kHalfDistance = 5;

/// 7x7 Gaussian mean; beyond the border there is no error.
cv::Mat smoothed(const cv::Mat& error) {
  const cv::Mat kernel = cv::getGaussianKernel(kWindow, kSigma, CV_64F);
  cv::Mat result;
  cv::sepFilter2D(error, result, CV_64F, kernel, kernel, {-1, -1}, 0, cv::BORDER_CONSTANT);
  return result;
}

}  // namespace

double weighted_f_measure(const NormalisedPair& pair) {
  const int objects = cv::countNonZero(pair.truth);
  if (objects == 0) return 0;

  const cv::Mat error = cv::abs(pair.prediction - cv::Mat_<double>(pair.truth));
  const std::vector<NearestObject> nearest = nearest_object(pair.truth);

  // Outside the object, the error of the nearest object pixel: so its edge is judged by itself.
  cv::Mat spread(error.size(), CV_64F);
  for (int y = 0; y < error.rows; ++y) {
    for (int x = 0; x < error.cols; ++x) {
      const NearestObject& n = nearest[static_cast<std::size_t>(y) * error.cols + x];
      spread.at<double>(y, x) = error.at<double>(n.y, n.x);
    }
  }
  const cv::Mat smooth = smoothed(spread);

  double missed = 0, false_alarms = 0;
  for (int y = 0; y < error.rows; ++y) {
    for (int x = 0; x < error.cols; ++x) {
      const double own = error.at<double>(y, x);
      if (pair.truth.at<unsigned char>(y, x) != 0) {
        missed += std::min(own, smooth.at<double>(y, x));
      } else {
        const NearestObject& n = nearest[static_cast<std::size_t>(y) * error.cols + x];
        const double distance = std::sqrt(static_cast<double>(n.squared_distance));
        false_alarms += own * (2 - std::exp(std::log(0.5) / kHalfDistance * distance));
      }
    }
  }
  const double hits = objects - missed;
  const double recall = 1 - missed / objects;
  const double precision = hits / (hits + false_alarms + kTiny);
  return 2 * recall * precision / (recall + precision + kTiny);
}

}  // namespace hdfnet::eval
