#pragma once

#include <csignal>

namespace hdfnet::app {

/// While one of these lives, the first Ctrl-C (SIGINT) or SIGTERM asks the run to stop in an
/// orderly way; a second one ends the process at once, which leaves no half-written file either.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// The signal that asked to stop, 0 when none did.
  static int signal();

 private:
  struct sigaction old_interrupt_ = {};
  struct sigaction old_terminate_ = {};
};

}  // namespace hdfnet::app
