#pragma once

#include <cstddef>
#include <filesystem>
#include <opencv2/core/mat.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hdfnet::app {

/// A result that cannot be made (NaN in the map) or stored (disk full, no permission). what() is a
/// sentence that names the file or says what was found.
class OutputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Rounding {
  truncate,  ///< floor(level), as the reference does
  nearest,
};
/// What is added to a level before its fraction is cut off.
inline float level_offset(Rounding rounding) {
  return rounding == Rounding::nearest ? 0.5F : 0.0F;
}

enum class Upsample {
  nearest,   ///< quantised first, then Pillow's NEAREST: the reference's order
  bilinear,  ///< in float with half-pixel centres, then quantised
};

struct MapStyle {
  int bit_depth = 8;  ///< 8 or 16
  Rounding rounding = Rounding::nearest;
  Upsample upsample = Upsample::bilinear;
};

/// The saliency map as an image: CV_8UC1 or CV_16UC1 of `size`.
/// `map`: CV_32FC1 with values in 0..1 (rounding errors outside are clamped). Throws OutputError
/// when a value is NaN or infinite.
cv::Mat saliency_image(const cv::Mat& map, cv::Size size, const MapStyle& style);

/// The saliency map as numbers in 0..1: CV_32FC1 of `size`. Takes and throws what saliency_image
/// does.
cv::Mat saliency_values(const cv::Mat& map, cv::Size size, Upsample upsample);

/// Where a saliency map counts as an object (--threshold).
struct Threshold {
  bool otsu = false;
  double value = 0.5;  ///< in 0..1; salient is >= value
};

/// "otsu" or a number in 0..1. Throws std::invalid_argument with a sentence.
Threshold parse_threshold(std::string_view text);

/// 0 or 255 for each pixel of an 8- or 16-bit saliency image. Otsu on a flat map gives the mask
/// that 0.5 gives.
cv::Mat binary_mask(const cv::Mat& saliency, const Threshold& threshold);

/// The picture (CV_8UC3, R,G,B) with salient parts tinted and the rest dimmed. CV_8UC3, R,G,B.
cv::Mat overlay(const cv::Mat& rgb, const cv::Mat& saliency);

/// The picture with the saliency as alpha. CV_8UC4, R,G,B,A.
cv::Mat cutout(const cv::Mat& rgb, const cv::Mat& saliency);

/// The saliency as colours from dark blue to yellow (the viridis map). CV_8UC3, R,G,B.
cv::Mat heat_map(const cv::Mat& saliency);

/// PNG bytes of a grey (8/16 bit), R,G,B or R,G,B,A image. `compression`: 0..9, as in zlib.
std::vector<std::byte> encode_png(const cv::Mat& image, int compression = 3);

/// Writes the file whole or not at all: under a hidden temporary name in the same folder, then
/// renamed. Missing folders are made. What a link points to is replaced, not the link; a device or
/// pipe is written to. Throws OutputError; the temporary file is removed then.
void write_file(const std::filesystem::path& file, std::span<const std::byte> bytes);

}  // namespace hdfnet::app
