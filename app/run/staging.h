#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <opencv2/core/mat.hpp>
#include <optional>

#include "network.h"

namespace hdfnet::app {

/// Memory that a network reads fast; the argument counts floats.
using Allocate = std::function<std::shared_ptr<float[]>(std::size_t)>;

/// Largest picture that goes to the device as it is, in pixels: 1920 x 1080 is below it. A larger
/// one is resized on the host, so that a batch stays below 8 MB a pair in either memory.
inline constexpr std::size_t kMostStagedPixels = std::size_t{1} << 21;

/// Whether pictures of that size go to the device as they are, for a network of size `network`.
/// Thin ones do not: after the first pass they would be larger.
bool goes_as_it_is(cv::Size picture, cv::Size network);

/// The map that the device can finish: 8 bits deep, resized bilinearly, not too large. Everything
/// else is made on the host.
std::optional<LevelMap> finished_on_device(cv::Size picture, const MapStyle& style);

/// One pair's pictures on their way to a network that takes them. The memory is used again for
/// later pairs.
class Staging {
 public:
  void use(const Allocate& allocate) { allocate_ = allocate; }

  /// Copies the pictures: R,G,B (CV_8UC3) and depth (CV_8UC1) of one size, resized as on the host
  /// if they are large.
  void put(const cv::Mat& rgb, const cv::Mat& depth, cv::Size network,
           const std::optional<LevelMap>& map);

  const PairPictures& pictures() const { return pictures_; }
  std::size_t bytes() const { return capacity_ * sizeof(float); }

 private:
  unsigned char* memory(std::size_t bytes);

  Allocate allocate_;
  std::shared_ptr<float[]> memory_;
  std::size_t capacity_ = 0;  ///< in floats
  PairPictures pictures_;
};

}  // namespace hdfnet::app
