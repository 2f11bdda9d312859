#pragma once

#include <mutex>
#include <ostream>
#include <set>
#include <string>

namespace hdfnet::app {

/// The program's stderr: messages, and on a terminal a status line below them that is redrawn.
/// Safe to use from several threads.
class Console {
 public:
  /// `terminal`: the stream is one, so that the status line can be redrawn. `quiet`: only warnings
  /// and errors.
  Console(std::ostream& stream, bool terminal, bool quiet);

  void info(const std::string& message);
  void warning(const std::string& message);
  void error(const std::string& message);

  /// An information that is the same for many images: printed at its first occurrence only.
  void info_once(const std::string& message);

  /// Text as it is, for tables.
  void text(const std::string& block);

  /// Redraws the status line; an empty line removes it. Nothing unless on a terminal.
  void status(const std::string& line);

  bool terminal() const { return terminal_; }
  bool quiet() const { return quiet_; }

 private:
  void print(const std::string& line);

  std::ostream& stream_;
  const bool terminal_;
  const bool quiet_;
  std::mutex mutex_;
  std::string status_;
  std::set<std::string> said_;
};

}  // namespace hdfnet::app
