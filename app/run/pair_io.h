#pragma once

#include <opencv2/core/mat.hpp>
#include <span>
#include <string>

#include "run/job.h"
#include "run/staging.h"

namespace hdfnet::app {

/// Where one pair's input goes: its planes in the batch, or, for networks that take pictures, its
/// place among those.
struct Planes {
  float* rgb = nullptr;    ///< (3,height,width)
  float* depth = nullptr;  ///< (1,height,width)
  int height = 0;          ///< of the network's input
  int width = 0;
  Staging* pictures = nullptr;  ///< then there are no planes
};

/// Puts a pair's pictures into its place: R,G,B (CV_8UC3) and depth (CV_8UC1), resized and
/// normalised, or as pictures of one size. `map`: what is wanted of a device that finishes maps.
void store_input(const cv::Mat& rgb, const cv::Mat& depth, const std::optional<LevelMap>& map,
                 const Planes& planes);

/// What is kept of a pair between reading and writing.
struct LoadedPair {
  int width = 0;  ///< of the RGB image
  int height = 0;
  cv::Mat rgb;                     ///< 8-bit RGB; empty when no output shows it
  cv::Mat small_rgb, small_depth;  ///< for the gallery; empty when it does not show this pair
};

/// In bytes.
std::size_t size_of(const LoadedPair& pair);

/// One saliency map as the network returned it, or finished.
struct MapView {
  std::span<const float> values;
  int height = 0;
  int width = 0;
  const unsigned char* levels = nullptr;  ///< (pair's height,width); then there are no values
};

/// Reading and writing of pairs; called from several threads at once. An exception is the failure
/// of that one pair. `lane` is the thread's name in the trace.
class PairIo {
 public:
  virtual ~PairIo() = default;
  virtual LoadedPair load(const Job& job, const Planes& planes, const std::string& lane,
                          PairTimes& times) = 0;
  virtual void save(const Job& job, const LoadedPair& pair, const MapView& map,
                    const std::string& lane, PairTimes& times) = 0;
};

}  // namespace hdfnet::app
