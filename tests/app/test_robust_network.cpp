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
  RobustNetwork make(Precision precision, int full_batch = 0) {
    const auto maker = [this](Precision wanted) {
      return provider.make({"cuda:0", wanted, Ddpm::fused});
    };
    return RobustNetwork(maker(precision), maker, console, full_batch);
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
    const std::vector<RobustMap> result = network.forward(batch(8));
    ASSERT_EQ(result.size(), 8u);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(result[i].values()[5], static_cast<float>(i));
  }
  EXPECT_EQ(provider.behaviour.batches, (std::vector<int>{8, 4, 2, 2, 2, 2, 2, 2, 2, 2}));
  EXPECT_NE(log.str().find("not enough memory for a batch of 8; going on with batches of 4"),
            std::string::npos)
      << log.str();
}

TEST_F(RobustNetworkTest, SmallBatchesAreFilledUp) {
  RobustNetwork network = make(Precision::fp16, 8);
  for (const int count : {8, 3, 1, 11}) {
    const std::vector<RobustMap> result = network.forward(batch(count));
    ASSERT_EQ(result.size(), static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) EXPECT_EQ(result[i].values()[5], static_cast<float>(i));
  }
  EXPECT_EQ(provider.behaviour.batches, (std::vector<int>{8, 8, 8, 11}));
}

TEST_F(RobustNetworkTest, AFilledBatchThatDoesNotFitIsHalvedToo) {
  provider.behaviour.before_forward = [](int count) {
    if (count > 3) throw OutOfMemory("4 GiB wanted");
  };
  RobustNetwork network = make(Precision::fp16, 8);
  for (const int count : {1, 3}) {
    const std::vector<RobustMap> result = network.forward(batch(count));
    ASSERT_EQ(result.size(), static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) EXPECT_EQ(result[i].values()[5], static_cast<float>(i));
  }
  EXPECT_EQ(provider.behaviour.batches, (std::vector<int>{8, 4, 2, 2, 2}));
  EXPECT_NE(log.str().find("not enough memory for a batch of 8; going on with batches of 4"),
            std::string::npos)
      << log.str();
}

TEST_F(RobustNetworkTest, AnImageInAFilledBatchThatNeverFitsIsAnError) {
  provider.behaviour.before_forward = [](int) { throw OutOfMemory("no"); };
  RobustNetwork network = make(Precision::fp16, 4);
  EXPECT_THROW(network.forward(batch(1)), OutOfMemory);
  EXPECT_EQ(provider.behaviour.batches, (std::vector<int>{4, 2, 1}));
}

TEST_F(RobustNetworkTest, TheFillingIsNotComputedAgain) {
  provider.behaviour.alter = [](const std::string& precision, std::span<float> map) {
    if (precision == "fp16" && map[0] == 1) map[3] = std::numeric_limits<float>::quiet_NaN();
  };
  RobustNetwork network = make(Precision::fp16, 8);
  const std::vector<RobustMap> result = network.forward(batch(2));
  EXPECT_EQ(result[1].precision, "bf16");
  EXPECT_EQ(provider.behaviour.batches, (std::vector<int>{8, 1})) << "the last image alone";
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
  const std::vector<RobustMap> result = network.forward(batch(3));
  const std::vector<std::string> wanted = {"fp16", "bf16", "fp16"};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(result[i].precision, wanted[i]);
    EXPECT_TRUE(result[i].finite);
  }
  EXPECT_EQ(result[1].values()[3], 1.0f);
  EXPECT_EQ(result[2].values()[3], 2.0f);
}

TEST_F(RobustNetworkTest, PassesOverAPrecisionThatTheDeviceHasNot) {
  provider.behaviour.unsupported = {Precision::bf16};
  provider.behaviour.alter = [](const std::string& precision, std::span<float> map) {
    if (precision == "fp16") map[0] = std::numeric_limits<float>::infinity();
  };
  RobustNetwork network = make(Precision::fp16);
  EXPECT_EQ(network.forward(batch(1))[0].precision, "fp32");
  EXPECT_NE(log.str().find("cannot run in bf16"), std::string::npos);
}

TEST_F(RobustNetworkTest, AWiderNetworkThatFailsCostsItsImageOnly) {
  provider.behaviour.alter = [](const std::string&, std::span<float> map) {
    if (map[0] == 1) map[0] = std::numeric_limits<float>::infinity();
  };
  int calls = 0;
  provider.behaviour.before_forward = [&](int) {
    if (++calls > 1) throw OutOfMemory("no room for another network");
  };
  RobustNetwork network = make(Precision::fp16);
  const std::vector<RobustMap> result = network.forward(batch(2));
  EXPECT_TRUE(result[0].finite);
  EXPECT_FALSE(result[1].finite);
}

TEST_F(RobustNetworkTest, WhatIsNotFiniteInFp32IsReported) {
  provider.behaviour.alter = [](const std::string&, std::span<float> map) {
    if (map[0] == 0) map[0] = std::numeric_limits<float>::quiet_NaN();
  };
  RobustNetwork network = make(Precision::fp16);
  const std::vector<RobustMap> result = network.forward(batch(2));
  EXPECT_FALSE(result[0].finite);
  EXPECT_TRUE(result[1].finite);
  EXPECT_EQ(result[0].precision, "fp32");
}

}  // namespace
}  // namespace hdfnet::app
