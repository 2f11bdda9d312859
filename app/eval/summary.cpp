#include "eval/summary.h"

#include <algorithm>
#include <numeric>

namespace hdfnet::eval {
namespace {

template <typename Get>
double mean_of(std::span<const Scores> scores, Get get) {
  double sum = 0;
  for (const Scores& s : scores) sum += get(s);
  return sum / static_cast<double>(scores.size());
}

template <typename Get>
Curve mean_curve(std::span<const Scores> scores, Get get) {
  Curve mean{};
  for (std::size_t i = 0; i < mean.size(); ++i) {
    mean[i] = mean_of(scores, [&](const Scores& s) { return get(s.at_thresholds)[i]; });
  }
  return mean;
}

double greatest(const Curve& curve) {
  return *std::max_element(curve.begin(), curve.end());
}

double mean(const Curve& curve) {
  return std::accumulate(curve.begin(), curve.end(), 0.0) / static_cast<double>(curve.size());
}

}  // namespace

Summary summarise(std::span<const Scores> scores) {
  Summary s;
  s.mae = mean_of(scores, [](const Scores& one) { return one.mae; });
  s.structure = mean_of(scores, [](const Scores& one) { return one.structure; });
  s.weighted_f = mean_of(scores, [](const Scores& one) { return one.weighted_f; });
  s.adaptive_f = mean_of(scores, [](const Scores& one) { return one.at_thresholds.adaptive_f; });
  s.adaptive_e = mean_of(scores, [](const Scores& one) { return one.at_thresholds.adaptive_e; });
  s.precision = mean_curve(
      scores, [](const ThresholdCurves& c) -> auto& { return c.precision; });
  s.recall = mean_curve(
      scores, [](const ThresholdCurves& c) -> auto& { return c.recall; });
  s.f_measure = mean_curve(
      scores, [](const ThresholdCurves& c) -> auto& { return c.f_measure; });
  s.e_measure = mean_curve(
      scores, [](const ThresholdCurves& c) -> auto& { return c.e_measure; });
  s.max_f = greatest(s.f_measure);
  s.mean_f = mean(s.f_measure);
  s.max_e = greatest(s.e_measure);
  s.mean_e = mean(s.e_measure);
  return s;
}

}  // namespace hdfnet::eval
