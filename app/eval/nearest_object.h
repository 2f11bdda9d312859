#pragma once

#include <cstdint>
#include <opencv2/core/mat.hpp>
#include <vector>

namespace hdfnet::eval {

/// The object pixel nearest to a pixel.
struct NearestObject {
  int x = 0;
  int y = 0;
  std::int64_t squared_distance = 0;
};

/// For each pixel of the mask (CV_8UC1, row by row) the nearest one that is not 0; of several at
/// the same distance the leftmost, and of these the uppermost. The mask must have an object pixel.
///
/// Exact Euclidean distances in time linear in the number of pixels (Meijster, Roerdink, Hesselink
/// 2000): nearest in the column first, then the lower envelope of parabolas along each row.
std::vector<NearestObject> nearest_object(const cv::Mat& mask);

}  // namespace hdfnet::eval
