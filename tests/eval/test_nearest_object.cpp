#include <gtest/gtest.h>

#include <opencv2/core.hpp>
#include <tuple>

#include "eval/nearest_object.h"

namespace hdfnet::eval {
namespace {

/// By looking at every object pixel, in the order that decides ties: column, then row.
NearestObject by_search(const cv::Mat& mask, int x, int y) {
  NearestObject best{0, 0, -1};
  for (int column = 0; column < mask.cols; ++column) {
    for (int row = 0; row < mask.rows; ++row) {
      if (mask.at<unsigned char>(row, column) == 0) continue;
      const std::int64_t dx = x - column, dy = y - row, distance = dx * dx + dy * dy;
      if (best.squared_distance < 0 || distance < best.squared_distance)
        best = {column, row, distance};
    }
  }
  return best;
}

void expect_exact(const cv::Mat& mask) {
  const auto nearest = nearest_object(mask);
  for (int y = 0; y < mask.rows; ++y) {
    for (int x = 0; x < mask.cols; ++x) {
      const NearestObject got = nearest[static_cast<std::size_t>(y) * mask.cols + x];
      const NearestObject want = by_search(mask, x, y);
      ASSERT_EQ(std::tie(got.x, got.y, got.squared_distance),
                std::tie(want.x, want.y, want.squared_distance))
          << "at " << x << "," << y << " of " << mask.cols << "x" << mask.rows;
    }
  }
}

TEST(NearestObject, EqualsASearchOfEveryPixel) {
  cv::RNG random(5);
  for (int i = 0; i < 200; ++i) {
    cv::Mat mask(random.uniform(1, 24), random.uniform(1, 24), CV_8U);
    const int share = random.uniform(1, 60);
    for (auto& value : cv::Mat_<unsigned char>(mask))
      value = random.uniform(0, 100) < share ? 1 : 0;
    mask.at<unsigned char>(random.uniform(0, mask.rows), random.uniform(0, mask.cols)) = 255;
    expect_exact(mask);
  }
}

TEST(NearestObject, OneObjectPixelInACorner) {
  cv::Mat mask = cv::Mat::zeros(40, 70, CV_8U);
  mask.at<unsigned char>(39, 69) = 1;
  expect_exact(mask);
}

}  // namespace
}  // namespace hdfnet::eval
