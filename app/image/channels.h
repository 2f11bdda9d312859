#pragma once

#include <opencv2/core/mat.hpp>

namespace hdfnet::app {

/// The high byte of each 16-bit sample, which is how Pillow reduces 16-bit colours to 8 bits.
cv::Mat high_bytes(const cv::Mat& image16);

/// R,G,B of R,G,B,A; other numbers of channels are returned as they are.
cv::Mat drop_alpha(const cv::Mat& image);

/// Cyan, magenta, yellow, black (CV_8UC4, 255 = full ink) to R,G,B as Pillow's convert("RGB") does.
cv::Mat cmyk_to_rgb(const cv::Mat& cmyk);

}  // namespace hdfnet::app
