#include "timing/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hdfnet::app {

double percentile(const std::vector<double>& sorted, double fraction) {
  if (sorted.empty()) return 0;
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

Statistics summarize(std::vector<double> values) {
  Statistics result;
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  result.count = values.size();
  const auto count = static_cast<double>(values.size());
  result.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  result.median = percentile(values, 0.5);
  result.p5 = percentile(values, 0.05);
  result.p95 = percentile(values, 0.95);
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.deviation = values.size() > 1 ? std::sqrt(squares / (count - 1)) : 0;
  return result;
}

}  // namespace hdfnet::app
