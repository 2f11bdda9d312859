#pragma once

#include <opencv2/core/mat.hpp>

namespace hdfnet::app {

/// Gives every pixel of `depth` (CV_8UC1, near = dark) that is 0 in `valid` the larger (farther) of
/// the nearest valid pixels to its left and right; rows without any valid pixel copy the nearest
/// row that has some. At least one pixel must be valid.
void fill_holes(cv::Mat& depth, const cv::Mat& valid);

}  // namespace hdfnet::app
