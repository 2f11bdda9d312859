// The forms that the network takes on a card (joins read in place, stages that end pooled) are
// the same network: run here on the CPU, in float32, where their operators are made of ATen's.

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "golden.h"
#include "network.h"

namespace hdfnet {
namespace {

struct Form {
  const char* name;
  void (*set)(Backend&);
};

constexpr Form kForms[] = {
    {"in_place", [](Backend& b) { b.read_in_place = true; }},
    {"transport", [](Backend& b) { b.transport_in_place = true; }},
    {"decoder", [](Backend& b) { b.decoder_in_place = true; }},
    {"joined_transport", [](Backend& b) { b.joined_transport = true; }},
    {"stem", [](Backend& b) { b.stem_in_place = true; }},
    {"pool", [](Backend& b) { b.pool_values_only = true; }},
    {"packed", [](Backend& b) { b.packed = true; }},
    {"encoders", [](Backend& b) { b.encoders_beside_up_to = 4; }},
    {"fusions", [](Backend& b) { b.fusions_beside_up_to = 4; }},
    {"stage_end", [](Backend& b) { b.joined_transport = b.stage_end_in_place = true; }},
    {"all",
     [](Backend& b) {
       b.read_in_place = b.transport_in_place = b.decoder_in_place = true;
       b.joined_transport = b.stem_in_place = b.pool_values_only = b.stage_end_in_place = true;
       b.encoders_beside_up_to = b.fusions_beside_up_to = 4;
     }},
};

class NetworkForms : public testing::TestWithParam<std::tuple<const char*, Form>> {};

TEST_P(NetworkForms, GiveTheSameMap) {
  const auto [variant, form] = GetParam();
  const c10::InferenceMode inference;
  static std::string cached;
  static Parameters parameters;
  if (cached != variant) {
    parameters = golden::parameters(variant);
    cached = variant;
  }
  const Architecture architecture = inspect(parameters);
  const Backend plain;
  Backend other;
  form.set(other);
  const Network expected(parameters, architecture, DdpmMode::fused, plain);
  const Network actual(parameters, architecture, DdpmMode::fused, other);
  for (const auto& [height, width] : {std::pair{64, 80}, std::pair{51, 67}}) {
    const at::Tensor rgb =
        at::rand({3, 3, height, width}).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor depth = at::rand({3, 1, height, width});
    const at::Tensor difference =
        (expected.forward(rgb, depth, nullptr) - actual.forward(rgb, depth, nullptr)).abs();
    EXPECT_LE(difference.max().item<float>(), 2e-5F) << height << "x" << width;
  }
}

// On a card, in fp16, a form rounds elsewhere but is as near to float32 as the plain network.
TEST_P(NetworkForms, AreAsExactOnACard) {
  if (!at::hasCUDA()) GTEST_SKIP() << "needs a CUDA device, and none can be used here";
  const auto [variant, form] = GetParam();
  const c10::InferenceMode inference;
  const Parameters parameters = golden::parameters(variant);
  const Architecture architecture = inspect(parameters);
  Backend plain;
  plain.device = at::Device(at::kCUDA, 0);
  plain.dtype = at::kHalf;
  Backend other = plain;
  form.set(other);
  const Network exact(parameters, architecture, DdpmMode::fused, Backend());
  // Other inputs each time: memory is used again from the second pass on, and what another pass
  // left there must not pass for a result.
  std::vector<at::Tensor> rgb, depth, expected;
  for (int run = 0; run < 3; ++run) {
    rgb.push_back(at::rand({3, 3, 96, 80}).contiguous(at::MemoryFormat::ChannelsLast));
    depth.push_back(at::rand({3, 1, 96, 80}));
    expected.push_back(exact.forward(rgb[run], depth[run], nullptr));
  }
  const auto error_of = [&](const Backend& backend) {
    const Network network(parameters, architecture, DdpmMode::fused, backend);
    const at::ScalarType type = backend.stem_in_place ? at::kFloat : at::kHalf;
    const auto prepare = [&](const at::Tensor& x) {
      return x.to(backend.device, type).contiguous(at::MemoryFormat::ChannelsLast);
    };
    double largest = 0;
    for (int run = 0; run < 3; ++run) {
      const at::Tensor map = network.forward(prepare(rgb[run]), prepare(depth[run]), nullptr).cpu();
      EXPECT_TRUE(map.isfinite().all().item<bool>());
      largest = std::max(largest, (map - expected[run]).abs().mean().item<double>());
    }
    return largest;
  };
  EXPECT_LE(error_of(other), 2 * error_of(plain) + 1e-4);
}

std::string test_name(const testing::TestParamInfo<NetworkForms::ParamType>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Variants, NetworkForms,
                         testing::Combine(testing::Values("vgg16", "res50"),
                                          testing::ValuesIn(kForms)),
                         test_name);

}  // namespace
}  // namespace hdfnet
