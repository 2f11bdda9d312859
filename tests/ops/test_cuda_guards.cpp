// Each kernel of the convolutions called by itself: it writes all of its result, and nothing before
// or after it. What it writes: test_convolution.cpp.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "cuda/arguments_from_tensors.h"
#include "cuda/bias_relu_arguments.h"
#include "cuda/concat_conv2d_arguments.h"
#include "cuda/conv2d_add_arguments.h"
#include "cuda/max_pool2d_arguments.h"
#include "cuda/stem_conv2d_arguments.h"
#include "cuda/upsample_arguments.h"
#include "support.h"

namespace hdfnet::test {
namespace {

class CudaGuards : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { HDFNET_REQUIRE_DEVICE(at::kCUDA); }
  at::TensorOptions options() const {
    return at::TensorOptions().device(at::kCUDA).dtype(GetParam());
  }
  at::Tensor some(at::IntArrayRef sizes) const { return at::randn(sizes, options()); }
};

#define HDFNET_TWO_BYTE_TYPES_ONLY() \
  if (GetParam() == at::kFloat) GTEST_SKIP() << "the kernels are for two-byte types"

/// Room for a result, NaN in it and around it.
class Guarded {
 public:
  Guarded(int64_t count, const at::TensorOptions& options)
      : whole_(at::full({count + 2 * kGuard}, std::nan(""), options)) {}
  void* inside() const { return room().data_ptr(); }
  void expect_only_inside_written() const {
    EXPECT_FALSE(room().isnan().any().item<bool>());
    EXPECT_TRUE(whole_.narrow(0, 0, kGuard).isnan().all().item<bool>());
    EXPECT_TRUE(whole_.narrow(0, whole_.numel() - kGuard, kGuard).isnan().all().item<bool>());
  }

 private:
  static constexpr int64_t kGuard = 4096;
  at::Tensor room() const { return whole_.narrow(0, kGuard, whole_.numel() - 2 * kGuard); }
  at::Tensor whole_;
};

// A convolution of one dense map of groups * inputs channels.
struct Convolution {
  int64_t batch, height, width, groups, inputs, outputs;
  int kernel_size;
  int64_t pixels() const { return batch * height * width; }
};

struct ConvolutionTensors {
  at::Tensor x, weight, bias;
  ops::cuda::ConcatConvolutionArguments arguments{};

  ConvolutionTensors(const Convolution& c, const at::TensorOptions& options) {
    const int64_t k = c.kernel_size;
    x = at::randn({c.pixels(), c.groups * c.inputs}, options);
    weight = at::randn({c.groups * c.outputs, k, k, c.inputs}, options) / 32;
    bias = at::randn({c.groups * c.outputs}, options);
    arguments.input[0] = {x.data_ptr(), c.groups * c.inputs, c.inputs};
    arguments.inputs = 1;
    arguments.inputs_are_dense = true;
    arguments.weight = weight.data_ptr();
    arguments.bias = bias.data_ptr();
    arguments.type = ops::cuda::type_of(x);
    arguments.batch = c.batch;
    arguments.height = c.height;
    arguments.width = c.width;
    arguments.groups = c.groups;
    arguments.group_inputs = c.inputs;
    arguments.group_outputs = c.outputs;
    arguments.kernel_size = c.kernel_size;
    arguments.relu = true;
  }
};

TEST_P(CudaGuards, OfConvolutions) {
  HDFNET_TWO_BYTE_TYPES_ONLY();
  using ops::cuda::ConcatConvolutionArguments;
  struct Kernel {
    const char* name;
    bool (*can_run)(const ConcatConvolutionArguments&, std::string*);
    cudaError_t (*launch)(const ConcatConvolutionArguments&, cudaStream_t);
    Convolution cases[3];
  };
  const Kernel kernels[] = {
      {"mma",
       &ops::cuda::can_run_concat_conv2d_mma,
       &ops::cuda::launch_concat_conv2d_mma,
       {{2, 21, 35, 3, 16, 16, 3}, {1, 1, 1, 2, 32, 48, 3}, {1, 9, 17, 1, 64, 240, 3}}},
      {"pointwise",
       &ops::cuda::can_run_pointwise_conv2d_mma,
       &ops::cuda::launch_pointwise_conv2d_mma,
       {{4, 97, 131, 1, 64, 32, 1}, {1, 5, 4, 1, 128, 96, 1}, {1, 1, 1, 1, 64, 64, 1}}},
      {"warpgroups",
       &ops::cuda::can_run_concat_conv2d_wgmma,
       &ops::cuda::launch_concat_conv2d_wgmma,
       {{3, 150, 97, 1, 64, 64, 3}, {4, 81, 95, 1, 256, 64, 3}, {3, 97, 113, 1, 64, 128, 3}}}};
  for (const Kernel& kernel : kernels) {
    for (const Convolution& c : kernel.cases) {
      SCOPED_TRACE(std::string(kernel.name) + " " + std::to_string(c.height));
      ConvolutionTensors tensors(c, options());
      std::string why;
      if (!kernel.can_run(tensors.arguments, &why)) {
        EXPECT_EQ(std::string(kernel.name) + why, "warpgroupscompute capability other than 9.0");
        continue;
      }
      const Guarded out(c.pixels() * c.groups * c.outputs, options());
      tensors.arguments.out = out.inside();
      ASSERT_EQ(kernel.launch(tensors.arguments, nullptr), cudaSuccess);
      out.expect_only_inside_written();
    }
  }
}

TEST_P(CudaGuards, OfAHead) {
  HDFNET_TWO_BYTE_TYPES_ONLY();
  for (const Convolution& c : {Convolution{2, 37, 50, 1, 32, 32, 3}, {1, 1, 3, 1, 32, 64, 3}}) {
    ConvolutionTensors tensors(c, options());
    const at::Tensor head = some({c.outputs + 8});
    const Guarded out(c.pixels(), options().dtype(at::kFloat));
    tensors.arguments.head_weight = head.data_ptr();
    tensors.arguments.head_bias = head.narrow(0, c.outputs, 1).data_ptr();
    tensors.arguments.head_out = static_cast<float*>(out.inside());
    ASSERT_TRUE(ops::cuda::can_run_concat_conv2d_mma(tensors.arguments, nullptr));
    ASSERT_EQ(ops::cuda::launch_concat_conv2d_mma(tensors.arguments, nullptr), cudaSuccess);
    out.expect_only_inside_written();
  }
}

TEST_P(CudaGuards, OfTheEndOfAStage) {
  HDFNET_TWO_BYTE_TYPES_ONLY();
  for (const Convolution& c :
       {Convolution{3, 150, 97, 1, 64, 64, 3}, {3, 97, 113, 1, 128, 128, 3}}) {
    ConvolutionTensors tensors(c, options());
    const int64_t sides = c.outputs / 2;
    const at::Tensor side_weight = some({sides, c.outputs});
    const at::Tensor side_bias = some({sides});
    const Guarded pooled(c.batch * (c.height / 2) * (c.width / 2) * c.outputs, options());
    const Guarded side(c.pixels() * sides, options());
    tensors.arguments.pool_out = pooled.inside();
    tensors.arguments.side_weight = side_weight.data_ptr();
    tensors.arguments.side_bias = side_bias.data_ptr();
    tensors.arguments.side_out = side.inside();
    tensors.arguments.side_outputs = sides;
    std::string why;
    if (!ops::cuda::can_run_concat_conv2d_wgmma(tensors.arguments, &why)) {
      EXPECT_EQ(why, "compute capability other than 9.0");
      continue;
    }
    ASSERT_EQ(ops::cuda::launch_concat_conv2d_wgmma(tensors.arguments, nullptr), cudaSuccess);
    pooled.expect_only_inside_written();
    side.expect_only_inside_written();
  }
}

TEST_P(CudaGuards, OfAStem) {
  for (const auto& [kernel_size, stride] : {std::pair{3, 1}, {7, 2}}) {
    for (const int64_t channels : {1, 3}) {
      const bool in_float = GetParam() == at::kFloat;
      if (in_float && kernel_size != 3) continue;
      const at::Tensor x = at::randn({2, channels, 33, 45}, options().dtype(at::kFloat));
      const at::Tensor weight = some({64, channels, kernel_size, kernel_size});
      ops::cuda::StemConvolutionArguments a{};
      a.x = x.data_ptr();
      a.weight = weight.data_ptr();
      a.x_type = ops::cuda::type_of(x);
      a.type = ops::cuda::type_of(weight);
      for (int i = 0; i < 4; ++i) {
        a.x_stride[i] = x.stride(i);
        a.weight_stride[i] = weight.stride(i);
      }
      a.batch = 2, a.channels = channels, a.outputs = 64;
      a.x_height = 33, a.x_width = 45;
      a.height = 32 / stride + 1, a.width = 44 / stride + 1;
      a.kernel_size = kernel_size, a.stride = stride;
      const Guarded out(a.batch * a.height * a.width * a.outputs, options());
      a.out = out.inside();
      const auto can_run =
          in_float ? &ops::cuda::can_run_stem_conv2d_scalar : &ops::cuda::can_run_stem_conv2d_mma;
      const auto launch =
          in_float ? &ops::cuda::launch_stem_conv2d_scalar : &ops::cuda::launch_stem_conv2d_mma;
      ASSERT_TRUE(can_run(a, nullptr));
      ASSERT_EQ(launch(a, nullptr), cudaSuccess);
      out.expect_only_inside_written();
    }
  }
}

TEST_P(CudaGuards, OfPooling) {
  for (const int kernel_size : {2, 3}) {
    ops::cuda::MaxPoolArguments a{};
    const at::Tensor x = some({2, 33, 45, 64});
    a.x = x.data_ptr();
    a.type = ops::cuda::type_of(x);
    a.batch = 2, a.channels = 64, a.x_height = 33, a.x_width = 45;
    a.kernel_size = kernel_size, a.stride = 2, a.padding = kernel_size / 3;
    a.height = (33 + 2 * a.padding - kernel_size) / 2 + 1;
    a.width = (45 + 2 * a.padding - kernel_size) / 2 + 1;
    a.x_is_dense = true;
    const Guarded out(a.batch * a.height * a.width * a.channels, options());
    a.out = out.inside();
    ASSERT_TRUE(ops::cuda::can_run_max_pool2d(a, nullptr));
    ASSERT_EQ(ops::cuda::launch_max_pool2d(a, nullptr), cudaSuccess);
    out.expect_only_inside_written();
  }
}

TEST_P(CudaGuards, OfTheEndOfABlock) {
  HDFNET_TWO_BYTE_TYPES_ONLY();
  for (const auto& [channels, outputs] : {std::pair{64, 128}, {512, 256}}) {
    const int64_t pixels = 128 * 150 - 77;  // the last tile is not full
    const at::Tensor x = some({pixels, channels});
    const at::Tensor weight = some({outputs, channels});
    const at::Tensor other = some({pixels, outputs});
    ops::cuda::PointwiseAddArguments a{};
    a.x = x.data_ptr();
    a.weight = weight.data_ptr();
    a.other = other.data_ptr();
    a.type = ops::cuda::type_of(x);
    a.pixel_stride = a.channels = channels;
    a.outputs = outputs;
    a.pixels = pixels;
    const Guarded out(pixels * outputs, options());
    a.out = out.inside();
    if (std::string why; !ops::cuda::can_run_pointwise_add_wgmma(a, &why)) GTEST_SKIP() << why;
    ASSERT_EQ(ops::cuda::launch_pointwise_add_wgmma(a, nullptr), cudaSuccess);
    out.expect_only_inside_written();
  }
}

TEST_P(CudaGuards, OfTheUpsampledMapAndItsSum) {
  for (const auto& [channels, add] : {std::pair{64, true}, {64, false}, {3, true}, {3, false}}) {
    const at::Tensor x = some({2, 7, 6, channels});
    const at::Tensor y = some({2, 13, 11, channels});
    ops::cuda::UpsampleArguments a{};
    a.x = x.data_ptr();
    if (add) a.y = y.data_ptr();
    a.type = ops::cuda::type_of(x);
    a.batch = 2, a.channels = channels, a.height = 13, a.width = 11, a.x_height = 7, a.x_width = 6;
    const Guarded out(y.numel(), options());
    a.out = out.inside();
    ASSERT_EQ(ops::cuda::launch_upsample(a, nullptr), cudaSuccess);
    out.expect_only_inside_written();
  }
}

INSTANTIATE_TEST_SUITE_P(, CudaGuards, testing::Values(at::kHalf, at::kBFloat16, at::kFloat),
                         [](const auto& instance) { return at::toString(instance.param); });

}  // namespace
}  // namespace hdfnet::test
