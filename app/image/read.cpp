#include "image/read.h"

#include <algorithm>
#include <bit>
#include <new>
#include <opencv2/core.hpp>
#include <utility>

#include "image/channels.h"
#include "image/decoders.h"
#include "image/exif.h"
#include "image/file_bytes.h"
#include "image/raw_depth.h"
#include "image/sniff.h"
#include "image/source.h"

namespace hdfnet::app {
namespace {

cv::Mat decode(const Source& source) {
  switch (source.info().format = sniff_format(source)) {
    case ImageFormat::jpeg:
      return decode_jpeg(source);
    case ImageFormat::png:
      return decode_png(source);
    case ImageFormat::bmp:
      return decode_bmp(source);
    case ImageFormat::tiff:
      return decode_tiff(source);
    case ImageFormat::webp:
      return decode_webp(source);
    case ImageFormat::pnm:
      return decode_pnm(source);
    case ImageFormat::pfm:
      return decode_pfm(source);
    case ImageFormat::exr:
      return decode_exr(source);
    case ImageFormat::npy:
      return decode_npy(source);
    case ImageFormat::unknown:
      break;
  }
  source.fail("is no image in a known format.");
}

/// Decodes and turns upright. Only ImageError leaves: no memory, or a fault inside OpenCV, fails
/// this one file.
cv::Mat decode_upright(const Source& source) {
  try {
    const cv::Mat stored = decode(source);  // finds the orientation on the way
    return apply_orientation(stored, source.info().exif_orientation);
  } catch (const std::bad_alloc&) {
    source.fail("needs more memory than there is.");
  } catch (const cv::Exception& error) {
    if (error.code == cv::Error::StsNoMem) source.fail("needs more memory than there is.");
    source.fail("cannot be decoded: " + error.err + ".");
  }
}

cv::Mat to_rgb8(const Source& source, const cv::Mat& pixels) {
  if (pixels.depth() != CV_8U && pixels.depth() != CV_16U) {
    source.fail(
        "holds floating-point or signed numbers, as depth maps do; a colour picture of 8 or 16 "
        "bits "
        "is needed here. Were RGB and depth swapped?");
  }
  const cv::Mat pixels8 = pixels.depth() == CV_16U ? high_bytes(pixels) : pixels;
  if (pixels8.channels() >= 3) return drop_alpha(pixels8);
  cv::Mat rgb(pixels8.size(), CV_8UC3);
  constexpr int kFromTo[] = {0, 0, 0, 1, 0, 2};
  cv::mixChannels(&pixels8, 1, &rgb, 1, kFromTo, 3);
  return rgb;
}

}  // namespace

void Source::set_size(std::int64_t width, std::int64_t height) const {
  const std::string size = std::to_string(width) + " x " + std::to_string(height);
  if (width <= 0 || height <= 0) fail("declares a size of " + size + " pixels: it is damaged.");
  if (width > kMaxPixels || height > kMaxPixels || width * height > kMaxPixels) {
    fail("declares a size of " + size + " pixels; the limit is " + std::to_string(kMaxPixels) +
         " pixels (2^28). Scale it down, or copy it again if it is damaged.");
  }
  info_.stored_size = cv::Size(static_cast<int>(width), static_cast<int>(height));
}

void swap_bytes(unsigned char* data, std::size_t count, std::size_t width) {
  if (width == 1) return;
  for (std::size_t i = 0; i < count; ++i) std::reverse(data + i * width, data + (i + 1) * width);
}

bool little_endian_host() {
  return std::endian::native == std::endian::little;
}

std::string_view name(ImageFormat format) {
  switch (format) {
    case ImageFormat::jpeg:
      return "JPEG";
    case ImageFormat::png:
      return "PNG";
    case ImageFormat::bmp:
      return "BMP";
    case ImageFormat::tiff:
      return "TIFF";
    case ImageFormat::webp:
      return "WebP";
    case ImageFormat::pnm:
      return "PNM";
    case ImageFormat::pfm:
      return "PFM";
    case ImageFormat::exr:
      return "OpenEXR";
    case ImageFormat::npy:
      return "NumPy";
    case ImageFormat::unknown:
      break;
  }
  return "unknown";
}

std::string supported_formats() {
  std::string formats = "JPEG, PNG, BMP, PBM/PGM/PPM, PFM, NPY";
  if (tiff_supported()) formats += ", TIFF";
  if (opencv_supports(".webp")) formats += ", WebP";
  if (opencv_supports(".exr")) formats += ", OpenEXR";
  return formats;
}

cv::Mat decode_rgb(std::span<const std::byte> bytes, std::string_view label, ReadInfo& info) {
  info = ReadInfo();
  const Source source(bytes, label, Purpose::rgb, info);
  return to_rgb8(source, decode_upright(source));
}

cv::Mat read_rgb(const std::filesystem::path& file, ReadInfo& info) {
  return decode_rgb(file_bytes(file), file.string(), info);
}

RawDepth decode_depth_raw(std::span<const std::byte> bytes, std::string_view label) {
  ReadInfo info;
  const Source source(bytes, label, Purpose::depth, info);
  RawDepth raw = to_raw_depth(source, decode_upright(source));
  raw.info = std::move(info);
  return raw;
}

RawDepth read_depth_raw(const std::filesystem::path& file) {
  return decode_depth_raw(file_bytes(file), file.string());
}

}  // namespace hdfnet::app
