#include "eval/nearest_object.h"

#include <cassert>

namespace hdfnet::eval {
namespace {

constexpr int kNone = -1;

std::int64_t squared(std::int64_t value) {
  return value * value;
}

/// For each pixel the row of the nearest object pixel in its column, kNone where the column has
/// none; the upper one of two.
std::vector<int> nearest_in_column(const cv::Mat& mask) {
  const int width = mask.cols, height = mask.rows;
  std::vector<int> row(mask.total(), kNone);
  const auto at = [&](int y, int x) -> int& {
    return row[static_cast<std::size_t>(y) * width + static_cast<std::size_t>(x)];
  };
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      if (mask.at<unsigned char>(y, x) != 0) {
        at(y, x) = y;
      } else if (y > 0) {
        at(y, x) = at(y - 1, x);
      }
    }
  }
  for (int y = height - 2; y >= 0; --y) {
    for (int x = 0; x < width; ++x) {
      const int below = at(y + 1, x);
      if (below == kNone || below <= y) continue;
      int& best = at(y, x);
      if (best == kNone || below - y < y - best) best = below;
    }
  }
  return row;
}

/// The columns whose object pixels are nearest somewhere in a row, and from which x on each is.
class Envelope {
 public:
  /// `rows`: one line of nearest_in_column, `y` its row.
  Envelope(const int* rows, int width, int y) : rows_(rows), y_(y) {
    for (int x = 0; x < width; ++x) {
      if (rows_[x] != kNone) add(x, width);
    }
  }

  /// Calls visit(x, column) for every x, from right to left.
  template <typename Visit>
  void for_each(int width, Visit visit) const {
    std::size_t part = columns_.size() - 1;
    for (int x = width - 1; x >= 0; --x) {
      visit(x, columns_[part]);
      if (x == starts_[part] && part > 0) --part;
    }
  }

 private:
  std::int64_t height_of(int column) const { return squared(rows_[column] - y_); }
  std::int64_t distance(int x, int column) const { return squared(x - column) + height_of(column); }

  void add(int column, int width) {
    while (!columns_.empty() &&
           distance(starts_.back(), columns_.back()) > distance(starts_.back(), column)) {
      columns_.pop_back();
      starts_.pop_back();
    }
    int start = 0;
    if (!columns_.empty()) {
      // The first x at which the new column is truly nearer than the last one.
      const std::int64_t last = columns_.back();
      const std::int64_t border =
          (squared(column) - squared(last) + height_of(column) - height_of(columns_.back())) /
          (2 * (column - last));
      if (border + 1 >= width) return;
      start = static_cast<int>(border + 1);
    }
    columns_.push_back(column);
    starts_.push_back(start);
  }

  const int* rows_;
  int y_;
  std::vector<int> columns_;
  std::vector<int> starts_;
};

}  // namespace

std::vector<NearestObject> nearest_object(const cv::Mat& mask) {
  const int width = mask.cols;
  const std::vector<int> rows = nearest_in_column(mask);
  std::vector<NearestObject> nearest(mask.total());
  for (int y = 0; y < mask.rows; ++y) {
    const std::size_t line = static_cast<std::size_t>(y) * width;
    const Envelope envelope(&rows[line], width, y);
    envelope.for_each(width, [&](int x, int column) {
      const int row = rows[line + column];
      nearest[line + x] = {column, row, squared(x - column) + squared(row - y)};
    });
  }
  return nearest;
}

}  // namespace hdfnet::eval
