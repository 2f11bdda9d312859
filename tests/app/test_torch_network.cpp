// The adapter to LibTorch: batches that are filled up.

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "picture_sizes.h"
#include "run/staging.h"
#include "torch_network.h"

namespace hdfnet::app::test {
namespace {

constexpr int side = 64;
constexpr std::size_t plane = std::size_t{side} * side;

std::unique_ptr<Network> network_on(const std::string& device) {
  const std::unique_ptr<NetworkProvider> provider = make_torch_provider();
  provider->set_threads(1);
  provider->load(HDFNET_TEST_WEIGHTS);
  return provider->make({device, Precision::automatic, Ddpm::fused});
}

/// Planes of random numbers, as many as wanted.
class RandomPlanes {
 public:
  explicit RandomPlanes(int count) : rgb_(3 * plane * count), depth_(plane * count) {
    cv::RNG random(3);
    for (float& value : rgb_) value = random.uniform(-2.0F, 2.0F);
    for (float& value : depth_) value = random.uniform(0.0F, 1.0F);
  }
  BatchView view(int count, int filled_to) const {
    return {rgb_.data(), depth_.data(), count, side, side, nullptr, filled_to};
  }

 private:
  std::vector<float> rgb_, depth_;
};

TEST(TorchNetwork, AFilledBatchReturnsTheMapsOfItsOwnImages) {
  const std::unique_ptr<Network> network = network_on("cpu");
  const RandomPlanes planes(3);
  const Maps plain = network->forward(planes.view(3, 0));
  const Maps filled = network->forward(planes.view(2, 3));
  EXPECT_EQ(plain.count, 3);
  ASSERT_EQ(filled.count, 2);
  for (int i = 0; i < 2; ++i) {
    for (std::size_t k = 0; k < plane; ++k) ASSERT_NEAR(filled.map(i)[k], plain.map(i)[k], 1e-5F);
  }
}

TEST(TorchNetwork, AFilledBatchIsMeasuredAsSuch) {
  const std::unique_ptr<Network> network = network_on("cpu");
  const RandomPlanes planes(1);
  const NetworkTimes one = network->measure(planes.view(1, 0), 1);
  const NetworkTimes filled = network->measure(planes.view(1, 2), 1);
  ASSERT_EQ(one.modules.size(), filled.modules.size());
  for (std::size_t i = 0; i < one.modules.size(); ++i) {
    EXPECT_EQ(filled.modules[i].flop, 2 * one.modules[i].flop) << one.modules[i].name;
  }
}

/// The same pair many times, as a GPU's network takes it.
class OnePairRepeated {
 public:
  OnePairRepeated(const Network& network, int count) : pair_(picture_pair({640, 480}, 5)) {
    staging_.use([&](std::size_t floats) { return network.allocate(floats); });
    staging_.put(pair_.rgb, pair_.depth, {320, 320}, LevelMap{480, 640, Rounding::nearest});
    pictures_.assign(static_cast<std::size_t>(count), staging_.pictures());
  }
  BatchView view(int count, int filled_to) const {
    return {nullptr, nullptr, count, 320, 320, pictures_.data(), filled_to};
  }

 private:
  PicturePair pair_;
  Staging staging_;
  std::vector<PairPictures> pictures_;
};

/// The places whose map is not that of `wanted`.
std::string other_places(const Maps& maps, const unsigned char* wanted) {
  std::string places;
  for (int i = 0; i < maps.count; ++i) {
    if (std::memcmp(maps.levels(i), wanted, std::size_t{640} * 480) != 0) {
      places += " " + std::to_string(i);
    }
  }
  return places;
}

// In the last place of a full batch cuDNN may add up in another order.
TEST(TorchNetwork, AMapDependsNeitherOnItsPlaceNorOnTheFilling) {
  if (!at::hasCUDA()) GTEST_SKIP() << "needs a CUDA device";
  const std::unique_ptr<Network> network = network_on("cuda:0");
  const OnePairRepeated pairs(*network, 32);
  // Plain, captured, replayed.
  for (int pass = 0; pass < 3; ++pass) {
    const Maps full = network->forward(pairs.view(32, 32));
    const std::string others = other_places(full, full.levels(0));
    EXPECT_TRUE(others.empty() || others == " 31") << others << " in pass " << pass;
    for (const int count : {1, 2, 9, 31}) {
      const Maps filled = network->forward(pairs.view(count, 32));
      ASSERT_EQ(filled.count, count);
      EXPECT_EQ(other_places(filled, full.levels(0)), "") << count << " of 32";
    }
  }
}

}  // namespace
}  // namespace hdfnet::app::test
