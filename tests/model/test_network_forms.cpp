// The forms that the network takes on a card (joins read in place, stages in blocks of images) are
// the same network: run here on the CPU, in float32, where their operators are made of ATen's.

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

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
    {"blocks_of_1", [](Backend& b) { b.fine_block = 1; }},
    {"blocks_of_2", [](Backend& b) { b.fine_block = 2; }},
    {"all",
     [](Backend& b) {
       b.read_in_place = b.transport_in_place = b.decoder_in_place = true;
       b.fine_block = 2;
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

std::string test_name(const testing::TestParamInfo<NetworkForms::ParamType>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Variants, NetworkForms,
                         testing::Combine(testing::Values("vgg16", "res50"),
                                          testing::ValuesIn(kForms)),
                         test_name);

}  // namespace
}  // namespace hdfnet
