#include "run/staging.h"

#include <algorithm>
#include <opencv2/core.hpp>

#include "image/pil.h"

namespace hdfnet::app {
namespace {

bool is_small(int height, int width) {
  return static_cast<std::size_t>(height) * width <= kMostStagedPixels;
}

}  // namespace

bool goes_as_it_is(cv::Size picture, cv::Size network) {
  return is_small(picture.height, std::max(picture.width, network.width));
}

std::optional<LevelMap> finished_on_device(cv::Size picture, const MapStyle& style) {
  const bool plain = style.bit_depth == 8 && style.upsample == Upsample::bilinear;
  if (!plain || !is_small(picture.height, picture.width)) return std::nullopt;
  return LevelMap{picture.height, picture.width, style.rounding};
}

unsigned char* Staging::memory(std::size_t bytes) {
  std::size_t floats = (bytes + sizeof(float) - 1) / sizeof(float);
  if (capacity_ < floats) {
    // Half as much again: in a folder in the order of its pictures' sizes what the smaller ones
    // took of a slab stays less than what there is.
    floats = std::max(floats, std::min(capacity_ + capacity_ / 2, kMostStagedPixels));
    memory_.reset();  // before more is taken
    capacity_ = 0;
    memory_ = allocate_(floats);
    capacity_ = floats;
  }
  return reinterpret_cast<unsigned char*>(memory_.get());
}

void Staging::put(const cv::Mat& rgb, const cv::Mat& depth, cv::Size network,
                  const std::optional<LevelMap>& map) {
  const cv::Size size = goes_as_it_is(rgb.size(), network) ? rgb.size() : network;
  const std::size_t pixels = static_cast<std::size_t>(size.height) * size.width;
  unsigned char* const bytes = memory(4 * pixels);
  cv::Mat rgb_target(size, CV_8UC3, bytes);
  cv::Mat depth_target(size, CV_8UC1, bytes + 3 * pixels);
  pil_resize_bilinear(rgb, size).copyTo(rgb_target);
  pil_resize_bilinear(depth, size).copyTo(depth_target);
  pictures_ = {bytes, size.height, size.width, map};
}

}  // namespace hdfnet::app
