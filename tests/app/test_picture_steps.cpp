// What the kernels do for each pixel, run on the host and compared with the host's own path.

#include <gtest/gtest.h>

#include <cstring>
#include <opencv2/core.hpp>
#include <vector>

#include "cuda/picture_steps.h"
#include "image/network_input.h"
#include "image/pil.h"
#include "image/saliency_output.h"
#include "picture_sizes.h"

namespace hdfnet::app::test {
namespace {

using cuda::InputJob;
using cuda::InputPlanes;
using cuda::LevelJob;

/// Both pictures as one run of planes: RGB, then depth.
std::vector<float> planes_of_host(const PicturePair& pair, cv::Size network) {
  const auto plane = static_cast<std::size_t>(network.area());
  std::vector<float> planes(4 * plane);
  rgb_to_planes(pil_resize_bilinear(pair.rgb, network), planes.data());
  depth_to_plane(pil_resize_bilinear(pair.depth, network), planes.data() + 3 * plane);
  return planes;
}

std::vector<float> planes_of_steps(const PicturePair& pair, cv::Size network) {
  const cv::Size size = pair.rgb.size();
  const int column_step = cuda::filter_step(size.width, network.width);
  const int row_step = cuda::filter_step(size.height, network.height);
  std::vector<std::int32_t> columns(static_cast<std::size_t>(column_step) * network.width);
  std::vector<std::int32_t> rows(static_cast<std::size_t>(row_step) * network.height);
  std::vector<unsigned char> narrow(std::size_t{4} * size.height * network.width);
  const auto plane = static_cast<std::size_t>(network.area());
  std::vector<float> planes(4 * plane);
  const InputJob job{pair.rgb.data, pair.depth.data, size.height, size.width,   column_step,
                     row_step,      columns.data(),  rows.data(), narrow.data()};
  const InputPlanes to{planes.data(), planes.data() + 3 * plane, network.height, network.width};
  for (int i = 0; i < to.width + to.height; ++i) make_filter(job, to, i);
  for (int y = 0; y < job.height; ++y) {
    for (int x = 0; x < to.width; ++x) narrow_pixel(job, to, y, x);
  }
  for (int y = 0; y < to.height; ++y) {
    for (int x = 0; x < to.width; ++x) input_pixel(job, to, y, x);
  }
  return planes;
}

TEST(PictureSteps, InputEqualsTheHostsBitForBit) {
  for (const cv::Size network : kNetworkSizes) {
    for (const cv::Size size : kPictureSizes) {
      SCOPED_TRACE(testing::Message() << size << " -> " << network);
      const PicturePair pair = picture_pair(size, 7);
      const std::vector<float> expected = planes_of_host(pair, network);
      const std::vector<float> actual = planes_of_steps(pair, network);
      ASSERT_EQ(std::memcmp(actual.data(), expected.data(), expected.size() * sizeof(float)), 0);
    }
  }
}

cv::Mat levels_of_steps(const cv::Mat& map, cv::Size size, Rounding rounding) {
  cv::Mat levels(size, CV_8UC1);
  const LevelJob job{map.ptr<float>(),
                     levels.data,
                     size.height,
                     size.width,
                     cuda::between_scale(map.rows, size.height),
                     cuda::between_scale(map.cols, size.width),
                     level_offset(rounding)};
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) level_pixel(job, map.rows, map.cols, y, x);
  }
  return levels;
}

TEST(PictureSteps, LevelsEqualTheHosts) {
  for (const Rounding rounding : {Rounding::nearest, Rounding::truncate}) {
    for (const cv::Size network : kNetworkSizes) {
      const cv::Mat map = saliency_map(network, 3);
      for (const cv::Size size : kPictureSizes) {
        if (cuda::is_halved(map.rows, map.cols, size.height, size.width)) continue;
        SCOPED_TRACE(testing::Message() << network << " -> " << size);
        const cv::Mat expected = saliency_image(map, size, {8, rounding, Upsample::bilinear});
        ASSERT_EQ(cv::norm(levels_of_steps(map, size, rounding), expected, cv::NORM_INF), 0);
      }
    }
  }
}

}  // namespace
}  // namespace hdfnet::app::test
