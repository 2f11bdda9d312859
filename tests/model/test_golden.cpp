// The network against the original's float64 outputs: whole network, module by module, DDPM alone.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <tuple>

#include "ddpm.h"
#include "golden.h"
#include "hdfnet/engine.h"

namespace hdfnet {
namespace {

// Filling ResNet-50's parameters takes seconds, so each variant's are made once.
const Parameters& cached_parameters(const std::string& variant) {
  static std::string cached;
  static Parameters parameters;
  if (cached != variant) {
    parameters.clear();
    parameters = golden::parameters(variant);
    cached = variant;
  }
  return parameters;
}

struct Setting {
  const char* column;  // of the table of the original's losses
  at::DeviceType device;
  Precision precision;
};

constexpr Setting kSettings[] = {
    {"cpu", at::kCPU, Precision::fp32},   {"fp32", at::kCUDA, Precision::fp32},
    {"tf32", at::kCUDA, Precision::tf32}, {"fp16", at::kCUDA, Precision::fp16},
    {"bf16", at::kCUDA, Precision::bf16},
};

class GoldenNetwork : public testing::TestWithParam<std::tuple<const char*, Setting, DdpmMode>> {
 protected:
  void SetUp() override {
    if (std::get<1>(GetParam()).device == at::kCUDA && !at::hasCUDA()) {
      GTEST_SKIP() << "needs a CUDA device";
    }
  }
};

TEST_P(GoldenNetwork, LosesAtMostTwiceWhatTheOriginalDoes) {
  const auto [variant, setting, ddpm] = GetParam();
  EngineOptions options;
  options.device = at::Device(setting.device);
  options.precision = setting.precision;
  options.ddpm = ddpm;
  const Engine engine(cached_parameters(variant), options);
  for (const char* tag : {"even", "odd", "full"}) {
    const auto [rgb, depth] = golden::inputs(tag);
    const at::Tensor expected = golden::array(std::string(variant) + "." + tag + ".out");
    const at::Tensor actual = engine.forward(rgb, depth).cpu();
    ASSERT_EQ(actual.sizes(), expected.sizes()) << tag;
    const at::Tensor difference = (actual - expected).to(at::kDouble).abs();
    const golden::Loss loss = golden::original_loss(variant, tag, setting.column);
    const double largest = difference.max().item<double>();
    const double mean = difference.mean().item<double>();
    EXPECT_LE(largest, 2 * loss.largest) << tag;
    EXPECT_LE(mean, 2 * loss.mean) << tag;
    std::printf("%s %s %s %s: largest %.3g (original %.3g), mean %.3g (original %.3g)\n", variant,
                tag, setting.column, std::string(name(ddpm)).c_str(), largest, loss.largest, mean,
                loss.mean);
  }
}

std::string test_name(const testing::TestParamInfo<GoldenNetwork::ParamType>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).column + "_" +
         std::string(name(std::get<2>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(Variants, GoldenNetwork,
                         testing::Combine(testing::Values("vgg16", "vgg19", "res50"),
                                          testing::ValuesIn(kSettings),
                                          testing::Values(DdpmMode::fused, DdpmMode::reference)),
                         test_name);

// Compares each module's output with the original's mean and deviation.
class MomentsCheck final : public ModuleObserver {
 public:
  explicit MomentsCheck(std::map<std::string, golden::Moments> expected)
      : expected_(std::move(expected)) {}

  void begin(std::string_view) override {}

  void end(std::string_view module, const at::Tensor& output, const ModuleCost& cost) override {
    const std::string name(module);
    const auto entry = expected_.find(name);
    ASSERT_NE(entry, expected_.end()) << name << " is no module of the original";
    // The head's sigmoid follows the classifier; the original's module is the plain convolution.
    const at::Tensor values = output.to(at::kDouble);
    EXPECT_NEAR(values.mean().item<double>(), entry->second.mean, 1e-4) << name;
    EXPECT_NEAR(values.std().item<double>(), entry->second.deviation, 1e-4) << name;
    EXPECT_GT(cost.flop, 0) << name;
    EXPECT_GT(cost.bytes, 0) << name;
    expected_.erase(entry);
  }

  const std::map<std::string, golden::Moments>& unseen() const { return expected_; }

 private:
  std::map<std::string, golden::Moments> expected_;
};

class GoldenModules : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(GoldenModules, MeansAndDeviationsAgree) {
  const auto [variant, tag] = GetParam();
  const Engine engine(cached_parameters(variant), {});
  MomentsCheck check(golden::modules(variant, tag));
  const auto [rgb, depth] = golden::inputs(tag);
  engine.forward(rgb, depth, &check);
  for (const auto& entry : check.unseen()) ADD_FAILURE() << entry.first << " did not run";
}

INSTANTIATE_TEST_SUITE_P(Variants, GoldenModules,
                         testing::Combine(testing::Values("vgg16", "vgg19", "res50"),
                                          testing::Values("even", "odd")));

class GoldenDdpm
    : public testing::TestWithParam<std::tuple<const char*, DdpmMode, at::DeviceType>> {};

TEST_P(GoldenDdpm, AgreesToFiveDigits) {
  const auto [tag, mode, device] = GetParam();
  if (device == at::kCUDA && !at::hasCUDA()) GTEST_SKIP() << "needs a CUDA device";
  Backend backend;
  backend.device = at::Device(device);
  if (device == at::kCUDA) backend.memory_format = at::MemoryFormat::Contiguous;
  Architecture architecture;
  architecture.dilations = {1, 3, 5};
  const Parameters parameters = golden::ddpm_parameters();
  const auto ddpm = mode == DdpmMode::fused
                        ? make_fused_ddpm(parameters, "", architecture, backend)
                        : make_reference_ddpm(parameters, "", architecture, backend);
  const int64_t h = *tag == 'a' ? 20 : 15;
  const int64_t w = *tag == 'a' ? 20 : 17;
  const auto input = [&](const std::string& name) {
    return golden::uniform("ddpm." + std::string(tag) + "." + name, 2 * 64 * h * w)
        .to(at::kFloat)
        .view({2, 64, h, w})
        .to(backend.device)
        .contiguous(backend.memory_format);
  };
  const at::Tensor expected = golden::array("ddpm." + std::string(tag) + ".out");
  const at::Tensor actual = ddpm->forward(input("x"), input("y"), nullptr).cpu();
  const double scale = expected.abs().max().item<double>();
  EXPECT_LE((actual - expected).abs().max().item<double>(), 1e-5 * scale);
}

INSTANTIATE_TEST_SUITE_P(Tags, GoldenDdpm,
                         testing::Combine(testing::Values("a", "b"),
                                          testing::Values(DdpmMode::fused, DdpmMode::reference),
                                          testing::Values(at::kCPU, at::kCUDA)));

TEST(GoldenRule, MakesTheDocumentedFirstValues) {
  const at::Tensor u = golden::uniform("encoder1.0.weight", 4);
  const double expected[] = {-0.57995854, -0.70651049, 0.76685008, -0.77058027};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(u[i].item<double>(), expected[i], 5e-9);
}

}  // namespace
}  // namespace hdfnet
