#include "frame.h"

#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "image/channels.h"
#include "image/raw_depth.h"
#include "options/values.h"

namespace hdfnet {
namespace {

std::string found(const cv::Mat& image) {
  if (image.empty()) return "found an empty one (did the file open?)";
  return "found " + cv::typeToString(image.type()) + " of " + std::to_string(image.dims) +
         " dimensions";
}

void check_pixels(const cv::Mat& image, const char* name) {
  if (static_cast<std::int64_t>(image.rows) * image.cols > app::kMaxPixels) {
    throw app::ValueError(std::string(name) + ": " + std::to_string(image.cols) + " x " +
                          std::to_string(image.rows) +
                          " is more than the largest picture, 2^28 "
                          "pixels.");
  }
}

/// Third, second, first channel; any type.
cv::Mat reversed(const cv::Mat& image) {
  cv::Mat result(image.size(), image.type());
  constexpr int from_to[] = {0, 2, 1, 1, 2, 0};
  cv::mixChannels(&image, 1, &result, 1, from_to, 3);
  return result;
}

}  // namespace

cv::Mat to_rgb8(const cv::Mat& picture, ChannelOrder order) {
  const int channels = picture.channels();
  const bool type = picture.depth() == CV_8U || picture.depth() == CV_16U;
  if (picture.empty() || picture.dims != 2 || !type ||
      (channels != 1 && channels != 3 && channels != 4)) {
    throw app::ValueError("rgb: expected a CV_8U or CV_16U Mat of 1, 3 or 4 channels, " +
                          found(picture) + ".");
  }
  check_pixels(picture, "rgb");
  const cv::Mat image = picture.depth() == CV_16U ? app::high_bytes(picture) : picture;
  cv::Mat rgb;
  if (channels == 1) {
    cv::cvtColor(image, rgb, cv::COLOR_GRAY2RGB);
  } else if (order == ChannelOrder::bgr) {
    cv::cvtColor(image, rgb, channels == 4 ? cv::COLOR_BGRA2RGB : cv::COLOR_BGR2RGB);
  } else {
    rgb = app::drop_alpha(image);
  }
  return rgb;
}

app::RawDepth to_raw_depth(const cv::Mat& depth, ChannelOrder order, const std::string& label) {
  const int channels = depth.channels();
  const bool type = depth.depth() == CV_8U || depth.depth() == CV_16U || depth.depth() == CV_16S ||
                    depth.depth() == CV_32S || depth.depth() == CV_32F || depth.depth() == CV_64F;
  if (depth.empty() || depth.dims != 2 || !type || (channels != 1 && channels != 3)) {
    throw app::ValueError(label +
                          ": expected a CV_8U, CV_16U, CV_16S, CV_32S, CV_32F or CV_64F "
                          "Mat of one channel (or three equal ones), " +
                          found(depth) + ".");
  }
  check_pixels(depth, "depth");
  cv::Mat numbers = depth;
  if (depth.depth() == CV_64F) depth.convertTo(numbers, CV_32F);
  if (channels == 3 && order == ChannelOrder::bgr) numbers = reversed(numbers);
  app::ReadInfo info;
  const app::Source source({}, label, app::Purpose::depth, info);
  app::RawDepth raw = app::to_raw_depth(source, numbers);
  raw.info = std::move(info);
  raw.info.stored_size = depth.size();
  return raw;
}

}  // namespace hdfnet
