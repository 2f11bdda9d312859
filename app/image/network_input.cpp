#include "image/network_input.h"

#include <array>
#include <cstddef>
#include <stdexcept>

#include "image/levels.h"

namespace hdfnet::app {
namespace {

using Levels = std::array<float, 256>;

/// A byte has 256 values, so each is computed once.
Levels table_of(float (*level_of)(int)) {
  Levels levels{};
  for (std::size_t i = 0; i < levels.size(); ++i) levels[i] = level_of(static_cast<int>(i));
  return levels;
}

const std::array<Levels, 3>& rgb_levels() {
  static const std::array<Levels, 3> levels = {table_of(red_level), table_of(green_level),
                                               table_of(blue_level)};
  return levels;
}

const Levels& depth_levels() {
  static const Levels levels = table_of(depth_level);
  return levels;
}

}  // namespace

void rgb_to_planes(const cv::Mat& rgb, float* planes) {
  if (rgb.type() != CV_8UC3) {
    throw std::invalid_argument("rgb_to_planes: an 8-bit image of three channels is needed");
  }
  const auto& [red, green, blue] = rgb_levels();
  const std::size_t plane = rgb.total();
  float* to = planes;
  for (int y = 0; y < rgb.rows; ++y) {
    const unsigned char* from = rgb.ptr(y);
    for (int x = 0; x < rgb.cols; ++x, from += 3, ++to) {
      to[0] = red[from[0]];
      to[plane] = green[from[1]];
      to[2 * plane] = blue[from[2]];
    }
  }
}

void depth_to_plane(const cv::Mat& depth, float* plane) {
  if (depth.type() != CV_8UC1) {
    throw std::invalid_argument("depth_to_plane: an 8-bit image of one channel is needed");
  }
  const Levels& levels = depth_levels();
  for (int y = 0; y < depth.rows; ++y) {
    const unsigned char* from = depth.ptr(y);
    for (int x = 0; x < depth.cols; ++x) *plane++ = levels[from[x]];
  }
}

}  // namespace hdfnet::app
