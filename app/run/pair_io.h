#pragma once

#include <opencv2/core/mat.hpp>
#include <span>
#include <string>

#include "run/job.h"

namespace hdfnet::app {

/// Where one pair's input goes: its planes in the batch.
struct Planes {
  float* rgb = nullptr;    ///< (3,height,width)
  float* depth = nullptr;  ///< (1,height,width)
  int height = 0;
  int width = 0;
};

/// What is kept of a pair between reading and writing.
struct LoadedPair {
  int width = 0;  ///< of the RGB image
  int height = 0;
  cv::Mat rgb;                     ///< 8-bit RGB; empty when no output shows it
  cv::Mat small_rgb, small_depth;  ///< for the gallery; empty when it does not show this pair
};

/// One saliency map as the network returned it.
struct MapView {
  std::span<const float> values;
  int height = 0;
  int width = 0;
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
