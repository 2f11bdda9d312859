#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

namespace hdfnet::app {

/// The steps of a pair's way through the program, in order; and the steps before it.
enum class Stage {
  decode,
  preprocess,
  copy_in,
  device_preprocess,
  network,
  device_postprocess,
  copy_out,
  postprocess,
  encode,
  load,    ///< weights, device and networks
  warm_up  ///< of a network, while the first pairs are read
};
/// Those of a pair.
inline constexpr std::array all_stages{
    Stage::decode,  Stage::preprocess,         Stage::copy_in,  Stage::device_preprocess,
    Stage::network, Stage::device_postprocess, Stage::copy_out, Stage::postprocess,
    Stage::encode};
const char* name(Stage stage);

/// One stage of one pair or batch, as it happened.
struct StageEvent {
  Stage stage = Stage::decode;
  double start_ms = 0;  ///< since the clock was made
  double duration_ms = 0;
  std::string what;  ///< pair, or batch
};

/// Records stages of several threads. Without `keep` it only measures, and memory stays flat
/// however long the run.
class StageClock {
 public:
  using Clock = std::chrono::steady_clock;

  explicit StageClock(bool keep) : keep_(keep), origin_(Clock::now()) {}

  /// Adds [begin, end) to the lane (a thread's row in the trace) and returns its milliseconds.
  double add(const std::string& lane, Stage stage, const std::string& what, Clock::time_point begin,
             Clock::time_point end);

  struct Lane {
    std::string name;
    std::vector<StageEvent> events;
  };
  /// All lanes, in order of their names. For after the run.
  std::vector<Lane> lanes() const;

  /// Milliseconds of every event of that stage.
  std::vector<double> durations(Stage stage) const;

  Clock::time_point origin() const { return origin_; }

 private:
  const bool keep_;
  const Clock::time_point origin_;
  mutable std::mutex mutex_;
  std::vector<Lane> lanes_;
};

/// Measures one stage from its construction to stop().
class StageTimer {
 public:
  StageTimer(StageClock& clock, std::string lane, Stage stage, std::string what)
      : clock_(clock), lane_(std::move(lane)), stage_(stage), what_(std::move(what)) {}

  /// Ends the stage; returns its milliseconds.
  double stop() { return clock_.add(lane_, stage_, what_, begin_, StageClock::Clock::now()); }

 private:
  StageClock& clock_;
  const std::string lane_;
  const Stage stage_;
  const std::string what_;
  const StageClock::Clock::time_point begin_ = StageClock::Clock::now();
};

}  // namespace hdfnet::app
