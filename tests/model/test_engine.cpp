// The engine's own contract: errors, inputs of every size, precision, clock, threads.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <thread>

#include "golden.h"
#include "hdfnet/engine.h"
#include "hdfnet/error.h"
#include "hdfnet/module_clock.h"

namespace hdfnet {
namespace {

const Parameters& vgg16() {
  static const Parameters parameters = golden::parameters("vgg16");
  return parameters;
}

const Engine& cpu_engine() {
  static const Engine engine(vgg16(), {});
  return engine;
}

template <typename Call>
void expect_error(ErrorCode code, const std::string& part, const Call& call) {
  try {
    call();
    FAIL() << "no error, expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Engine, ReportsItsSettings) {
  EXPECT_EQ(cpu_engine().precision(), Precision::fp32);
  EXPECT_EQ(cpu_engine().device(), at::Device(at::kCPU));
  EXPECT_EQ(cpu_engine().ddpm(), DdpmMode::fused);
  EXPECT_EQ(cpu_engine().architecture().variant, Variant::vgg16);
}

TEST(Engine, RefusesInputsThatDoNotFit) {
  const at::Tensor rgb = at::rand({1, 3, 32, 32});
  const at::Tensor depth = at::rand({1, 1, 32, 32});
  const Engine& engine = cpu_engine();
  const ErrorCode code = ErrorCode::invalid_argument;
  expect_error(code, "rgb: expected shape (N, 3, H, W), found [1, 1, 32, 32]",
               [&] { engine.forward(depth, depth); });
  expect_error(code, "depth: expected shape (N, 1, H, W), found [1, 3, 32, 32]",
               [&] { engine.forward(rgb, rgb); });
  expect_error(code, "same batch and size", [&] { engine.forward(rgb, at::rand({1, 1, 32, 33})); });
  expect_error(code, "same batch and size", [&] { engine.forward(rgb, at::rand({2, 1, 32, 32})); });
  expect_error(code, "rgb: expected float32, found Double",
               [&] { engine.forward(rgb.to(at::kDouble), depth); });
  expect_error(code, "at least 16 x 16", [&] {
    engine.forward(at::rand({1, 3, 15, 40}), at::rand({1, 1, 15, 40}));
  });
  expect_error(code, "at least one image", [&] {
    engine.forward(at::rand({0, 3, 32, 32}), at::rand({0, 1, 32, 32}));
  });
}

TEST(Engine, RefusesDevicesAndPrecisionsThatDoNotExist) {
  EngineOptions options;
  options.precision = Precision::fp16;
  expect_error(ErrorCode::device, "precision fp16 exists on CUDA devices only",
               [&] { Engine(vgg16(), options); });
  options.precision = Precision::automatic;
  options.device = at::Device(at::kCUDA, 99);
  try {
    const Engine engine(vgg16(), options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device);
  }
}

TEST(Engine, GivesTheSameMapAloneAndInABatch) {
  const at::Tensor rgb = at::rand({3, 3, 64, 80});
  const at::Tensor depth = at::rand({3, 1, 64, 80});
  const at::Tensor together = cpu_engine().forward(rgb, depth);
  for (int64_t i = 0; i < 3; ++i) {
    const at::Tensor alone = cpu_engine().forward(rgb.narrow(0, i, 1), depth.narrow(0, i, 1));
    EXPECT_LE((alone - together.narrow(0, i, 1)).abs().max().item<float>(), 1e-5F);
  }
}

TEST(Engine, TakesStridedInputs) {
  const at::Tensor rgb = at::rand({1, 3, 40, 48});
  const at::Tensor depth = at::rand({1, 1, 40, 48});
  const at::Tensor expected = cpu_engine().forward(rgb, depth);
  const at::Tensor strided = rgb.transpose(2, 3).contiguous().transpose(2, 3);
  EXPECT_LE((cpu_engine().forward(strided, depth) - expected).abs().max().item<float>(), 1e-6F);
}

TEST(Engine, RunsInBf16OnTheCpu) {
  EngineOptions options;
  options.precision = Precision::bf16;
  const Engine engine(vgg16(), options);
  const auto [rgb, depth] = golden::inputs("even");
  const at::Tensor difference =
      (engine.forward(rgb, depth) - golden::array("vgg16.even.out")).abs();
  EXPECT_LE(difference.max().item<double>(),
            2 * golden::original_loss("vgg16", "even", "bf16").largest);
}

TEST(Engine, SeveralThreadsGetTheSameAsOne) {
  const at::Tensor rgb = at::rand({1, 3, 64, 64});
  const at::Tensor depth = at::rand({1, 1, 64, 64});
  const at::Tensor expected = cpu_engine().forward(rgb, depth);
  std::vector<at::Tensor> results(3);
  std::vector<std::thread> threads;
  for (at::Tensor& result : results) {
    threads.emplace_back([&] { result = cpu_engine().forward(rgb, depth); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const at::Tensor& result : results) {
    EXPECT_LE((result - expected).abs().max().item<float>(), 1e-6F);
  }
}

class Graphs : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "needs a CUDA device";
    options.device = at::Device(at::kCUDA);
    eager_options = options;
    eager_options.graphs = false;
  }

  EngineOptions options, eager_options;
};

TEST_F(Graphs, GiveWhatPlainPassesGiveAndLeaveEarlierResultsAlone) {
  const Engine engine(vgg16(), options);
  const Engine eager(vgg16(), eager_options);
  std::vector<at::Tensor> results, expected;
  for (int pass = 0; pass < 9; ++pass) {
    // Shapes take turns; each is seen (plain), captured, and replayed.
    const std::vector<int64_t> sizes[] = {{1, 3, 96, 128}, {3, 3, 64, 64}, {2, 3, 96, 128}};
    std::vector<int64_t> shape = sizes[pass % 3];
    const at::Tensor rgb = at::rand(shape);
    shape[1] = 1;
    const at::Tensor depth = at::rand(shape);
    results.push_back(engine.forward(rgb, depth));
    expected.push_back(eager.forward(rgb, depth));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_LE((results[i] - expected[i]).abs().max().item<float>(), 2e-3F) << i;
  }
}

TEST_F(Graphs, ServeSeveralThreads) {
  const Engine engine(vgg16(), options);
  const Engine eager(vgg16(), eager_options);
  std::vector<at::Tensor> rgb, depth;
  for (int i = 0; i < 4; ++i) {
    rgb.push_back(at::rand({1, 3, 64, 64}));
    depth.push_back(at::rand({1, 1, 64, 64}));
  }
  std::vector<at::Tensor> results(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int pass = 0; pass < 20; ++pass) results[i] = engine.forward(rgb[i], depth[i]).cpu();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 4; ++i) {
    const at::Tensor expected = eager.forward(rgb[i], depth[i]).cpu();
    EXPECT_LE((results[i] - expected).abs().max().item<float>(), 2e-3F) << i;
  }
}

// cuDNN adds the last image's pixels up in another order in some convolutions (batch 32 at 40 x 40
// with 512 channels): its map may differ in the last bits, and no other's may.
TEST(Engine, AnImagesPlaceInTheBatchIsAtMostAMatterOfRounding) {
  if (!at::hasCUDA()) GTEST_SKIP() << "needs a CUDA device";
  EngineOptions options;
  options.device = at::Device(at::kCUDA);
  const Engine engine(vgg16(), options);
  const at::Tensor rgb = at::rand({1, 3, 320, 320}).expand({32, -1, -1, -1}).contiguous();
  const at::Tensor depth = at::rand({1, 1, 320, 320}).expand({32, -1, -1, -1}).contiguous();
  const at::Tensor maps = engine.forward(rgb, depth).cpu();
  for (int64_t i = 1; i < 31; ++i) EXPECT_TRUE(at::equal(maps[i], maps[0])) << i;
  EXPECT_LE((maps[31] - maps[0]).abs().max().item<float>(), 2e-3F);
}

class ClockOnDevice : public testing::TestWithParam<at::DeviceType> {};

TEST_P(ClockOnDevice, TimesEveryModuleOnceAPass) {
  if (GetParam() == at::kCUDA && !at::hasCUDA()) GTEST_SKIP() << "needs a CUDA device";
  EngineOptions options;
  options.device = at::Device(GetParam());
  const Engine engine(vgg16(), options);
  ModuleClock clock(engine.device());
  const at::Tensor rgb = at::rand({1, 3, 64, 64});
  const at::Tensor depth = at::rand({1, 1, 64, 64});
  for (int pass = 0; pass < 3; ++pass) {
    engine.forward(rgb, depth, &clock);
    clock.finish_pass();
  }
  EXPECT_EQ(clock.timings().size(), golden::modules("vgg16", "even").size());
  for (const ModuleTiming& timing : clock.timings()) {
    ASSERT_EQ(timing.milliseconds.size(), 3U) << timing.name;
    for (const double value : timing.milliseconds) EXPECT_GT(value, 0) << timing.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ClockOnDevice, testing::Values(at::kCPU, at::kCUDA));

TEST(ModuleCost, CountsTheNetworksArithmetic) {
  class Total final : public ModuleObserver {
   public:
    void begin(std::string_view) override {}
    void end(std::string_view, const at::Tensor&, const ModuleCost& cost) override {
      flop += cost.flop;
    }
    double flop = 0;
  } total;
  // 183 GFLOP at 320x320 for the original graph; composing `down` into the first convolution of the
  // generators changes it by less than a percent.
  cpu_engine().forward(at::rand({1, 3, 320, 320}), at::rand({1, 1, 320, 320}), &total);
  EXPECT_NEAR(total.flop * 1e-9, 183, 3);
}

}  // namespace
}  // namespace hdfnet
