#pragma once

#include <cstddef>
#include <opencv2/core/mat.hpp>
#include <vector>

namespace hdfnet::app {

/// PNG bytes of an 8-bit grey image, CV_8UC1; of encode_png().
std::vector<std::byte> encode_grey_png(const cv::Mat& grey, int compression);

}  // namespace hdfnet::app
