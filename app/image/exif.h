#pragma once

#include <cstddef>
#include <opencv2/core/mat.hpp>
#include <span>

namespace hdfnet::app {

/// The orientation (1..8) that an EXIF block states in its first directory, or 0: none, an illegal
/// value, or a block that cannot be read. `exif` starts at the TIFF header, or at "Exif\0\0" before
/// it. The thumbnail's directory is not looked at.
int exif_orientation(std::span<const unsigned char> exif);

/// The picture as it is to be seen. `orientation` as in EXIF; 0 and 1 return the same data.
cv::Mat apply_orientation(const cv::Mat& image, int orientation);

}  // namespace hdfnet::app
