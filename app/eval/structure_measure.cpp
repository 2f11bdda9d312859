#include "eval/structure_measure.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <opencv2/core.hpp>
#include <vector>

#include "eval/pairwise_sum.h"

namespace hdfnet::eval {
namespace {

constexpr double kTiny = std::numeric_limits<double>::epsilon();

double sum(const std::vector<double>& values) {
  return pairwise_sum(values.data(), values.size());
}

/// How bright and even the values are: 1 when all are 1.
double evenness(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = sum(values) / n;
  double deviation = 0;
  if (values.size() > 1) {
    std::vector<double> squares(values.size());
    std::transform(values.begin(), values.end(), squares.begin(),
                   [mean](double v) { return (v - mean) * (v - mean); });
    deviation = std::sqrt(sum(squares) / (n - 1));
  }
  return 2 * mean / (mean * mean + 1 + deviation + kTiny);
}

/// Of the object and of the background, weighted by their areas.
double object_score(const NormalisedPair& pair) {
  std::vector<double> object, background;
  const auto* map = pair.prediction.ptr<double>();
  const auto* mask = pair.truth.ptr<unsigned char>();
  for (std::size_t i = 0; i < pair.prediction.total(); ++i) {
    if (mask[i] != 0) {
      object.push_back(map[i]);
    } else {
      background.push_back(1 - map[i]);
    }
  }
  const double share =
      static_cast<double>(object.size()) / static_cast<double>(pair.prediction.total());
  return evenness(object) * share + evenness(background) * (1 - share);
}

/// Mean of a flat quadrant without the rounding error that would make it look uneven.
double mean_of(const std::vector<double>& values) {
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  return *least == *greatest ? *least : sum(values) / static_cast<double>(values.size());
}

/// Structural similarity of map and mask within one quadrant.
double similarity(const cv::Mat_<double>& map, const cv::Mat_<unsigned char>& mask) {
  const std::vector<double> values(map.begin(), map.end());
  const double map_mean = mean_of(values);
  const auto n = static_cast<double>(values.size());
  const double mask_mean = static_cast<double>(cv::countNonZero(mask)) / n;
  std::vector<double> map_squares, mask_squares, products;
  auto object = mask.begin();
  for (const double value : values) {
    const double a = value - map_mean, b = *object++ - mask_mean;
    map_squares.push_back(a * a);
    mask_squares.push_back(b * b);
    products.push_back(a * b);
  }
  const double divisor = n - 1 + kTiny;
  const double map_variance = sum(map_squares) / divisor;
  const double mask_variance = sum(mask_squares) / divisor;
  const double covariance = sum(products) / divisor;
  const double upper = 4 * map_mean * mask_mean * covariance;
  const double lower =
      (map_mean * map_mean + mask_mean * mask_mean) * (map_variance + mask_variance);
  if (upper != 0) return upper / (lower + kTiny);
  return lower == 0 ? 1 : 0;
}

/// The last row and column that belong to the upper left quadrant: the centre of mass of the
/// object.
cv::Point centre(const cv::Mat& mask) {
  std::int64_t count = 0, x_sum = 0, y_sum = 0;
  for (int y = 0; y < mask.rows; ++y) {
    for (int x = 0; x < mask.cols; ++x) {
      if (mask.at<unsigned char>(y, x) == 0) continue;
      ++count;
      x_sum += x;
      y_sum += y;
    }
  }
  const auto n = static_cast<double>(count);
  // Halves go to the even neighbour.
  return {static_cast<int>(std::nearbyint(static_cast<double>(x_sum) / n)),
          static_cast<int>(std::nearbyint(static_cast<double>(y_sum) / n))};
}

double region_score(const NormalisedPair& pair) {
  const cv::Point middle = centre(pair.truth);
  const int width = pair.truth.cols, height = pair.truth.rows;
  const int left = middle.x + 1, top = middle.y + 1;
  const cv::Rect quadrants[] = {{0, 0, left, top},
                                {left, 0, width - left, top},
                                {0, top, left, height - top},
                                {left, top, width - left, height - top}};
  double score = 0;
  for (const cv::Rect& quadrant : quadrants) {
    // With the centre in the last row or column a quadrant has no pixel, and no say.
    if (quadrant.empty()) continue;
    score += similarity(pair.prediction(quadrant), pair.truth(quadrant)) *
             (static_cast<double>(quadrant.area()) / static_cast<double>(pair.truth.total()));
  }
  return score;
}

}  // namespace

double structure_measure(const NormalisedPair& pair) {
  const auto pixels = static_cast<std::size_t>(pair.prediction.total());
  const auto objects = static_cast<std::size_t>(cv::countNonZero(pair.truth));
  const double mean =
      pairwise_sum(pair.prediction.ptr<double>(), pixels) / static_cast<double>(pixels);
  if (objects == 0) return 1 - mean;
  if (objects == pixels) return mean;
  return std::max(0.0, 0.5 * object_score(pair) + 0.5 * region_score(pair));
}

}  // namespace hdfnet::eval
