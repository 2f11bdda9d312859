// Times of the operations on the hot path, on one core: the smallest and the median of many runs.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <opencv2/core.hpp>
#include <utility>
#include <vector>

#include "image/depth.h"
#include "image/network_input.h"
#include "image/pil.h"
#include "image/saliency_output.h"

namespace {

template <typename Work>
void measure(const char* name, const Work& work) {
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    times.push_back(time.count());
  }
  std::sort(times.begin(), times.end());
  std::printf("%-48s min %6.3f ms  median %6.3f ms\n", name, times.front(),
              times[times.size() / 2]);
}

}  // namespace

int main() {
  using namespace hdfnet::app;
  cv::setNumThreads(1);
  cv::Mat rgb(480, 640, CV_8UC3), depth16(480, 640, CV_16UC1), map(320, 320, CV_32FC1);
  cv::randu(rgb, 0, 255);
  cv::randu(depth16, 0, 6000);
  cv::randu(map, 0, 1);
  RawDepth raw;
  raw.values = std::move(depth16);
  const cv::Mat small = pil_resize_bilinear(rgb, {320, 320});
  const cv::Mat depth8 = depth_to_8bit(raw, {}, "depth").depth8;
  std::vector<float> planes(3 * 320 * 320);

  measure("pil_resize_bilinear 640x480x3 -> 320x320", [&] {
    pil_resize_bilinear(rgb, {320, 320});
  });
  measure("pil_resize_bilinear 640x480x1 -> 320x320", [&] {
    pil_resize_bilinear(depth8, {320, 320});
  });
  measure("rgb_to_planes 320x320", [&] { rgb_to_planes(small, planes.data()); });
  measure("depth_to_8bit 640x480 16-bit", [&] { depth_to_8bit(raw, {}, "depth"); });
  measure("saliency_image 320x320 -> 640x480 bilinear", [&] {
    saliency_image(map, {640, 480}, {});
  });
  const cv::Mat saliency = saliency_image(map, {640, 480}, {});
  measure("encode_png 640x480 grey noise", [&] { encode_png(saliency); });
  cv::Mat coarse(12, 16, CV_32FC1);
  cv::randu(coarse, 0, 1);
  const cv::Mat smooth = saliency_image(coarse, {640, 480}, {});
  measure("encode_png 640x480 smooth map", [&] { encode_png(smooth); });
}
