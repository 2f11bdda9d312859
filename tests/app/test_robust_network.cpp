#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "fake_network.h"
#include "run/robust_network.h"

namespace hdfnet::app {
namespace {

constexpr int side = 4;

class RobustNetworkTest : public testing::Test {
 protected:
  RobustNetwork make(Precision precision) {
    const auto maker = [this](Precision wanted) {
      return provider.make({"cuda:0", wanted, Ddpm::fused});
    };
    return RobustNetwork(maker(precision), maker, console);
  }

  /// A batch whose image i has depth i everywhere.
  BatchView batch(int count) {
    rgb.assign(3 * side * side * count, 0);
    depth.clear();
    for (int i = 0; i < count; ++i) depth.insert(depth.end(), side * side, static_cast<float>(i));
    return {rgb.data(), depth.data(), count, side, side};
  }

  test::FakeProvider provider;
  std::ostringstream log;
  Console console{log, false, false};
  std::vector<float> rgb, depth;
};

TEST_F(RobustNetworkTest, HalvesTheBatchWhenMemoryIsShortAndStaysThere) {
  provider.behaviour.before_forward = [](int count) {
    if (count > 3) throw OutOfMemory("4 GiB wanted");
  };
  RobustNetwork network = make(Precision::fp16);
  for (int run = 0; run < 2; ++run) {
    const RobustMaps result = network.forward(batch(8));
    ASSERT_EQ(result.finite.size(), 8u);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(result.maps.map(i)[5], static_cast<float>(i));
  }
  EXPECT_EQ(provider.behaviour.batches, (std::vector<int>{8, 4, 2, 2, 2, 2, 2, 2, 2, 2}));
  EXPECT_NE(log.str().find("not enough memory for a batch of 8; going on with batches of 4"),
            std::string::npos)
      << log.str();
}

TEST_F(RobustNetworkTest, ASingleImageThatDoesNotFitIsAnError) {
  provider.behaviour.before_forward = [](int) { throw OutOfMemory("no"); };
  RobustNetwork network = make(Precision::fp16);
  EXPECT_THROW(network.forward(batch(4)), OutOfMemory);
}

TEST_F(RobustNetworkTest, NonFiniteImagesAreComputedAgainInWiderArithmetic) {
  provider.behaviour.alter = [](const std::string& precision, std::span<float> map) {
    if (precision == "fp16" && map[0] == 1) map[3] = std::numeric_limits<float>::quiet_NaN();
  };
  RobustNetwork network = make(Precision::fp16);
  const RobustMaps result = network.forward(batch(3));
  EXPECT_EQ(result.precision, (std::vector<std::string>{"fp16", "bf16", "fp16"}));
  EXPECT_EQ(result.finite, (std::vector<bool>{true, true, true}));
  EXPECT_EQ(result.maps.map(1)[3], 1.0f);
  EXPECT_EQ(result.maps.map(2)[3], 2.0f);
}

TEST_F(RobustNetworkTest, PassesOverAPrecisionThatTheDeviceHasNot) {
  provider.behaviour.unsupported = {Precision::bf16};
  provider.behaviour.alter = [](const std::string& precision, std::span<float> map) {
    if (precision == "fp16") map[0] = std::numeric_limits<float>::infinity();
  };
  RobustNetwork network = make(Precision::fp16);
  EXPECT_EQ(network.forward(batch(1)).precision[0], "fp32");
  EXPECT_NE(log.str().find("cannot run in bf16"), std::string::npos);
}

TEST_F(RobustNetworkTest, WhatIsNotFiniteInFp32IsReported) {
  provider.behaviour.alter = [](const std::string&, std::span<float> map) {
    if (map[0] == 0) map[0] = std::numeric_limits<float>::quiet_NaN();
  };
  RobustNetwork network = make(Precision::fp16);
  const RobustMaps result = network.forward(batch(2));
  EXPECT_EQ(result.finite, (std::vector<bool>{false, true}));
  EXPECT_EQ(result.precision[0], "fp32");
}

}  // namespace
}  // namespace hdfnet::app
