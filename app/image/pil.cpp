#include "image/pil.h"

#include <algorithm>
#include <cstring>
#include <opencv2/core.hpp>
#include <stdexcept>
#include <vector>

namespace hdfnet::app {

cv::Mat pil_resize_nearest(const cv::Mat& image, cv::Size size) {
  if (image.empty() || size.width <= 0 || size.height <= 0) {
    throw std::invalid_argument("pil_resize_nearest: the image and the new size must not be empty");
  }
  // Pillow adds the step up in double rather than multiplying; where both land on a whole number
  // the last bit decides, so the same is done here.
  const auto sources = [](int in, int out) {
    const double step = static_cast<double>(in) / out;
    std::vector<int> index(static_cast<std::size_t>(out));
    double at = step * 0.5;
    for (int& i : index) {
      i = std::clamp(static_cast<int>(at), 0, in - 1);
      at += step;
    }
    return index;
  };
  const std::vector<int> columns = sources(image.cols, size.width);
  const std::vector<int> rows = sources(image.rows, size.height);
  const std::size_t bytes = image.elemSize();
  cv::Mat result(size, image.type());
  for (int y = 0; y < size.height; ++y) {
    const unsigned char* from = image.ptr(rows[static_cast<std::size_t>(y)]);
    unsigned char* to = result.ptr(y);
    for (const int column : columns) {
      std::memcpy(to, from + static_cast<std::size_t>(column) * bytes, bytes);
      to += bytes;
    }
  }
  return result;
}

cv::Mat pil_grey(const cv::Mat& rgb) {
  if (rgb.type() != CV_8UC3) {
    throw std::invalid_argument("pil_grey: an 8-bit image of three channels is needed");
  }
  cv::Mat grey(rgb.size(), CV_8UC1);
  for (int y = 0; y < rgb.rows; ++y) {
    const auto* from = rgb.ptr<cv::Vec3b>(y);
    auto* to = grey.ptr<unsigned char>(y);
    for (int x = 0; x < rgb.cols; ++x) {
      to[x] = static_cast<unsigned char>(
          (19595 * from[x][0] + 38470 * from[x][1] + 7471 * from[x][2] + 32768) >> 16);
    }
  }
  return grey;
}

}  // namespace hdfnet::app
