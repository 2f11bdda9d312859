// Pictures for people: overlay, cutout and heat map. The saliency map itself is in
// saliency_output.cpp.

#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <stdexcept>

#include "image/saliency_output.h"

namespace hdfnet::app {
namespace {

cv::Mat grey8(const cv::Mat& saliency) {
  if (saliency.type() == CV_8UC1) return saliency;
  if (saliency.type() != CV_16UC1) {
    throw std::invalid_argument("an 8- or 16-bit saliency image of one channel is needed");
  }
  cv::Mat saliency8;
  saliency.convertTo(saliency8, CV_8U, 1.0 / 257);
  return saliency8;
}

void check_pair(const cv::Mat& rgb, const cv::Mat& saliency) {
  if (rgb.type() != CV_8UC3 || rgb.size() != saliency.size()) {
    throw std::invalid_argument("an 8-bit RGB picture of the saliency image's size is needed");
  }
}

}  // namespace

cv::Mat overlay(const cv::Mat& rgb, const cv::Mat& saliency) {
  check_pair(rgb, saliency);
  const cv::Mat alpha = grey8(saliency);
  constexpr int kTint[3] = {255, 32, 32};
  constexpr int kTintShare = 96;  // of 255, where the saliency is full
  constexpr int kDimmed = 128;    // of 255, where it is zero
  cv::Mat result(rgb.size(), CV_8UC3);
  for (int y = 0; y < rgb.rows; ++y) {
    for (int x = 0; x < rgb.cols; ++x) {
      const int salient = alpha.at<unsigned char>(y, x);
      const int light = kDimmed + (255 - kDimmed) * salient / 255;
      const int share = kTintShare * salient / 255;
      for (int c = 0; c < 3; ++c) {
        const int colour = rgb.at<cv::Vec3b>(y, x)[c] * light / 255;
        result.at<cv::Vec3b>(y, x)[c] =
            static_cast<unsigned char>((colour * (255 - share) + kTint[c] * share + 127) / 255);
      }
    }
  }
  return result;
}

cv::Mat cutout(const cv::Mat& rgb, const cv::Mat& saliency) {
  check_pair(rgb, saliency);
  const cv::Mat inputs[] = {rgb, grey8(saliency)};
  cv::Mat rgba(rgb.size(), CV_8UC4);
  constexpr int kFromTo[] = {0, 0, 1, 1, 2, 2, 3, 3};
  cv::mixChannels(inputs, 2, &rgba, 1, kFromTo, 4);
  return rgba;
}

cv::Mat heat_map(const cv::Mat& saliency) {
  cv::Mat bgr, rgb;
  cv::applyColorMap(grey8(saliency), bgr, cv::COLORMAP_VIRIDIS);
  cv::cvtColor(bgr, rgb, cv::COLOR_BGR2RGB);
  return rgb;
}

}  // namespace hdfnet::app
