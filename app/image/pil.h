#pragma once

#include <opencv2/core/mat.hpp>

namespace hdfnet::app {

/// Operations that give Pillow's exact values, because the network was trained behind them.
/// All take and return 8-bit Mats and throw std::invalid_argument for other types or empty sizes.

/// Image.resize(size, BILINEAR): an antialiased triangle filter in fixed point (22 bits), rounded
/// to 8 bits between the horizontal and the vertical pass. CV_8UC1 or CV_8UC3. A size that is
/// already right returns the same data.
cv::Mat pil_resize_bilinear(const cv::Mat& image, cv::Size size);

/// Image.resize(size, NEAREST). Any type of Mat.
cv::Mat pil_resize_nearest(const cv::Mat& image, cv::Size size);

/// Image.convert("L") of R, G, B: (19595 R + 38470 G + 7471 B + 32768) >> 16.
cv::Mat pil_grey(const cv::Mat& rgb);

}  // namespace hdfnet::app
