#include "run/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace hdfnet::app {
namespace {

using namespace std::chrono_literals;

constexpr auto redraw_interval = 100ms;
constexpr auto plain_interval = 10s;
constexpr std::size_t bar_width = 24;

std::string bar(std::size_t done, std::size_t total) {
  const std::size_t filled = bar_width * done / std::max<std::size_t>(total, 1);
  return "[" + std::string(filled, '#') + std::string(bar_width - filled, '.') + "]";
}

std::string fixed(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

}  // namespace

std::string clock_text(double seconds) {
  const long whole = std::lround(std::max(seconds, 0.0));
  char text[48];
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%ld:%02ld", whole / 60, whole % 60);
  }
  return text;
}

Progress::Progress(Console& console, std::size_t total)
    : console_(console), total_(total), start_(Clock::now()), shown_(start_) {}

Progress::~Progress() {
  console_.status("");
}

std::string Progress::line(Clock::time_point now) const {
  std::string text = std::to_string(done_) + "/" + std::to_string(total_);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  if (seconds > 0 && done_ > 0) {
    const double rate = static_cast<double>(done_) / seconds;
    text += "  " + fixed(rate, rate < 10 ? 2 : 0) + " pairs/s";
    text += "  " + clock_text(static_cast<double>(total_ - done_) / rate) + " left";
  }
  if (failed_ > 0) text += "  " + std::to_string(failed_) + " failed";
  return text;
}

void Progress::advance(bool failed, Clock::time_point now) {
  ++done_;
  failed_ += failed ? 1 : 0;
  const bool last = done_ == total_;
  if (console_.terminal()) {
    if (!last && now - shown_ < redraw_interval) return;
    console_.status(bar(done_, total_) + " " + line(now));
  } else {
    if (last || now - shown_ < plain_interval) return;  // the summary follows the last pair
    console_.info(line(now));
  }
  shown_ = now;
}

}  // namespace hdfnet::app
