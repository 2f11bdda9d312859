#pragma once

#include <opencv2/core/mat.hpp>

namespace hdfnet::eval {

/// A saliency map and the true mask as every metric here takes them, of the same size.
struct NormalisedPair {
  /// CV_64FC1, continuous: the map in 0..1, stretched so that its least value is 0 and its greatest
  /// 1; a flat map stays as it is.
  cv::Mat prediction;
  /// CV_8UC1, continuous: 1 for the object, 0 elsewhere.
  cv::Mat truth;
};

/// `prediction`: CV_8UC1 or CV_16UC1. `truth`: the same types; the object is where it is above
/// 128/255 of the type's range. Throws std::invalid_argument with a sentence when a type is
/// another, a size is zero or the sizes differ.
NormalisedPair normalise(const cv::Mat& prediction, const cv::Mat& truth);

}  // namespace hdfnet::eval
