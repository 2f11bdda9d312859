#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <opencv2/core/mat.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hdfnet::app {

/// A file that cannot be used. what() is a sentence that names the file, says what was found, and
/// what to do; the other files of a run are not concerned.
class ImageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Largest picture that is decoded, in pixels (2^28, for example 16384 x 16384). The size that a
/// file's header declares is compared with it before any memory is taken, so that a few bytes
/// cannot claim gigabytes.
inline constexpr std::int64_t kMaxPixels = std::int64_t{1} << 28;

/// Largest file that is read into memory (4 GiB).
inline constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 32;

/// What the bytes are; the file's extension does not matter.
enum class ImageFormat { unknown, jpeg, png, bmp, tiff, webp, pnm, pfm, exr, npy };
std::string_view name(ImageFormat format);

/// What was found out while a file was read.
struct ReadInfo {
  ImageFormat format = ImageFormat::unknown;
  cv::Size stored_size;      ///< as stored, before the orientation was applied
  int exif_orientation = 0;  ///< 1..8 as tagged in the file; 0: no legal orientation is present
  std::vector<std::string> warnings;  ///< sentences that name the file

  /// The picture was turned by 90 degrees, so that width and height changed places.
  bool turned() const { return exif_orientation >= 5; }
};

/// Depth as stored: any numbers, upright, one channel.
struct RawDepth {
  /// CV_8UC1, CV_16UC1, CV_16SC1, CV_32SC1 or CV_32FC1. Half and double become CV_32FC1; uint32
  /// becomes CV_32SC1, or CV_32FC1 when a value does not fit.
  cv::Mat values;
  /// CV_8UC1, 0 where the file's alpha channel marks a hole; empty when it marks none.
  cv::Mat valid;
  ReadInfo info;
};

/// Reads any supported picture as 8-bit R, G, B (CV_8UC3, in this order), upright.
///
/// Equal to Pillow's ImageOps.exif_transpose + convert("RGB"): grey and palette become RGB, CMYK
/// and YCCK too, alpha is dropped (not blended), 16-bit samples keep their high byte (PNM: scaled
/// by the declared maximum). Of an animation or a multi-page file the first picture is taken, with
/// a warning. A CMYK JPEG without Adobe's marker is taken as not inverted, with a warning. Throws
/// ImageError.
cv::Mat read_rgb(const std::filesystem::path& file, ReadInfo& info);

/// The same from bytes in memory; `label` stands for the file in messages.
cv::Mat decode_rgb(std::span<const std::byte> bytes, std::string_view label, ReadInfo& info);

/// Reads a depth map with the numbers that are stored in it, upright when it has an orientation of
/// its own.
///
/// Three equal channels count as one and keep their bit depth. Differing channels become grey as
/// Pillow's convert("L") does, with a warning, because a colour map or packed bytes are no depth; a
/// JPEG's small chroma noise is let pass. Throws ImageError.
RawDepth read_depth_raw(const std::filesystem::path& file);

/// The same from bytes in memory.
RawDepth decode_depth_raw(std::span<const std::byte> bytes, std::string_view label);

/// Allows OpenCV to decode OpenEXR, which it refuses unless the environment says otherwise. To be
/// called first thing in main(), before any thread is started or OpenCV is used. A choice that the
/// user made in the environment (OPENCV_IO_ENABLE_OPENEXR) is kept.
void enable_openexr();

/// Formats that this build can read, for --version and for error messages ("JPEG, PNG, ...").
std::string supported_formats();

}  // namespace hdfnet::app
