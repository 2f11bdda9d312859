#pragma once

#include <opencv2/core/mat.hpp>

#include "image/source.h"

namespace hdfnet::app {

/// One decoder a format. Each returns the pixels as stored (not yet turned): 1 channel is grey, 2
/// are grey and alpha, 3 are R,G,B, 4 are R,G,B and alpha; any Mat depth. Each fills in the size
/// and the orientation of the Source's ReadInfo, adds warnings, and throws ImageError.
cv::Mat decode_jpeg(const Source& source);
cv::Mat decode_png(const Source& source);
cv::Mat decode_bmp(const Source& source);
cv::Mat decode_tiff(const Source& source);
cv::Mat decode_webp(const Source& source);
cv::Mat decode_pnm(const Source& source);
cv::Mat decode_pfm(const Source& source);
cv::Mat decode_exr(const Source& source);
cv::Mat decode_npy(const Source& source);

/// decode_tiff is backed by libtiff in this build.
bool tiff_supported();

/// OpenCV in this build decodes files of this extension (".webp", ".exr").
bool opencv_supports(const char* extension);

/// Hands the bytes to OpenCV's own decoder; colours come back as R,G,B(,A). `bytes` may be other
/// than the source's (a picture taken out of its container).
cv::Mat decode_with_opencv(const Source& source, std::span<const std::byte> bytes);

}  // namespace hdfnet::app
