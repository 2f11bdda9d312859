// What only a GPU has: streams, graphs, planes beyond 2^31 elements, and each kernel called by
// itself with guards around its output.
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "cuda/arguments_from_tensors.h"
#include "cuda/concat_conv2d_arguments.h"
#include "cuda/max_pool2d_arguments.h"
#include "cuda/stem_conv2d_arguments.h"
#include "hdfnet/ops/dynamic_filter.h"
#include "hdfnet/ops/generated_dynamic_filter.h"
#include "support.h"

namespace hdfnet::test {
namespace {

const at::TensorOptions kHalfOnGpu = at::TensorOptions().device(at::kCUDA).dtype(at::kHalf);

class Cuda : public testing::Test {
 protected:
  void SetUp() override { HDFNET_REQUIRE_DEVICE(at::kCUDA); }
};

// The work must be on the current stream: the input gets its values on that stream too, late.
TEST_F(Cuda, RunsOnTheCurrentStream) {
  const FilterCase c{4, 16, 80, 80, 3, {1, 3, 5}, false, Layout::kContiguous, Layout::kContiguous};
  const at::Tensor values = c.make_x(kHalfOnGpu);
  const at::Tensor kernels = c.make_kernels(kHalfOnGpu);
  const at::Tensor exact = ops::dynamic_filter_reference(values, kernels, c.dilations);
  c10::cuda::device_synchronize();
  const auto stream = c10::cuda::getStreamFromPool();
  at::Tensor result;
  {
    const c10::cuda::CUDAStreamGuard guard(stream);
    at::Tensor x = at::zeros_like(values);
    at::Tensor busy = at::randn({4096, 4096}, kHalfOnGpu);
    for (int i = 0; i < 4; ++i) busy = at::matmul(busy, busy);
    x.copy_(values);
    result = ops::dynamic_filter(x, kernels, c.dilations);
  }
  stream.synchronize();
  EXPECT_LT(error_of(result, exact).largest, 0.05);
}

// A replay must compute from what the inputs hold then, on all paths.
TEST_F(Cuda, GraphReplaysUseTheInputsOfTheMoment) {
  for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
    for (const bool generated : {false, true}) {
      const FilterCase c{1, 16, 40, 40, 3, {1, 3, 5}, true, layout, layout};
      at::Tensor x = c.make_x(kHalfOnGpu);
      at::Tensor kernels = c.make_kernels(kHalfOnGpu);
      at::Tensor y = random_map({1, 64, 40, 40}, kHalfOnGpu, layout).unsqueeze(1);
      const at::Tensor weight = at::randn({3, 144, 64}, kHalfOnGpu) / 8;
      const auto call = [&] {
        return generated
                   ? ops::generated_dynamic_filter(x, y, weight, std::nullopt, c.dilations, true)
                   : ops::dynamic_filter(x, kernels, c.dilations, true);
      };
      const auto reference = [&] {
        return generated ? ops::generated_dynamic_filter_reference(x, y, weight, std::nullopt,
                                                                   c.dilations, true)
                         : ops::dynamic_filter_reference(x, kernels, c.dilations, true);
      };
      at::cuda::CUDAGraph graph;
      at::Tensor result;
      const auto stream = c10::cuda::getStreamFromPool();
      {
        const c10::cuda::CUDAStreamGuard guard(stream);
        call();
        stream.synchronize();
        graph.capture_begin();
        result = call();
        graph.capture_end();
      }
      for (int round = 0; round < 2; ++round) {
        x.normal_();
        kernels.normal_();
        y.normal_();
        result.fill_(std::nan(""));
        c10::cuda::device_synchronize();
        {
          const c10::cuda::CUDAStreamGuard guard(stream);
          graph.replay();
        }
        c10::cuda::device_synchronize();
        EXPECT_LT(error_of(result, reference()).largest, 0.1) << name(layout) << generated;
      }
    }
  }
}

// Each kernel that can take a case takes it, writes every element, and nothing around the output.
TEST_F(Cuda, EveryKernelWritesItsOutputAndNothingElse) {
  std::mt19937 random(5);
  int64_t by_planes = 0;
  int64_t by_pixels = 0;
  int64_t by_small = 0;
  for (int64_t i = 0; i < 60 * test_scale(); ++i) {
    const FilterCase c = random_case(random);
    if (c.batch == 0) continue;
    const at::ScalarType type = kTypes[random() % std::size(kTypes)];
    SCOPED_TRACE(c.describe() + " " + at::toString(type));
    const at::Tensor x = c.make_x(at::TensorOptions().device(at::kCUDA).dtype(type));
    const at::Tensor kernels = c.make_kernels(x.options());
    const auto sizes = ops::check_dynamic_filter<int64_t>("test", x, kernels, c.dilations);
    const int64_t channels = (sizes.branches + (c.concat_input ? 1 : 0)) * c.channels;
    const at::Tensor exact = ops::dynamic_filter_reference(x, kernels, c.dilations, c.concat_input);
    constexpr int64_t kGuard = 1024;
    const int64_t count = exact.numel();
    using Launch = cudaError_t (*)(const ops::cuda::FilterArguments&, cudaStream_t);
    const std::pair<bool (*)(const ops::cuda::FilterArguments&, std::string*), Launch>
        kernels_here[] = {{&ops::cuda::can_run_filter_small, &ops::cuda::launch_filter_small},
                          {&ops::cuda::can_run_filter_planes, &ops::cuda::launch_filter_planes},
                          {&ops::cuda::can_run_filter_pixels, &ops::cuda::launch_filter_pixels},
                          {nullptr, &ops::cuda::launch_filter_strided}};
    for (const auto& [can_run, launch] : kernels_here) {
      const at::Tensor guarded = at::full({count + 2 * kGuard}, std::nan(""), x.options());
      const at::Tensor between = guarded.narrow(0, kGuard, count);
      const at::Tensor out =
          x.suggest_memory_format() == at::MemoryFormat::ChannelsLast
              ? between.view({c.batch, c.height, c.width, channels}).permute({0, 3, 1, 2})
              : between.view({c.batch, channels, c.height, c.width});
      const auto arguments =
          ops::cuda::filter_arguments(x, kernels, out, sizes, c.dilations, c.concat_input, 0);
      std::string why;
      if (can_run != nullptr && !can_run(arguments, &why)) {
        EXPECT_FALSE(why.empty());
        continue;
      }
      by_planes += can_run == &ops::cuda::can_run_filter_planes ? 1 : 0;
      by_small += can_run == &ops::cuda::can_run_filter_small ? 1 : 0;
      by_pixels += can_run == &ops::cuda::can_run_filter_pixels ? 1 : 0;
      ASSERT_EQ(launch(arguments, nullptr), cudaSuccess);
      EXPECT_TRUE(guarded.narrow(0, 0, kGuard).isnan().all().item<bool>());
      EXPECT_TRUE(guarded.narrow(0, kGuard + count, kGuard).isnan().all().item<bool>());
      const double allowed = type == at::kBFloat16 ? 0.3 : type == at::kHalf ? 0.05 : 1e-4;
      EXPECT_LT(error_of(out, exact).largest, allowed);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(by_planes, 0);
  EXPECT_GT(by_pixels, 0);
  EXPECT_GT(by_small, 0);
}

// The same for the generated filter: on every card, each kernel that it has.
TEST_F(Cuda, EveryGeneratedFilterWritesItsOutputAndNothingElse) {
  using ops::cuda::GeneratedFilterArguments;
  const std::vector<int64_t> dilations = {1, 3, 8};
  constexpr int64_t kGuard = 1024;
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const bool last : {false, true}) {
      for (const auto& [height, width] : {std::pair{1, 8}, {19, 24}, {33, 40}, {100, 136}}) {
        const Layout layout = last ? Layout::kChannelsLast : Layout::kContiguous;
        SCOPED_TRACE(std::string(at::toString(type)) + " " + name(layout) + " " +
                     std::to_string(height) + " x " + std::to_string(width));
        const auto options = at::TensorOptions().device(at::kCUDA).dtype(type);
        const at::Tensor x = random_map({2, 32, height, width}, options, layout);
        const at::Tensor y =
            random_map({2, 3 * 40, height, width}, options, layout).unflatten(1, {3, 40});
        const at::Tensor weight = at::randn({3, 32 * 9, 40}, options) / 6;
        const at::Tensor bias = at::randn({3, 32 * 9}, options);
        const auto sizes =
            ops::check_generated_dynamic_filter<int64_t>("test", x, y, weight, bias, dilations);
        const at::Tensor exact =
            ops::generated_dynamic_filter_reference(x, y, weight, bias, dilations, true);
        using Launch = cudaError_t (*)(const GeneratedFilterArguments&, cudaStream_t);
        const std::pair<bool (*)(const GeneratedFilterArguments&, std::string*), Launch> kernels[] =
            {{&ops::cuda::can_run_generated_filter_wgmma,
              &ops::cuda::launch_generated_filter_wgmma},
             {&ops::cuda::can_run_generated_filter_mma, &ops::cuda::launch_generated_filter_mma},
             {nullptr, &ops::cuda::launch_generated_filter_scalar}};
        for (const auto& [can_run, launch] : kernels) {
          const at::Tensor guarded = at::full({exact.numel() + 2 * kGuard}, std::nan(""), options);
          const at::Tensor between = guarded.narrow(0, kGuard, exact.numel());
          const at::Tensor out =
              last ? between.view({2, height, width, 4 * 32}).permute({0, 3, 1, 2})
                   : between.view({2, 4 * 32, height, width});
          const GeneratedFilterArguments arguments = ops::cuda::generated_filter_arguments(
              x, y, weight, bias, out, sizes, dilations, true, 0);
          std::string why;
          if (can_run != nullptr && !can_run(arguments, &why)) {
            EXPECT_FALSE(why.empty());
            continue;
          }
          ASSERT_EQ(launch(arguments, nullptr), cudaSuccess);
          EXPECT_TRUE(guarded.narrow(0, 0, kGuard).isnan().all().item<bool>());
          EXPECT_TRUE(guarded.narrow(0, kGuard + exact.numel(), kGuard).isnan().all().item<bool>());
          const double allowed = type == at::kBFloat16 ? 0.6 : type == at::kHalf ? 0.1 : 1e-3;
          EXPECT_LT(error_of(out, exact).largest, allowed);
        }
        if (HasFailure()) return;
      }
    }
  }
}

// Which tensor core kernel a call gets, in which form, and the reason why not.
TEST_F(Cuda, GeneratedFilterTakesTheFormForItsShape) {
  at::globalContext().setAllowTF32CuBLAS(true);
  const auto form = [](at::ScalarType type, Layout layout, int64_t channels, int64_t groups,
                       int64_t width, int64_t kernel_size,
                       const std::vector<int64_t>& dilations = {1, 2, 3}) -> std::string {
    const auto options = at::TensorOptions().device(at::kCUDA).dtype(type);
    const at::Tensor x = random_map({1, channels, 24, width}, options, layout);
    const at::Tensor y =
        random_map({1, groups * 64, 24, width}, options, layout).unflatten(1, {groups, 64});
    const at::Tensor weight = at::randn({3, channels * kernel_size * kernel_size, 64}, options);
    const auto sizes =
        ops::check_generated_dynamic_filter<int64_t>("test", x, y, weight, std::nullopt, dilations);
    const at::Tensor out = random_map({1, 3 * channels, 24, width}, options, layout);
    const auto arguments = ops::cuda::generated_filter_arguments(x, y, weight, std::nullopt, out,
                                                                 sizes, dilations, false, 0);
    std::string why;
    if (!ops::cuda::can_run_generated_filter_mma(arguments, &why)) return "none: " + why;
    if (ops::cuda::can_run_generated_filter_wgmma(arguments, &why)) return "warpgroups";
    if (ops::cuda::can_stage_generated_filter(arguments, nullptr)) return "staged: " + why;
    if (type != at::kFloat) return why;
    return ops::cuda::can_widen_generated_filter(arguments, &why) ? "wide" : why;
  };
  constexpr auto kFirst = Layout::kContiguous;
  constexpr auto kLast = Layout::kChannelsLast;
  const auto* const properties = at::cuda::getCurrentDeviceProperties();
  const bool hopper = properties->major == 9 && properties->minor == 0;
  const std::string aligned = hopper ? "warpgroups" : "staged: compute capability other than 9.0";
  EXPECT_EQ(form(at::kHalf, kFirst, 16, 3, 24, 3), aligned);
  EXPECT_EQ(form(at::kBFloat16, kFirst, 16, 3, 24, 3), aligned);
  EXPECT_EQ(form(at::kHalf, kLast, 64, 1, 19, 3, {1, 3, 8}), aligned);
  EXPECT_EQ(form(at::kHalf, kLast, 64, 1, 19, 3, {1, 3, 9}), "staged: dilation above 8");
  EXPECT_EQ(form(at::kBFloat16, kFirst, 16, 3, 20, 3), "strides of x or y are no multiples of 8");
  EXPECT_EQ(form(at::kBFloat16, Layout::kSliced, 16, 3, 22, 3), "x or y is not 16-byte aligned");
  EXPECT_EQ(form(at::kHalf, kLast, 16, 3, 24, 5), "kernel size other than 3");
  EXPECT_EQ(form(at::kFloat, kLast, 64, 1, 24, 3), "wide");
  EXPECT_EQ(form(at::kFloat, kLast, 16, 1, 24, 3), "wide");
  EXPECT_EQ(form(at::kFloat, kFirst, 16, 3, 19, 3), "wide");
  EXPECT_EQ(form(at::kFloat, kLast, 16, 3, 24, 3), "one block alone reads a tile's y");
  EXPECT_EQ(form(at::kHalf, kLast, 24, 3, 24, 3), "none: channels of x are no multiple of 16");
  at::globalContext().setAllowTF32CuBLAS(false);
  EXPECT_EQ(form(at::kFloat, kLast, 64, 1, 24, 3), "none: float without TF32");
}

// 2.2e9 taps: offsets beyond 32 bits, in both formats. Compared on the last rows only.
TEST_F(Cuda, MoreThanTwoToThe31Elements) {
  const int64_t side = 3000;
  for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
    const FilterCase c{1, 28, side, side, 3, {1}, false, layout, layout};
    const at::Tensor x = c.make_x(kHalfOnGpu);
    const at::Tensor kernels = c.make_kernels(kHalfOnGpu);
    ASSERT_GT(kernels.numel(), int64_t{1} << 31);
    const at::Tensor result = ops::dynamic_filter(x, kernels, {1});
    const at::Tensor exact =
        ops::dynamic_filter_reference(x.narrow(1, 24, 4).narrow(2, side - 8, 8),
                                      kernels.narrow(2, 24, 4).narrow(4, side - 8, 8), {1});
    EXPECT_LT(
        error_of(result.narrow(1, 24, 4).narrow(2, side - 7, 7), exact.narrow(2, 1, 7)).largest,
        0.05)
        << name(layout);
  }
}

// Where a predicate says no the operator falls back in silence, many times slower.
TEST_F(Cuda, TheNetworksShapesHaveKernels) {
  std::string why;
  for (const ops::cuda::Type x_type : {ops::cuda::Type::kFloat, ops::cuda::Type::kHalf}) {
    for (const int64_t channels : {1, 3}) {
      for (const int kernel : {3, 7}) {
        ops::cuda::StemConvolutionArguments stem{};
        stem.x_type = x_type;
        stem.type = ops::cuda::Type::kHalf;
        stem.batch = 32;
        stem.channels = channels;
        stem.outputs = 64;
        stem.x_height = stem.x_width = stem.height = stem.width = 320;
        stem.kernel_size = kernel;
        stem.stride = kernel == 3 ? 1 : 2;
        EXPECT_TRUE(ops::cuda::can_run_stem_conv2d_mma(stem, &why)) << why;
        stem.stride = 3;
        EXPECT_FALSE(ops::cuda::can_run_stem_conv2d_mma(stem, &why));
        EXPECT_EQ(why, "neither 3x3 with stride 1 nor 7x7 with stride 2");
      }
    }
  }
  for (const int kernel : {2, 3}) {
    ops::cuda::MaxPoolArguments pool{};
    pool.type = ops::cuda::Type::kBFloat16;
    pool.batch = 32;
    pool.channels = 64;
    pool.x_height = pool.x_width = 320;
    pool.height = pool.width = 160;
    pool.kernel_size = kernel;
    pool.stride = 2;
    pool.padding = kernel / 3;
    pool.x_is_dense = true;
    EXPECT_TRUE(ops::cuda::can_run_max_pool2d(pool, &why)) << why;
    pool.channels = 60;
    EXPECT_FALSE(ops::cuda::can_run_max_pool2d(pool, &why));
    EXPECT_EQ(why, "channels not in sixteen bytes");
  }
  for (const auto& [channels, outputs] :
       {std::pair{64, 32}, {128, 64}, {256, 64}, {512, 64}, {1024, 64}, {2048, 64}}) {
    ops::cuda::ConcatConvolutionArguments transport{};
    transport.type = ops::cuda::Type::kHalf;
    transport.batch = 32;
    transport.height = transport.width = 320;
    transport.inputs = 1;
    transport.inputs_are_dense = true;
    transport.input[0] = {nullptr, channels, channels};
    transport.groups = 1;
    transport.group_inputs = channels;
    transport.group_outputs = outputs;
    transport.kernel_size = 1;
    EXPECT_TRUE(ops::cuda::can_run_pointwise_conv2d_mma(transport, &why)) << why;
    transport.group_outputs = 48;
    EXPECT_FALSE(ops::cuda::can_run_pointwise_conv2d_mma(transport, &why));
    EXPECT_EQ(why, "outputs not in thirty-twos");
  }
}

}  // namespace
}  // namespace hdfnet::test
