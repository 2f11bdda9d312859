#include "timing/stage_clock.h"

#include <algorithm>

namespace hdfnet::app {
namespace {

double milliseconds(StageClock::Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

const char* name(Stage stage) {
  switch (stage) {
    case Stage::decode:
      return "decode";
    case Stage::preprocess:
      return "pre-process";
    case Stage::copy_in:
      return "copy to device";
    case Stage::device_preprocess:
      return "pre-process on device";
    case Stage::network:
      return "network";
    case Stage::device_postprocess:
      return "post-process on device";
    case Stage::copy_out:
      return "copy back";
    case Stage::postprocess:
      return "post-process";
    case Stage::encode:
      return "encode";
    case Stage::load:
      return "load";
    case Stage::warm_up:
      break;
  }
  return "warm-up";
}

double StageClock::add(const std::string& lane, Stage stage, const std::string& what,
                       Clock::time_point begin, Clock::time_point end) {
  const double duration = milliseconds(end - begin);
  if (!keep_) return duration;
  const std::lock_guard lock(mutex_);
  auto found = std::find_if(lanes_.begin(), lanes_.end(),
                            [&](const Lane& candidate) { return candidate.name == lane; });
  if (found == lanes_.end()) found = lanes_.insert(lanes_.end(), Lane{lane, {}});
  found->events.push_back({stage, milliseconds(begin - origin_), duration, what});
  return duration;
}

std::vector<StageClock::Lane> StageClock::lanes() const {
  const std::lock_guard lock(mutex_);
  std::vector<Lane> sorted = lanes_;
  std::sort(sorted.begin(), sorted.end(),
            [](const Lane& a, const Lane& b) { return a.name < b.name; });
  return sorted;
}

std::vector<double> StageClock::durations(Stage stage) const {
  std::vector<double> values;
  const std::lock_guard lock(mutex_);
  for (const Lane& lane : lanes_) {
    for (const StageEvent& event : lane.events) {
      if (event.stage == stage) values.push_back(event.duration_ms);
    }
  }
  return values;
}

}  // namespace hdfnet::app
