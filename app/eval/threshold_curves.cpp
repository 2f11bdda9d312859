#include "eval/threshold_curves.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "eval/pairwise_sum.h"

namespace hdfnet::eval {
namespace {

constexpr double kTiny = std::numeric_limits<double>::epsilon();

/// Pixels taken for an object, and how many there are.
struct Counts {
  std::int64_t hits = 0;          ///< taken, and object
  std::int64_t false_alarms = 0;  ///< taken, but not object
  std::int64_t objects = 0;       ///< in the mask
  std::int64_t pixels = 0;        ///< in all

  std::int64_t taken() const { return hits + false_alarms; }
};

double precision(const Counts& n) {
  return static_cast<double>(n.hits) / static_cast<double>(std::max<std::int64_t>(n.taken(), 1));
}

double recall(const Counts& n) {
  return static_cast<double>(n.hits) / static_cast<double>(std::max<std::int64_t>(n.objects, 1));
}

double f_measure(const Counts& n) {
  if (n.hits == 0) return 0;
  const double p = precision(n), r = recall(n);
  return (1 + kBetaSquared) * p * r / (kBetaSquared * p + r);
}

/// How well two deviations from their means agree, 0..1.
double alignment(double a, double b) {
  const double agreement = 2 * (a * b) / (a * a + b * b + kTiny);
  return (agreement + 1) * (agreement + 1) / 4;
}

double e_measure(const Counts& n) {
  const auto pixels = static_cast<double>(n.pixels);
  const auto taken = static_cast<double>(n.taken());
  double sum = 0;
  if (n.objects == 0) {
    sum = pixels - taken;
  } else if (n.objects == n.pixels) {
    sum = taken;
  } else {
    const double taken_share = taken / pixels;
    const double object_share = static_cast<double>(n.objects) / pixels;
    const auto hits = static_cast<double>(n.hits);
    const auto false_alarms = static_cast<double>(n.false_alarms);
    const auto misses = static_cast<double>(n.objects - n.hits);
    sum = alignment(1 - taken_share, 1 - object_share) * hits +
          alignment(1 - taken_share, -object_share) * false_alarms +
          alignment(-taken_share, 1 - object_share) * misses +
          alignment(-taken_share, -object_share) * (pixels - taken - misses);
  }
  return sum / (pixels - 1 + kTiny);
}

}  // namespace

ThresholdCurves threshold_curves(const NormalisedPair& pair) {
  const auto pixels = static_cast<std::size_t>(pair.prediction.total());
  const auto* map = pair.prediction.ptr<double>();
  const auto* mask = pair.truth.ptr<unsigned char>();

  const double mean = pairwise_sum(map, pixels) / static_cast<double>(pixels);
  const double adaptive_threshold = std::min(2 * mean, 1.0);

  Counts adaptive;
  adaptive.pixels = static_cast<std::int64_t>(pixels);
  std::array<std::int64_t, 256> object_levels{}, other_levels{};
  for (std::size_t i = 0; i < pixels; ++i) {
    const auto level = static_cast<std::size_t>(map[i] * 255);
    const bool taken = map[i] >= adaptive_threshold;
    if (mask[i] != 0) {
      ++adaptive.objects;
      ++object_levels[level];
      if (taken) ++adaptive.hits;
    } else {
      ++other_levels[level];
      if (taken) ++adaptive.false_alarms;
    }
  }

  ThresholdCurves curves;
  curves.adaptive_f = f_measure(adaptive);
  curves.adaptive_e = e_measure(adaptive);
  Counts n = adaptive;
  n.hits = n.false_alarms = 0;
  for (std::size_t i = 0; i < 256; ++i) {
    n.hits += object_levels[255 - i];
    n.false_alarms += other_levels[255 - i];
    curves.precision[i] = precision(n);
    curves.recall[i] = recall(n);
    curves.f_measure[i] = f_measure(n);
    curves.e_measure[i] = e_measure(n);
  }
  return curves;
}

}  // namespace hdfnet::eval
