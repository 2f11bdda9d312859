// The adapter to LibTorch: batches that are filled up.

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <thread>
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

TEST(TorchNetwork, MeasuringEndsBetweenModulesWhenItIsInterrupted) {
  const std::unique_ptr<Network> network = network_on("cpu");
  const RandomPlanes planes(1);
  int asked = 0;
  const NetworkTimes all = network->measure(planes.view(1, 0), 2, [&] { return ++asked < 0; });
  EXPECT_GT(asked, 2 * static_cast<int>(all.modules.size()));
  // In the first module, in a later one, at the end of the whole passes.
  for (const int last : {1, static_cast<int>(all.modules.size()) / 2, asked}) {
    int again = 0;
    EXPECT_THROW(network->measure(planes.view(1, 0), 2, [&] { return ++again == last; }), GivenUp);
    EXPECT_EQ(again, last);
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

/// `work` on so many threads at once, with the number of each.
template <class Work>
void on_threads(int count, const Work& work) {
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
}

TEST(TorchNetwork, BatchesAtOnceOnTheCpuGiveEachItsMaps) {
  const std::unique_ptr<Network> network = network_on("cpu");
  EXPECT_EQ(network->batches_at_once(), 1);
  const RandomPlanes planes(2);
  const Maps expected = network->forward(planes.view(2, 0));
  on_threads(2, [&](int number) {
    const Maps maps = network->forward(planes.view(2, 0).part(number, 1));
    ASSERT_EQ(maps.count, 1);
    for (std::size_t k = 0; k < plane; ++k) {
      ASSERT_NEAR(maps.map(0)[k], expected.map(number)[k], 1e-5F);
    }
  });
}

/// Different pairs in page-locked or in ordinary memory.
class DifferentPairs {
 public:
  DifferentPairs(const Network& network, int count, unsigned seed, bool page_locked)
      : staging_(static_cast<std::size_t>(count)) {
    for (int i = 0; i < count; ++i) {
      const PicturePair pair =
          picture_pair({640 - i, 480 - 3 * i}, seed + static_cast<unsigned>(i));
      Staging& staging = staging_[static_cast<std::size_t>(i)];
      staging.use([&](std::size_t floats) {
        return page_locked ? network.allocate(floats) : std::shared_ptr<float[]>(new float[floats]);
      });
      staging.put(pair.rgb, pair.depth, {320, 320},
                  LevelMap{pair.rgb.rows, pair.rgb.cols, Rounding::nearest});
      pictures_.push_back(staging.pictures());
      pixels_.push_back(pair.rgb.total());
    }
  }
  BatchView view() const {
    const int count = static_cast<int>(pictures_.size());
    return {nullptr, nullptr, count, 320, 320, pictures_.data(), count};
  }
  /// The number of maps that are not the same.
  int different(const Maps& maps, const Maps& expected) const {
    int found = 0;
    for (int i = 0; i < maps.count; ++i) {
      const std::size_t pixels = pixels_[static_cast<std::size_t>(i)];
      found += std::memcmp(maps.levels(i), expected.levels(i), pixels) != 0 ? 1 : 0;
    }
    return found;
  }

 private:
  std::vector<Staging> staging_;
  std::vector<PairPictures> pictures_;
  std::vector<std::size_t> pixels_;
};

TEST(TorchNetwork, BatchesAtOnceOnAGpuGiveEachItsMaps) {
  if (!at::hasCUDA()) GTEST_SKIP() << "needs a CUDA device";
  const std::unique_ptr<Network> network = network_on("cuda:0");
  EXPECT_EQ(network->batches_at_once(), 2);
  std::vector<DifferentPairs> pairs;
  pairs.reserve(4);
  std::vector<Maps> expected;
  for (int i = 0; i < 4; ++i) {
    pairs.emplace_back(*network, 12, 100U * static_cast<unsigned>(i), /*page_locked=*/i % 2 == 0);
  }
  // Plain and captured first: what is compared are replays of one graph.
  for (int pass = 0; pass < 2; ++pass) network->forward(pairs[0].view());
  expected.reserve(pairs.size());
  for (const DifferentPairs& batch : pairs) expected.push_back(network->forward(batch.view()));
  std::atomic<int> different{0};
  on_threads(2, [&](int number) {
    for (int round = 0; round < 50; ++round) {
      const auto which = static_cast<std::size_t>((round + 2 * number) % 4);
      different += pairs[which].different(network->forward(pairs[which].view()), expected[which]);
    }
  });
  EXPECT_EQ(different, 0);
}

// One pass is plain, one is captured; only the plain one may add up in another order.
TEST(TorchNetwork, AGpusFirstBatchesMayComeTogether) {
  if (!at::hasCUDA()) GTEST_SKIP() << "needs a CUDA device";
  for (int round = 0; round < 3; ++round) {
    const std::unique_ptr<Network> network = network_on("cuda:0");
    const DifferentPairs pairs(*network, 8, 7, /*page_locked=*/true);
    std::vector<Maps> found[2];
    on_threads(2, [&](int number) {
      for (int pass = 0; pass < 4; ++pass) found[number].push_back(network->forward(pairs.view()));
    });
    const Maps expected = network->forward(pairs.view());
    int others = 0;
    for (const auto& of_thread : found) {
      for (const Maps& maps : of_thread) others += pairs.different(maps, expected) > 0 ? 1 : 0;
    }
    EXPECT_LE(others, 1);
  }
}

TEST(TorchNetwork, AGpuGoesOnAfterABatchThatDoesNotFit) {
  if (!at::hasCUDA()) GTEST_SKIP() << "needs a CUDA device";
  const std::unique_ptr<Network> network = network_on("cuda:0");
  const DifferentPairs pairs(*network, 8, 7, /*page_locked=*/true);
  network->forward(pairs.view());
  const Maps expected = network->forward(pairs.view());
  on_threads(2, [&](int number) {
    for (int round = 0; round < 5; ++round) {
      if (number == 0) {
        EXPECT_EQ(pairs.different(network->forward(pairs.view()), expected), 0);
      } else {
        BatchView far_too_many = pairs.view();
        far_too_many.filled_to = 1 << 18;
        EXPECT_THROW(network->forward(far_too_many), OutOfMemory);
      }
    }
  });
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
