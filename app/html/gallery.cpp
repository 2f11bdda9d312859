#include "html/gallery.h"

#include <algorithm>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <vector>

#include "html/encoding.h"
#include "image/pil.h"
#include "image/saliency_output.h"

namespace hdfnet::app {
namespace {

constexpr int longest_side = 200;

std::string jpeg_address(const cv::Mat& picture) {
  cv::Mat stored = picture;
  if (picture.channels() == 3) cv::cvtColor(picture, stored, cv::COLOR_RGB2BGR);
  std::vector<unsigned char> bytes;
  cv::imencode(".jpg", stored, bytes, {cv::IMWRITE_JPEG_QUALITY, 80});
  return "data:image/jpeg;base64," + base64(bytes);
}

}  // namespace

cv::Mat shrink(const cv::Mat& picture) {
  const int longer = std::max(picture.cols, picture.rows);
  if (longer <= longest_side) return picture.clone();
  const auto scaled = [longer](int side) { return std::max(1, side * longest_side / longer); };
  return pil_resize_bilinear(picture, {scaled(picture.cols), scaled(picture.rows)});
}

Thumbnails make_thumbnails(const cv::Mat& rgb, const cv::Mat& depth, const cv::Mat& map) {
  cv::Mat map8 = map;
  if (map.depth() == CV_16U) map.convertTo(map8, CV_8U, 1.0 / 257);
  map8 = pil_resize_bilinear(map8, rgb.size());
  return {jpeg_address(rgb), jpeg_address(depth), jpeg_address(map8),
          jpeg_address(overlay(rgb, map8)), cv::mean(map8)[0] / 255};
}

void Gallery::add(const std::string& name, Thumbnails thumbnails) {
  const std::lock_guard lock(mutex_);
  thumbnails_[name] = std::move(thumbnails);
}

std::optional<Thumbnails> Gallery::take(const std::string& name) {
  const std::lock_guard lock(mutex_);
  auto node = thumbnails_.extract(name);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

}  // namespace hdfnet::app
