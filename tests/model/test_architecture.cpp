// The variant is told from the parameters, and every wrong parameter is named.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "golden.h"
#include "hdfnet/architecture.h"
#include "hdfnet/engine.h"
#include "hdfnet/error.h"

namespace hdfnet {
namespace {

// Parameters of the right shapes, all zero: enough for every check of names, shapes and values.
Parameters zeros(const std::string& variant) {
  Parameters result;
  for (const auto& [name, shape] : golden::shapes(variant)) {
    result.emplace(name, at::zeros({}, at::kFloat).expand(shape));
  }
  return result;
}

const Parameters& vgg16() {
  static const Parameters parameters = zeros("vgg16");
  return parameters;
}

std::string message(const Parameters& parameters) {
  try {
    inspect(parameters);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::weights);
    return error.what();
  }
  return "no error";
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "message: " << text << "\nexpected: " << part;
}

TEST(Architecture, TellsTheVariants) {
  const Architecture vgg = inspect(vgg16());
  EXPECT_EQ(vgg.variant, Variant::vgg16);
  EXPECT_EQ(vgg.dilations, (std::vector<int64_t>{1, 3, 5}));
  EXPECT_EQ(vgg.ddpm_kernel_size, 3);
  EXPECT_EQ(vgg.fusion_strides, (std::vector<int>{16, 8, 4}));
  EXPECT_EQ(inspect(zeros("vgg19")).variant, Variant::vgg19);
  const Architecture resnet = inspect(zeros("res50"));
  EXPECT_EQ(resnet.variant, Variant::resnet50);
  EXPECT_EQ(resnet.fusion_strides, (std::vector<int>{32, 16, 8}));
}

TEST(Architecture, ReadsOtherKernelSizesAndDilationsFromTheShapes) {
  Parameters parameters;
  for (const auto& [name, tensor] : vgg16()) {
    std::string renamed = name;
    const size_t at = renamed.find("branch_5");
    if (at != std::string::npos) renamed.replace(at, 8, "branch_7");
    at::Tensor value = tensor;
    if (renamed.find("gernerate_kernel.2.weight") != std::string::npos) {
      value = at::zeros({16 * 25, 64, 1, 1});
    } else if (renamed.find("gernerate_kernel.2.bias") != std::string::npos) {
      value = at::zeros({16 * 25});
    }
    parameters.emplace(renamed, value);
  }
  const Architecture architecture = inspect(parameters);
  EXPECT_EQ(architecture.ddpm_kernel_size, 5);
  EXPECT_EQ(architecture.dilations, (std::vector<int64_t>{1, 3, 7}));
}

TEST(Architecture, NamesAMissingParameterWithItsShape) {
  Parameters parameters = vgg16();
  parameters.erase("upconv4.basicconv.0.weight");
  expect_contains(
      message(parameters),
      "missing parameter of HDFNet VGG16, expected: upconv4.basicconv.0.weight (64, 64, 3, 3)");
}

TEST(Architecture, NamesAnUnexpectedParameter) {
  Parameters parameters = vgg16();
  parameters.emplace("extra.weight", at::zeros({2, 3}));
  expect_contains(message(parameters),
                  "unexpected parameter, not of HDFNet VGG16: extra.weight (2, 3)");
}

TEST(Architecture, GivesExpectedAndActualShape) {
  Parameters parameters = vgg16();
  parameters["trans8.weight"] = at::zeros({64, 256, 1, 1});
  expect_contains(message(parameters),
                  "parameter trans8.weight: expected shape (64, 512, 1, 1), found (64, 256, 1, 1)");
}

TEST(Architecture, RefusesNonFiniteValues) {
  Parameters parameters = vgg16();
  at::Tensor bad = at::zeros({64});
  bad[3] = std::numeric_limits<float>::quiet_NaN();
  bad[5] = std::numeric_limits<float>::infinity();
  parameters["trans8.bias"] = bad;
  expect_contains(message(parameters),
                  "parameter trans8.bias: 2 of its 64 values are NaN, infinite or");
}

TEST(Architecture, RefusesIntegerWeightsWithoutScale) {
  Parameters parameters = vgg16();
  parameters["trans8.weight"] = at::zeros({64, 512, 1, 1}, at::kChar);
  try {
    Engine(parameters, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    expect_contains(error.what(), "parameter trans8.weight is int8 but trans8.weight_scale");
  }
}

// As export.py --dtype int8 stores them.
Parameters in_8_bits() {
  Parameters result;
  for (const auto& [name, tensor] : vgg16()) {
    const bool convolution = tensor.dim() == 4;
    const bool counter = name.find("num_batches_tracked") != std::string::npos;
    const at::ScalarType type = convolution ? at::kChar : counter ? at::kLong : at::kFloat;
    result.emplace(name, at::zeros({}, type).expand(tensor.sizes()));
    if (convolution) result.emplace(name + "_scale", at::ones({tensor.size(0)}));
  }
  return result;
}

TEST(Architecture, TakesParametersAsTheyAreStored) {
  EXPECT_EQ(inspect(in_8_bits()).variant, Variant::vgg16);
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16, at::kDouble}) {
    Parameters parameters;
    for (const auto& [name, tensor] : vgg16()) {
      parameters.emplace(name, at::zeros({}, type).expand(tensor.sizes()));
    }
    EXPECT_EQ(inspect(parameters).variant, Variant::vgg16) << at::toString(type);
    parameters["trans8.bias"] =
        at::full({64}, std::numeric_limits<double>::infinity()).to(parameters["trans8.bias"]);
    expect_contains(message(parameters),
                    "parameter trans8.bias: 64 of its 64 values are NaN, infinite or");
  }
}

TEST(Architecture, ChecksTheScalesOfIntegerWeights) {
  Parameters parameters = in_8_bits();
  parameters["trans8.weight_scale"] = at::ones({63});
  expect_contains(message(parameters),
                  "parameter trans8.weight_scale: expected one value for each of the 64 output");
  parameters.erase("trans8.weight_scale");
  expect_contains(message(parameters), "parameter trans8.weight is int8 but trans8.weight_scale");
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 1e37F}) {  // 1e37 * 128 is inf
    parameters["trans8.weight_scale"] = at::ones({64});
    parameters["trans8.weight_scale"][7] = bad;
    expect_contains(message(parameters),
                    "parameter trans8.weight_scale: 1 of its 64 values are NaN, infinite or");
  }
  parameters["trans8.weight_scale"] = at::ones({64});
  parameters["trans8.weight"] = at::zeros({64, 256, 1, 1}, at::kChar);
  expect_contains(message(parameters),
                  "parameter trans8.weight: expected shape (64, 512, 1, 1), found (64, 256, 1, 1)");
  parameters["trans8.weight"] = at::zeros({64, 512, 1, 1}, at::kChar);
  parameters.emplace("extra_scale", at::ones({2}));
  expect_contains(message(parameters), "unexpected parameter, not of HDFNet VGG16: extra_scale");
}

TEST(Architecture, RefusesWhatIsTooLargeForFloat32) {
  Parameters parameters = vgg16();
  parameters["trans8.bias"] = at::full({64}, 1e300, at::kDouble);
  expect_contains(message(parameters),
                  "parameter trans8.bias: 64 of its 64 values are NaN, infinite or");
}

TEST(Architecture, RefusesAnotherNetwork) {
  expect_contains(message({{"conv.weight", at::zeros({1})}}),
                  "not those of HDFNet VGG16, VGG19 or ResNet-50");
}

TEST(Architecture, RefusesBranchesWithoutADilation) {
  Parameters parameters = vgg16();
  parameters.emplace("selfdc_16.branch_x.fuse.weight", at::zeros({1}));
  expect_contains(message(parameters), "branch_x is not a branch of a DDPM");
}

TEST(Architecture, RefusesAnEvenKernel) {
  Parameters parameters = vgg16();
  parameters["selfdc_16.branch_1.gernerate_kernel.2.weight"] = at::zeros({16 * 4, 64, 1, 1});
  expect_contains(message(parameters), "are not channels x K x K for 16 channels and an odd K");
}

TEST(Architecture, DoesNotNeedTheBatchCounters) {
  Parameters parameters;
  for (const auto& entry : vgg16()) {
    if (entry.first.find("num_batches_tracked") == std::string::npos) parameters.insert(entry);
  }
  EXPECT_EQ(inspect(parameters).variant, Variant::vgg16);
}

TEST(Dequantize, MultipliesEachOutputChannelByItsScale) {
  const Parameters stored = {
      {"a.weight", at::tensor({2, -4, 6, 8}, at::kInt).to(at::kChar).view({2, 2, 1, 1})},
      {"a.weight_scale", at::tensor({0.5, 0.25}, at::kFloat)},
      {"b.weight", at::full({1}, 1.5, at::kHalf)},
      {"c_scale", at::tensor({3.0}, at::kFloat)}};
  const Parameters result = dequantize(stored);
  EXPECT_EQ(result.count("a.weight_scale"), 0U);
  EXPECT_TRUE(at::equal(result.at("a.weight").flatten(), at::tensor({1.0F, -2.0F, 1.5F, 2.0F})));
  EXPECT_EQ(result.at("b.weight").scalar_type(), at::kFloat);
  EXPECT_EQ(result.at("c_scale").item<float>(), 3.0F);
}

TEST(Dequantize, GivesOneParameterOfThem) {
  const Parameters stored = {{"a.weight", at::ones({2, 3}, at::kChar)},
                             {"a.weight_scale", at::full({2}, 0.5)},
                             {"b", at::ones({4}, at::kHalf)},
                             {"c", at::ones({1}, at::kLong)}};
  for (const auto& [name, expected] : dequantize(stored)) {
    const at::Tensor one = dequantized(stored, name);
    EXPECT_EQ(one.scalar_type(), expected.scalar_type()) << name;
    EXPECT_TRUE(one.equal(expected)) << name;
  }
  try {
    dequantized(stored, "d.bias");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::weights);
    EXPECT_STREQ(error.what(), "missing parameter d.bias.");
  }
}

TEST(Dequantize, ChecksTheScalesShape) {
  const Parameters stored = {{"a.weight", at::zeros({2, 2, 1, 1}, at::kChar)},
                             {"a.weight_scale", at::ones({3})}};
  try {
    dequantize(stored);
    FAIL() << "no error";
  } catch (const Error& error) {
    expect_contains(error.what(),
                    "a.weight_scale: expected one value for each of the 2 output channels");
  }
}

}  // namespace
}  // namespace hdfnet
