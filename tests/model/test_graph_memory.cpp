// What the engine's graphs keep of a card's memory, and two engines at once.
#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "golden.h"
#include "hdfnet/engine.h"

namespace hdfnet {
namespace {

class GraphMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "needs a CUDA device";
  }

  static EngineOptions on(c10::DeviceIndex index, bool graphs = true,
                          Precision precision = Precision::automatic) {
    EngineOptions options;
    options.precision = precision;
    options.device = at::Device(at::kCUDA, index);
    options.graphs = graphs;
    return options;
  }
};

class GraphMemoryOf : public GraphMemory, public testing::WithParamInterface<Precision> {};

// Sizes in no order, few of them twice in a row, so that graphs are made and dropped all the time.
// HDFNET_TEST_SCALE=10 makes it 1,000 sizes. In TF32 cuBLAS has a part, which keeps 32 MiB for each
// stream that it has seen.
TEST_P(GraphMemoryOf, StaysFlatOverChangingSizes) {
  const Engine engine(golden::parameters("vgg16"), on(0, true, GetParam()));
  const Engine eager(golden::parameters("vgg16"), on(0, /*graphs=*/false, GetParam()));
  const auto reserved = [] {
    c10::cuda::CUDACachingAllocator::emptyCache();
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current;
  };
  const char* const scale = std::getenv("HDFNET_TEST_SCALE");
  const int rounds = 10 * (scale == nullptr ? 1 : std::max(1, std::atoi(scale)));
  int64_t most_early = 0;
  int64_t most_late = 0;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 10; ++i) {
      const int64_t height = 64 + 8 * ((round * 7 + i * 3) % 25);
      const int64_t width = 64 + 8 * ((round * 5 + i * 11) % 23);
      const at::Tensor rgb = at::rand({1, 3, height, width});
      const at::Tensor depth = at::rand({1, 1, height, width});
      at::Tensor map;
      for (int pass = 0; pass < 2; ++pass) map = engine.forward(rgb, depth);  // the second captures
      if (i > 0) continue;
      EXPECT_LE((map - eager.forward(rgb, depth)).abs().max().item<float>(), 2e-3F)
          << height << "x" << width;
    }
    int64_t& most = round < rounds / 2 ? most_early : most_late;
    most = std::max(most, reserved());
  }
  RecordProperty("reserved_mib", static_cast<int>(most_late >> 20));
  EXPECT_GT(most_early, 0);
  EXPECT_LE(most_late, most_early + most_early / 10);
  // The parameters twice, in fp16, and sixteen small graphs.
  EXPECT_LE(most_late, int64_t{3} << 30);
}

INSTANTIATE_TEST_SUITE_P(Precisions, GraphMemoryOf,
                         testing::Values(Precision::fp16, Precision::tf32),
                         [](const auto& tested) { return std::string(name(tested.param)); });

// LibTorch's pool has 32 streams, which it gives in turn: a plain pass of one thread must not queue
// on the stream on which another thread captures.
TEST_F(GraphMemory, PlainPassesOfManyThreadsStayOutOfCaptures) {
  const Engine engine(golden::parameters("vgg16"), on(0));
  const Engine plain(golden::parameters("vgg16"), on(0, /*graphs=*/false));
  const at::Tensor rgb = at::rand({1, 3, 64, 64}), depth = at::rand({1, 1, 64, 64});
  const at::Tensor expected = plain.forward(rgb, depth).cpu();
  constexpr int kThreads = 24;
  std::vector<float> worst(kThreads);
  std::vector<std::string> faults(kThreads);
  std::vector<float> of_captured;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t](const std::stop_token& stop) {
        try {
          while (!stop.stop_requested()) {
            const at::Tensor map = plain.forward(rgb, depth).cpu();
            worst[t] = std::max(worst[t], (map - expected).abs().max().item<float>());
          }
        } catch (const std::exception& error) {
          faults[t] = error.what();
        }
      });
    }
    for (int64_t width = 64; width < 64 + 24 * 8; width += 8) {
      const at::Tensor wide = at::rand({1, 3, 64, width}), flat = at::rand({1, 1, 64, width});
      at::Tensor map;
      for (int pass = 0; pass < 3; ++pass) map = engine.forward(wide, flat);
      of_captured.push_back((map - plain.forward(wide, flat)).abs().max().item<float>());
    }
  }
  for (const std::string& fault : faults) EXPECT_EQ(fault, "");
  for (const float difference : worst) EXPECT_LE(difference, 2e-3F);
  for (const float difference : of_captured) EXPECT_LE(difference, 2e-3F);
}

TEST_F(GraphMemory, TwoEnginesServeTwoThreadsOnStreamsOfTheirOwn) {
  const auto cards = c10::cuda::device_count();
  const Engine first(golden::parameters("vgg16"), on(0));
  // On a second card, where there is one.
  const Engine second(golden::parameters("vgg19"), on(cards > 1 ? 1 : 0));
  const Engine* const engines[] = {&first, &second};
  std::vector<at::Tensor> rgb, depth;
  std::vector<std::vector<at::Tensor>> results(2);
  for (int i = 0; i < 6; ++i) {
    const int64_t side = 64 + 32 * (i % 2);
    rgb.push_back(at::rand({1 + i % 3, 3, side, 96}));
    depth.push_back(at::rand({1 + i % 3, 1, side, 96}));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      const auto device = engines[t]->device();
      const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool(false, device.index()));
      for (int pass = 0; pass < 5; ++pass) {
        for (size_t i = 0; i < rgb.size(); ++i) {
          results[t].push_back(engines[t]->forward(rgb[i].to(device), depth[i].to(device)).cpu());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const char* const variants[] = {"vgg16", "vgg19"};
  for (int t = 0; t < 2; ++t) {
    const Engine eager(golden::parameters(variants[t]), on(engines[t]->device().index(), false));
    for (size_t i = 0; i < results[t].size(); ++i) {
      const at::Tensor expected = eager.forward(rgb[i % rgb.size()], depth[i % rgb.size()]).cpu();
      ASSERT_LE((results[t][i] - expected).abs().max().item<float>(), 2e-3F) << t << " " << i;
    }
  }
}

}  // namespace
}  // namespace hdfnet
