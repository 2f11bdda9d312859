#include "image/raw_depth.h"

#include <algorithm>
#include <cstring>
#include <opencv2/core.hpp>
#include <string>

#include "image/channels.h"
#include "image/pil.h"

namespace hdfnet::app {
namespace {

cv::Mat channel(const cv::Mat& image, int index) {
  cv::Mat one;
  cv::extractChannel(image, one, index);
  return one;
}

/// 0 where alpha is 0. Empty when no pixel or every pixel is transparent: then alpha says nothing.
cv::Mat mask_from_alpha(const Source& source, const cv::Mat& alpha) {
  const cv::Mat valid = alpha != 0;
  const int visible = cv::countNonZero(valid);
  if (visible == 0) source.warn("is transparent everywhere; its alpha is ignored.");
  return visible == 0 || static_cast<std::size_t>(visible) == valid.total() ? cv::Mat() : valid;
}

/// Byte for byte, so that NaN equals NaN.
bool channels_equal(const cv::Mat& image) {
  const std::size_t one = image.elemSize1();
  for (int y = 0; y < image.rows; ++y) {
    const unsigned char* pixel = image.ptr(y);
    for (int x = 0; x < image.cols; ++x, pixel += image.elemSize()) {
      // The second and third channel against the first and second.
      if (std::memcmp(pixel, pixel + one, 2 * one) != 0) return false;
    }
  }
  return true;
}

/// Mean difference of the largest and the smallest channel of a pixel.
double mean_spread(const cv::Mat& rgb) {
  double sum = 0;
  for (int y = 0; y < rgb.rows; ++y) {
    const auto* pixel = rgb.ptr<cv::Vec3b>(y);
    for (int x = 0; x < rgb.cols; ++x) {
      const auto [least, most] = std::minmax({pixel[x][0], pixel[x][1], pixel[x][2]});
      sum += most - least;
    }
  }
  return sum / static_cast<double>(rgb.total());
}

cv::Mat grey_of_colours(const Source& source, const cv::Mat& colours) {
  if (colours.depth() != CV_8U && colours.depth() != CV_16U) {
    source.fail(
        "has three differing channels of numbers, which are no depth map (perhaps coordinates or "
        "normals): export the depth as one channel.");
  }
  cv::Mat rgb8 = colours;
  if (colours.depth() == CV_16U) rgb8 = high_bytes(colours);
  // Chroma of a grey picture that went through JPEG.
  constexpr double kChromaNoise = 6;
  const bool noise = source.info().format == ImageFormat::jpeg && mean_spread(rgb8) <= kChromaNoise;
  if (!noise) {
    source.warn(
        "has colour channels that differ, so it is a colour map (JET or the like) or packed bytes "
        "rather than plain depth; its grey value is used and the result is doubtful. Export the "
        "depth as one channel.");
  }
  return pil_grey(rgb8);
}

}  // namespace

RawDepth to_raw_depth(const Source& source, const cv::Mat& pixels) {
  RawDepth raw;
  const int channels = pixels.channels();
  if (channels == 2 || channels == 4) {
    raw.valid = mask_from_alpha(source, channel(pixels, channels - 1));
  }
  if (channels <= 2) {
    raw.values = channels == 1 ? pixels : channel(pixels, 0);
  } else if (cv::Mat colours = drop_alpha(pixels); channels_equal(colours)) {
    raw.values = channel(colours, 0);
  } else {
    raw.values = grey_of_colours(source, colours);
  }
  return raw;
}

}  // namespace hdfnet::app
