#include <gtest/gtest.h>

#include <cstring>
#include <opencv2/core.hpp>
#include <vector>

#include "image/network_input.h"
#include "support.h"

namespace hdfnet::app::test {
namespace {

/// levels.f32: what torchvision makes of the bytes 0..255 in R, G, B, and of depth.
std::vector<float> expected_levels() {
  const std::vector<std::byte> bytes = read_bytes(data_folder() / "levels.f32");
  std::vector<float> levels(bytes.size() / sizeof(float));
  std::memcpy(levels.data(), bytes.data(), bytes.size());
  return levels;
}

/// The byte at place i of a channel: each channel holds every byte, in an order of its own.
int byte_at(int i, int channel) {
  return (i + 85 * channel) % 256;
}

/// A picture of those bytes; a view whose rows are not adjacent.
cv::Mat every_byte(int channels) {
  cv::Mat wide(16, 40, CV_8UC(channels), cv::Scalar::all(77));
  cv::Mat view = wide(cv::Rect(3, 0, 16, 16));
  for (int i = 0; i < 256; ++i) {
    for (int c = 0; c < channels; ++c) {
      view.ptr(i / 16, i % 16)[c] = static_cast<unsigned char>(byte_at(i, c));
    }
  }
  return view;
}

TEST(NetworkInput, RgbEqualsTorchvisionBitForBit) {
  std::vector<float> planes(3 * 256);
  rgb_to_planes(every_byte(3), planes.data());
  const std::vector<float> expected = expected_levels();
  for (int c = 0; c < 3; ++c) {
    for (int i = 0; i < 256; ++i) {
      // Equal floats that are not zero have equal bits.
      ASSERT_EQ(planes[256 * c + i], expected[256 * c + byte_at(i, c)]) << c << " " << i;
    }
  }
}

TEST(NetworkInput, DepthIsDividedBy255BitForBit) {
  std::vector<float> plane(256);
  depth_to_plane(every_byte(1), plane.data());
  const std::vector<float> expected = expected_levels();
  EXPECT_EQ(std::memcmp(plane.data(), expected.data() + 3 * 256, plane.size() * sizeof(float)), 0);
}

TEST(NetworkInput, ChannelsStayInTheOrderRgb) {
  const cv::Mat red(1, 1, CV_8UC3, cv::Scalar(255, 0, 0));
  float planes[3];
  rgb_to_planes(red, planes);
  EXPECT_GT(planes[0], 2.0F);
  EXPECT_LT(planes[1], -2.0F);
  EXPECT_LT(planes[2], -1.7F);
}

TEST(NetworkInput, OtherTypesAreRefused) {
  float value[12];
  EXPECT_THROW(rgb_to_planes(cv::Mat(2, 2, CV_8UC1), value), std::invalid_argument);
  EXPECT_THROW(depth_to_plane(cv::Mat(2, 2, CV_8UC3), value), std::invalid_argument);
}

}  // namespace
}  // namespace hdfnet::app::test
