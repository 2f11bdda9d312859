#pragma once

#include <atomic>

#include "html/gallery.h"
#include "options/options.h"
#include "run/console.h"
#include "run/pair_io.h"
#include "timing/stage_clock.h"

namespace hdfnet::app {

/// Reads pairs from image files and writes results as PNG files, as the options say.
class PairFiles final : public PairIo {
 public:
  /// `gallery` takes small pictures of the pairs; null: none are made.
  PairFiles(const Options& options, Console& console, StageClock& clock,
            Gallery* gallery = nullptr);

  LoadedPair load(const Job& job, const Planes& planes, const std::string& lane,
                  PairTimes& times) override;
  void save(const Job& job, const LoadedPair& pair, const MapView& map, const std::string& lane,
            PairTimes& times) override;

 private:
  void say_scaling(const std::string& file, double low, double high);

  const Options& options_;
  Console& console_;
  StageClock& clock_;
  Gallery* const gallery_;
  const bool keep_rgb_;
  const MapStyle style_;
  std::atomic<bool> scaling_said_{false};
};

}  // namespace hdfnet::app
