#include <gtest/gtest.h>

#include "device_room.h"

namespace hdfnet::app {
namespace {

constexpr std::size_t MB = 1000000;

NetworkInfo network(const std::string& precision, const std::string& ddpm = "fused") {
  NetworkInfo info;
  info.precision = precision;
  info.ddpm = ddpm;
  return info;
}

TEST(DeviceRoom, AnImageTakesWhatWasMeasuredAndSomeMore) {
  // Peaks of batch 32 on an H200, VGG16: 1222, 3486 and 12237 MB.
  EXPECT_GT(32 * bytes_for_image(network("fp16"), 320, 320), (1222 - 134) * MB);
  EXPECT_LT(32 * bytes_for_image(network("fp16"), 320, 320), 2 * 1222 * MB);
  EXPECT_GT(32 * bytes_for_image(network("fp16"), 320, 320), 1127 * MB) << "ResNet-50";
  EXPECT_GT(32 * bytes_for_image(network("tf32"), 320, 320), (3486 - 294) * MB);
  EXPECT_LT(32 * bytes_for_image(network("tf32"), 320, 320), 2 * 3486 * MB);
  EXPECT_GT(32 * bytes_for_image(network("fp32"), 320, 320), (12237 - 506) * MB);
  EXPECT_LT(32 * bytes_for_image(network("fp32"), 320, 320), 2 * 12237 * MB);
  EXPECT_EQ(bytes_for_image(network("bf16"), 320, 320), bytes_for_image(network("fp16"), 320, 320));
}

TEST(DeviceRoom, AnImageTakesMemoryByItsPixelsAndMoreForTheReference) {
  const std::size_t plain = bytes_for_image(network("fp16"), 320, 320);
  EXPECT_EQ(bytes_for_image(network("fp16"), 640, 480), 3 * plain);
  EXPECT_GT(bytes_for_image(network("fp16", "reference"), 320, 320), plain + 35 * MB);
}

TEST(DeviceRoom, ABatchLeavesSomeMemoryToLibraries) {
  EXPECT_EQ(images_in({1128 * MB, 100 * MB}), 10);
  EXPECT_EQ(images_in({1127 * MB, 100 * MB}), 9);
  EXPECT_EQ(images_in({150 * MB, 100 * MB}), 1) << "whether that fits, the pass says";
  EXPECT_EQ(images_in({0, 100 * MB}), 1);
  EXPECT_EQ(images_in({std::size_t{1} << 62, 1}), 2147483647);
}

}  // namespace
}  // namespace hdfnet::app
