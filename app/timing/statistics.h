#pragma once

#include <vector>

namespace hdfnet::app {

/// Mean, spread and percentiles of a set of times; zeros for an empty one.
struct Statistics {
  std::size_t count = 0;
  double mean = 0;
  double median = 0;
  double p5 = 0;
  double p95 = 0;
  double deviation = 0;  ///< standard deviation of the sample

  double relative_spread() const { return mean > 0 ? deviation / mean : 0; }
};

Statistics summarize(std::vector<double> values);

/// The value below which the share `fraction` of the sorted values lies, linear between neighbours.
double percentile(const std::vector<double>& sorted, double fraction);

}  // namespace hdfnet::app
