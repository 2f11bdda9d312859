#include "image/saliency_output.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "image/encoders.h"
#include "image/in_quotes.h"
#include "image/levels.h"
#include "image/pil.h"

namespace hdfnet::app {
namespace {

void check_map(const cv::Mat& map) {
  if (map.type() != CV_32FC1 || map.empty()) {
    throw std::invalid_argument("saliency_image: a CV_32FC1 map that is not empty is needed");
  }
  for (int y = 0; y < map.rows; ++y) {
    const auto* row = map.ptr<float>(y);
    if (!std::all_of(row, row + map.cols, [](float v) { return std::isfinite(v); })) {
      throw OutputError("the network's result holds NaN or infinite values (first in row " +
                        std::to_string(y) +
                        "), so no map is written: check the weights, or use a higher precision "
                        "(--precision fp32)");
    }
  }
}

template <typename Level>
cv::Mat quantise_to(const cv::Mat& map, float most, Rounding rounding) {
  cv::Mat levels(map.size(), cv::DataType<Level>::type);
  const float offset = level_offset(rounding);
  for (int y = 0; y < map.rows; ++y) {
    const auto* from = map.ptr<float>(y);
    auto* to = levels.ptr<Level>(y);
    for (int x = 0; x < map.cols; ++x) {
      to[x] = static_cast<Level>(scaled_level(from[x], most, offset));
    }
  }
  return levels;
}

cv::Mat quantise(const cv::Mat& map, const MapStyle& style) {
  if (style.bit_depth == 8) return quantise_to<unsigned char>(map, 255.0F, style.rounding);
  if (style.bit_depth == 16) return quantise_to<std::uint16_t>(map, 65535.0F, style.rounding);
  throw std::invalid_argument("saliency_image: the bit depth must be 8 or 16, not " +
                              std::to_string(style.bit_depth));
}

cv::Mat resized_bilinear(const cv::Mat& map, cv::Size size) {
  if (map.size() == size) return map;
  cv::Mat resized;
  cv::resize(map, resized, size, 0, 0, cv::INTER_LINEAR);
  return resized;
}

/// The level from which on Otsu's method calls a pixel salient; -1 for a flat image.
int otsu_level(const cv::Mat& saliency8) {
  double least = 0, most = 0;
  cv::minMaxIdx(saliency8, &least, &most);
  if (least == most) return -1;
  cv::Mat unused;
  return static_cast<int>(
             cv::threshold(saliency8, unused, 0, 255, cv::THRESH_BINARY | cv::THRESH_OTSU)) +
         1;
}

cv::Mat to_8bit(const cv::Mat& saliency) {
  if (saliency.depth() == CV_8U) return saliency;
  cv::Mat saliency8;
  saliency.convertTo(saliency8, CV_8U, 1.0 / 257);
  return saliency8;
}

cv::Mat bgr_from_rgb(const cv::Mat& image) {
  if (image.channels() < 3) return image;
  cv::Mat swapped;  // never the image itself, which belongs to the caller
  cv::cvtColor(image, swapped, image.channels() == 4 ? cv::COLOR_RGBA2BGRA : cv::COLOR_RGB2BGR);
  return swapped;
}

}  // namespace

cv::Mat saliency_image(const cv::Mat& map, cv::Size size, const MapStyle& style) {
  check_map(map);
  if (style.upsample == Upsample::nearest) return pil_resize_nearest(quantise(map, style), size);
  return quantise(resized_bilinear(map, size), style);
}

cv::Mat saliency_values(const cv::Mat& map, cv::Size size, Upsample upsample) {
  check_map(map);
  cv::Mat values =
      upsample == Upsample::nearest ? pil_resize_nearest(map, size) : resized_bilinear(map, size);
  cv::Mat clamped;
  cv::min(cv::max(values, 0.0), 1.0, clamped);
  return clamped;
}

Threshold parse_threshold(std::string_view text) {
  if (text == "otsu") return {true, 0};
  Threshold threshold;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), threshold.value);
  const bool number = result.ec == std::errc() && result.ptr == text.data() + text.size();
  if (!number || !(threshold.value >= 0 && threshold.value <= 1)) {
    throw std::invalid_argument(in_quotes(text) +
                                " is no threshold: a number from 0 to 1, or otsu, is needed");
  }
  return threshold;
}

cv::Mat binary_mask(const cv::Mat& saliency, const Threshold& threshold) {
  const double most = saliency.depth() == CV_16U ? 65535 : 255;
  double level = std::ceil(threshold.value * most);
  cv::Mat levels = saliency;
  if (threshold.otsu) {
    levels = to_8bit(saliency);
    const int found = otsu_level(levels);
    level = found >= 0 ? found : 128;
  }
  cv::Mat mask;
  cv::compare(levels, level, mask, cv::CMP_GE);
  return mask;
}

std::vector<std::byte> encode_png(const cv::Mat& image, int compression) {
  if (image.type() == CV_8UC1) return encode_grey_png(image, compression);
  std::vector<unsigned char> encoded;
  // OpenCV's default strategy (run lengths) is fast on flat areas but leaves photographs large.
  const int strategy =
      image.channels() == 1 ? cv::IMWRITE_PNG_STRATEGY_RLE : cv::IMWRITE_PNG_STRATEGY_DEFAULT;
  if (!cv::imencode(
          ".png", bgr_from_rgb(image), encoded,
          {cv::IMWRITE_PNG_COMPRESSION, compression, cv::IMWRITE_PNG_STRATEGY, strategy})) {
    throw OutputError("the picture cannot be encoded as PNG");
  }
  std::vector<std::byte> bytes(encoded.size());
  std::memcpy(bytes.data(), encoded.data(), encoded.size());
  return bytes;
}

}  // namespace hdfnet::app
