#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <vector>

namespace hdfnet::bench {

/// Microseconds of one call: over the repeats, the median and the 5th and 95th percentile.
struct Times {
  double median, p5, p95;
};

/// Calls `work` three times unmeasured, then `repeats` times: between CUDA events on the current
/// stream, or by the monotonic clock on the CPU.
Times time_calls(c10::DeviceType device, int repeats, const std::function<void()>& work);

/// Microseconds of a single call, without any unmeasured one before it.
double time_once(c10::DeviceType device, const std::function<void()>& work);

/// Median and percentiles of times in any order; at least one.
Times summarize(std::vector<double> microseconds);

/// Bytes read and written per second by a large copy on this device.
double copy_rate(c10::DeviceType device);

/// The most device memory allocated at once while `work` ran, beyond what was allocated before. 0
/// on the CPU, where allocations are not counted.
int64_t peak_memory_of(c10::DeviceType device, const std::function<void()>& work);

}  // namespace hdfnet::bench
