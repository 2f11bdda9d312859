#include "image/channels.h"

#include <opencv2/core.hpp>

namespace hdfnet::app {

cv::Mat high_bytes(const cv::Mat& image16) {
  cv::Mat image8(image16.size(), CV_8UC(image16.channels()));
  const int samples = image16.cols * image16.channels();
  for (int y = 0; y < image16.rows; ++y) {
    const auto* from = image16.ptr<std::uint16_t>(y);
    auto* to = image8.ptr<unsigned char>(y);
    for (int i = 0; i < samples; ++i) to[i] = static_cast<unsigned char>(from[i] >> 8);
  }
  return image8;
}

cv::Mat drop_alpha(const cv::Mat& image) {
  if (image.channels() != 4) return image;
  cv::Mat rgb(image.size(), CV_MAKETYPE(image.depth(), 3));
  constexpr int kFromTo[] = {0, 0, 1, 1, 2, 2};
  cv::mixChannels(&image, 1, &rgb, 1, kFromTo, 3);
  return rgb;
}

cv::Mat cmyk_to_rgb(const cv::Mat& cmyk) {
  cv::Mat rgb(cmyk.size(), CV_8UC3);
  for (int y = 0; y < cmyk.rows; ++y) {
    const auto* ink = cmyk.ptr<cv::Vec4b>(y);
    auto* pixel = rgb.ptr<cv::Vec3b>(y);
    for (int x = 0; x < cmyk.cols; ++x) {
      const int light = 255 - ink[x][3];
      for (int c = 0; c < 3; ++c) {
        // a * b / 255, rounded, in Pillow's integer arithmetic.
        const int product = ink[x][c] * light + 128;
        pixel[x][c] = cv::saturate_cast<unsigned char>(light - (((product >> 8) + product) >> 8));
      }
    }
  }
  return rgb;
}

}  // namespace hdfnet::app
