#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "run/console.h"

namespace hdfnet::app {

/// "1:05", "2:03:07".
std::string clock_text(double seconds);

/// How far the run is: a bar on a terminal, a plain line now and then elsewhere.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  Progress(Console& console, std::size_t total);
  ~Progress();

  /// One more pair is done with. Not for several threads at once.
  void advance(bool failed, Clock::time_point now = Clock::now());

  /// Rate, time left and failures, for example "12/100  3.4 pairs/s  0:26 left  1 failed".
  std::string line(Clock::time_point now) const;

 private:
  Console& console_;
  const std::size_t total_;
  const Clock::time_point start_;
  Clock::time_point shown_;
  std::size_t done_ = 0;
  std::size_t failed_ = 0;
};

}  // namespace hdfnet::app
