#include "run/console.h"

#include "text/printable.h"

namespace hdfnet::app {
namespace {

constexpr const char* erase_line = "\r\033[K";

/// A message for the terminal; line breaks are the only control characters that pass.
std::string message_text(const std::string& message) {
  std::string text;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = message.find('\n', begin);
    text += printable(message.substr(begin, end - begin)) + "\n";
    if (end == std::string::npos) return text;
    begin = end + 1;
  }
}

}  // namespace

Console::Console(std::ostream& stream, bool terminal, bool quiet)
    : stream_(stream), terminal_(terminal), quiet_(quiet) {}

void Console::info(const std::string& message) {
  if (!quiet_) print(message_text(message));
}

void Console::warning(const std::string& message) {
  print("warning: " + message_text(message));
}

void Console::error(const std::string& message) {
  print("error: " + message_text(message));
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
