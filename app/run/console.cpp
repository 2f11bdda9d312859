#include "run/console.h"

#include "text/printable.h"

namespace hdfnet::app {
namespace {

constexpr const char* erase_line = "\r\033[K";

}  // namespace

Console::Console(std::ostream& stream, bool terminal, bool quiet)
    : stream_(stream), terminal_(terminal), quiet_(quiet) {}

void Console::info(const std::string& message) {
  if (!quiet_) print(printable(message) + "\n");
}

void Console::warning(const std::string& message) {
  print("warning: " + printable(message) + "\n");
}

void Console::error(const std::string& message) {
  print("error: " + printable(message) + "\n");
}

void Console::info_once(const std::string& message) {
  {
    const std::lock_guard lock(mutex_);
    if (!said_.insert(message).second) return;
  }
  info(message);
}

void Console::text(const std::string& block) {
  print(block);
}

void Console::print(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (!status_.empty()) stream_ << erase_line;
  stream_ << line << status_ << std::flush;
}

void Console::status(const std::string& line) {
  if (!terminal_ || quiet_) return;
  const std::lock_guard lock(mutex_);
  if (status_.empty() && line.empty()) return;
  status_ = line;
  stream_ << erase_line << status_ << std::flush;
}

}  // namespace hdfnet::app
