#pragma once

#include <sched.h>

#include <algorithm>
#include <thread>

namespace hdfnet::app {

/// The cores that this process may run on. Slurm, mpirun and taskset give it fewer than the machine
/// has, which std::thread::hardware_concurrency() does not see.
inline int usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // Fails on machines of more than CPU_SETSIZE (1024) processors.
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
}

}  // namespace hdfnet::app
