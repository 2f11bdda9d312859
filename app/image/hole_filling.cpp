#include "image/hole_filling.h"

#include <algorithm>
#include <opencv2/core.hpp>
#include <vector>

namespace hdfnet::app {
namespace {

/// Fills one row; false when it has no valid pixel.
bool fill_row(unsigned char* depth, const unsigned char* valid, int columns) {
  int last = -1;  // the nearest valid pixel to the left
  for (int x = 0; x < columns; ++x) {
    if (!valid[x]) continue;
    const unsigned char level = last < 0 ? depth[x] : std::max(depth[last], depth[x]);
    std::fill(depth + last + 1, depth + x, level);
    last = x;
  }
  if (last < 0) return false;
  std::fill(depth + last + 1, depth + columns, depth[last]);
  return true;
}

}  // namespace

void fill_holes(cv::Mat& depth, const cv::Mat& valid) {
  std::vector<int> filled;  // rows, ascending
  for (int y = 0; y < depth.rows; ++y) {
    if (fill_row(depth.ptr(y), valid.ptr(y), depth.cols)) filled.push_back(y);
  }
  CV_Assert(!filled.empty());
  std::size_t next = 0;
  for (int y = 0; y < depth.rows; ++y) {
    // Move on while the following filled row is at least as near.
    while (next + 1 < filled.size() &&
           std::abs(filled[next + 1] - y) <= std::abs(filled[next] - y)) {
      ++next;
    }
    if (filled[next] != y) depth.row(filled[next]).copyTo(depth.row(y));
  }
}

}  // namespace hdfnet::app
