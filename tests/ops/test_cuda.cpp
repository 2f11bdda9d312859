// What only a GPU has: streams, graphs, planes beyond 2^31 elements, and each kernel called by
// itself with guards around its output.
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <limits>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cuda/arguments_from_tensors.h"
#include "cuda/concat_conv2d_arguments.h"
#include "cuda/max_pool2d_arguments.h"
#include "cuda/stem_conv2d_arguments.h"
#include "hdfnet/ops/convolution.h"
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

// The limit of shared memory belongs to a kernel: threads that launch it with more and with less
// must not take it from each other.
TEST_F(Cuda, ThreadsLaunchOneKernelWithMoreAndLessSharedMemory) {
  constexpr int kThreads = 4;
  std::vector<at::Tensor> results(kThreads), expected;
  std::vector<std::string> faults(kThreads);
  const auto call = [](int thread) {
    const int64_t channels = thread % 2 == 0 ? 512 : 256;
    const auto options = kHalfOnGpu;
    const at::Tensor x =
        at::full({1, channels, 20, 20}, 0.25, options).to(at::MemoryFormat::ChannelsLast);
    const at::Tensor weight = at::full({64, channels, 1, 1}, 1.0 / 128, options);
    return ops::concat_conv2d({x}, weight, std::nullopt, 1, false);
  };
  for (int t = 0; t < kThreads; ++t) expected.push_back(call(t).cpu());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      try {
        for (int i = 0; i < 5000; ++i) results[t] = call(t);
      } catch (const std::exception& error) {
        faults[t] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t) {
    ASSERT_EQ(faults[t], "");
    EXPECT_TRUE(at::equal(results[t].cpu(), expected[t]));
  }
}

// Small calls begin before the one before them has ended, but read its result, and write to memory
// that it may still read (the allocator gives it back at once), when it has.
TEST_F(Cuda, AChainOfSmallCallsIsInOrder) {
  constexpr int kCalls = 16;
  for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
    const FilterCase c{1, 16, 80, 80, 3, {3}, false, layout, layout};
    const at::Tensor first = c.make_x(kHalfOnGpu);
    const at::Tensor kernels = c.make_kernels(kHalfOnGpu).div_(3);
    const auto chain = [&](bool one_by_one) {
      at::Tensor x = first;
      for (int i = 0; i < kCalls; ++i) {
        x = ops::dynamic_filter(x, kernels, c.dilations);
        if (one_by_one) c10::cuda::device_synchronize();
      }
      return x;
    };
    const at::Tensor expected = chain(true);
    EXPECT_TRUE(expected.isfinite().all().item<bool>());
    EXPECT_TRUE(at::equal(chain(false), expected)) << name(layout);
    at::cuda::CUDAGraph graph;
    at::Tensor result;
    const auto stream = c10::cuda::getStreamFromPool();
    {
      const c10::cuda::CUDAStreamGuard guard(stream);
      graph.capture_begin();
      result = chain(false);
      graph.capture_end();
    }
    for (int round = 0; round < 3; ++round) {
      result.zero_();
      c10::cuda::device_synchronize();
      graph.replay();
      c10::cuda::device_synchronize();
      EXPECT_TRUE(at::equal(result, expected)) << name(layout);
    }
  }
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

using FilterKernel = std::pair<bool (*)(const ops::cuda::FilterArguments&, std::string*),
                               cudaError_t (*)(const ops::cuda::FilterArguments&, cudaStream_t)>;

// A call of dynamic_filter, and what it should give.
struct FilterCall {
  FilterCase c;
  at::Tensor x, kernels, exact;

  FilterCall(const FilterCase& what, at::ScalarType type) : c(what) {
    x = c.make_x(at::TensorOptions().device(at::kCUDA).dtype(type));
    kernels = c.make_kernels(x.options());
    find_exact();
  }
  void find_exact() {
    exact = ops::dynamic_filter_reference(x, kernels, c.dilations, c.concat_input);
  }

  // The result, between guards that stay as they were, `shift` elements away from where it is
  // aligned; undefined where the kernel refuses and says why.
  at::Tensor result_of(const FilterKernel& kernel, int64_t shift = 0) const {
    const int64_t guard = 1024 + shift;
    const auto sizes = ops::check_dynamic_filter<int64_t>("test", x, kernels, c.dilations);
    const int64_t count = exact.numel();
    const at::Tensor guarded = at::full({count + 2 * guard}, std::nan(""), x.options());
    const at::Tensor between = guarded.narrow(0, guard, count);
    at::Tensor out =
        x.suggest_memory_format() == at::MemoryFormat::ChannelsLast
            ? between.view({c.batch, c.height, c.width, exact.size(1)}).permute({0, 3, 1, 2})
            : between.view(exact.sizes());
    const auto arguments =
        ops::cuda::filter_arguments(x, kernels, out, sizes, c.dilations, c.concat_input, 0);
    const auto& [can_run, launch] = kernel;
    std::string why;
    if (can_run != nullptr && !can_run(arguments, &why)) {
      EXPECT_FALSE(why.empty());
      return {};
    }
    EXPECT_EQ(launch(arguments, nullptr), cudaSuccess);
    EXPECT_TRUE(guarded.narrow(0, 0, guard).isnan().all().item<bool>());
    EXPECT_TRUE(guarded.narrow(0, guard + count, guard).isnan().all().item<bool>());
    return out;
  }

  double allowed() const {
    return x.scalar_type() == at::kBFloat16 ? 0.3 : x.scalar_type() == at::kHalf ? 0.05 : 1e-4;
  }
};

const FilterKernel kSmall = {&ops::cuda::can_run_filter_small, &ops::cuda::launch_filter_small};
const FilterKernel kPixelRing = {&ops::cuda::can_run_filter_pixel_ring,
                                 &ops::cuda::launch_filter_pixel_ring};
const FilterKernel kRing = {&ops::cuda::can_run_filter_ring, &ops::cuda::launch_filter_ring};

// Each kernel that can take a case takes it, writes every element, and nothing around the output.
TEST_F(Cuda, EveryKernelWritesItsOutputAndNothingElse) {
  const FilterKernel every[] = {
      kSmall,
      kRing,
      kPixelRing,
      {&ops::cuda::can_run_filter_planes, &ops::cuda::launch_filter_planes},
      {&ops::cuda::can_run_filter_pixels, &ops::cuda::launch_filter_pixels},
      {nullptr, &ops::cuda::launch_filter_strided}};
  std::map<const FilterKernel*, int> taken;
  std::mt19937 random(5);
  for (int64_t i = 0; i < 60 * test_scale(); ++i) {
    const FilterCase c = random_case(random);
    if (c.batch == 0) continue;
    const at::ScalarType type = kTypes[random() % std::size(kTypes)];
    SCOPED_TRACE(c.describe() + " " + at::toString(type));
    const FilterCall call(c, type);
    for (const FilterKernel& kernel : every) {
      const at::Tensor result = call.result_of(kernel);
      if (!result.defined()) continue;
      ++taken[&kernel];
      EXPECT_LT(error_of(result, call.exact).largest, call.allowed());
    }
    if (HasFailure()) return;
  }
  for (const FilterKernel& kernel : every) {
    EXPECT_TRUE(kernel == kRing || kernel == kPixelRing || taken[&kernel] > 0);
  }
}

bool is_hopper() {
  const auto* const properties = at::cuda::getCurrentDeviceProperties();
  return properties->major == 9 && properties->minor == 0;
}

// What a kernel writes where results are and where they are not numbers.
void expect_right(const FilterCase& c, at::ScalarType type, const FilterKernel& kernel) {
  SCOPED_TRACE(c.describe() + " " + at::toString(type));
  FilterCall call(c, type);
  const at::Tensor result = call.result_of(kernel);
  ASSERT_TRUE(result.defined());
  EXPECT_LT(error_of(result, call.exact).largest, call.allowed());

  const double infinity = std::numeric_limits<double>::infinity();
  call.kernels[0][0][0][0][0][0] = infinity;  // meets what is outside of the plane
  call.kernels[0][1][0][c.kernel_size * c.kernel_size - 1][c.height - 1][c.width - 1] = infinity;
  const int64_t middle = c.kernel_size / 2 * c.kernel_size;  // outside in its column alone
  call.kernels[0][0][c.channels - 1][middle][c.height / 2][0] = infinity;
  call.kernels[0][1][c.channels - 1][middle + c.kernel_size - 1][c.height / 2][c.width - 1] =
      infinity;
  call.x[0][0][c.height / 2][c.width / 2] = std::nan("");
  call.find_exact();
  const at::Tensor odd = call.result_of(kernel);
  ASSERT_TRUE(odd.defined());
  EXPECT_TRUE(at::equal(odd.isnan().cpu(), call.exact.isnan().cpu()));
}

// The same in every type that the fast kernels take, up to the first failure.
void expect_right(const std::vector<FilterCase>& cases, const FilterKernel& kernel) {
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const FilterCase& c : cases) {
      expect_right(c, type, kernel);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// What the kernel for small calls was measured on, and why it does not take the rest. Needs no GPU:
// nothing is read.
TEST(CudaChoice, TheSmallKernelTakesUpTo20MegabytesOfResults) {
  const auto reason = [](at::ScalarType type, int64_t batch, int64_t side, int64_t kernel_size) {
    const auto options = at::TensorOptions().dtype(type);
    const at::Tensor x = at::empty({batch, 16, side, side}, options);
    const at::Tensor kernels =
        at::empty({batch, 3, 16, kernel_size * kernel_size, side, side}, options);
    const at::Tensor out = at::empty({batch, 3 * 16, side, side}, options);
    const std::vector<int64_t> dilations = {1, 3, 5};
    const auto sizes = ops::check_dynamic_filter<int64_t>("test", x, kernels, dilations);
    const auto arguments = ops::cuda::filter_arguments(x, kernels, out, sizes, dilations, false, 0);
    std::string why;
    return ops::cuda::can_run_filter_small(arguments, &why) ? "it does" : why;
  };
  EXPECT_EQ(reason(at::kHalf, 32, 80, 3), "it does");
  EXPECT_EQ(reason(at::kHalf, 33, 80, 3), "more than 20 MB of results");
  EXPECT_EQ(reason(at::kFloat, 16, 80, 3), "it does");
  EXPECT_EQ(reason(at::kFloat, 17, 80, 3), "more than 20 MB of results");
  const std::string narrow = "more than 5 MB of results, not aligned to 8 bytes";
  EXPECT_EQ(reason(at::kHalf, 6, 90, 3), "it does");
  EXPECT_EQ(reason(at::kHalf, 7, 90, 3), narrow);
  EXPECT_EQ(reason(at::kFloat, 7, 90, 3), "it does");
  EXPECT_EQ(reason(at::kFloat, 4, 91, 3), narrow);
  EXPECT_EQ(reason(at::kHalf, 1, 256, 3), "plane of more than 60000 pixels");
  EXPECT_EQ(reason(at::kHalf, 1, 80, 5), "kernel size other than 3");
}

// The kernel for small calls: four, two and one result a thread, with x from every distance to the
// words of a row; reach beyond the plane; blocks that are not full.
TEST_F(Cuda, TheSmallKernelWritesItsOutputAndNothingElse) {
  constexpr auto kFirst = Layout::kContiguous;
  const std::vector<FilterCase> cases = {
      {1, 16, 20, 20, 3, {1, 3, 5}, true, kFirst, kFirst},
      {2, 3, 9, 12, 3, {2, 4, 6, 7}, false, kFirst, kFirst},
      {1, 2, 5, 4, 3, {1, 8, 13}, true, kFirst, kFirst},
      {1, 5, 33, 132, 3, {9, 10, 11}, true, kFirst, kFirst},
      {1, 3, 7, 10, 3, {1, 2, 3, 12}, true, kFirst, kFirst},
      {2, 2, 6, 9, 3, {1, 4}, true, kFirst, kFirst},
  };
  expect_right(cases, kSmall);
}

// The same where only some of what it reads and writes is aligned to words of two or four results,
// where rows of x are apart, and where images or channels share x.
TEST_F(Cuda, TheSmallKernelTakesTensorsAsTheyLie) {
  constexpr auto kFirst = Layout::kContiguous;
  const FilterCase c = {2, 3, 9, 12, 3, {1, 2, 5}, true, kFirst, kFirst};
  const auto expect_right_result = [](const FilterCall& call, int64_t shift) {
    const at::Tensor result = call.result_of(kSmall, shift);
    ASSERT_TRUE(result.defined());
    EXPECT_LT(error_of(result, call.exact).largest, call.allowed());
  };
  const auto shifted = [](const at::Tensor& tensor, int64_t elements) {
    const at::Tensor flat = at::empty({tensor.numel() + elements}, tensor.options());
    return flat.narrow(0, elements, tensor.numel()).view(tensor.sizes()).copy_(tensor);
  };
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const int64_t elements : {1, 2, 4}) {
      SCOPED_TRACE(std::string(at::toString(type)) + " by " + std::to_string(elements));
      FilterCall of_x(c, type);
      of_x.x = shifted(of_x.x, elements);
      expect_right_result(of_x, 0);
      FilterCall of_kernels(c, type);
      of_kernels.kernels = shifted(of_kernels.kernels, elements);
      expect_right_result(of_kernels, 0);
      expect_right_result(FilterCall(c, type), elements);
    }
    const auto with = [&](const at::Tensor& x) {
      FilterCall call(c, type);
      call.x = x;
      call.find_exact();
      expect_right_result(call, 0);
    };
    const auto options = at::TensorOptions().device(at::kCUDA).dtype(type);
    for (const auto& [first, more] : {std::pair<int64_t, int64_t>{4, 8}, {2, 2}, {0, 2}, {0, 1}}) {
      SCOPED_TRACE(std::string(at::toString(type)) + " rows apart by " + std::to_string(more));
      with(at::randn({c.batch, c.channels, c.height, c.width + more}, options)
               .narrow(3, first, c.width));
    }
    SCOPED_TRACE(at::toString(type));
    with(at::randn({1, c.channels, c.height, c.width}, options)
             .expand({c.batch, c.channels, c.height, c.width}));
    with(at::randn({c.batch, 1, c.height, c.width}, options)
             .expand({c.batch, c.channels, c.height, c.width}));
    if (HasFailure()) return;
  }
}

// The ring of taps: rows of one piece and of many, parts and bands that are not full, more bands
// than blocks, reach beyond the plane, even and odd dilations; and what is not finite.
TEST_F(Cuda, TheRingWritesItsOutputAndNothingElse) {
  if (!is_hopper()) GTEST_SKIP() << "needs compute capability 9.0";
  constexpr auto kFirst = Layout::kContiguous;
  const std::vector<FilterCase> cases = {
      {2, 3, 1, 8, 3, {1, 2}, false, kFirst, kFirst},
      {1, 2, 37, 40, 3, {1, 3, 5}, true, kFirst, kFirst},
      {1, 1, 300, 264, 3, {1, 2, 5}, false, kFirst, kFirst},
      {1, 2, 3, 1024, 3, {1, 2}, false, kFirst, kFirst},
      {1, 3, 9, 16, 5, {1, 4, 9}, true, kFirst, kFirst},
      {2, 2, 80, 80, 7, {1, 2, 5}, true, kFirst, kFirst},
      {3, 70, 70, 72, 3, {1, 3}, false, kFirst, kFirst},
      {1, 2, 90, 88, 5, {2, 3}, false, kFirst, kFirst},
  };
  expect_right(cases, kRing);
}

// Where the ring is the faster one, and why it is not elsewhere.
TEST_F(Cuda, TheRingIsForLargeKernels) {
  const auto reason = [](int64_t batch, int64_t side, int64_t kernel_size, int dilation = 5) {
    ops::cuda::FilterArguments a{};
    a.type = ops::cuda::Type::kHalf;
    a.batch = batch;
    a.branches = 3;
    a.channels = 64;
    a.height = a.width = side;
    a.kernel_size = static_cast<int>(kernel_size);
    for (int b = 0; b < 3; ++b) a.dilation[b] = dilation;
    std::string why;
    return ops::cuda::filter_ring_pays(a, &why) ? "it pays" : why;
  };
  EXPECT_EQ(reason(4, 256, 7), "it pays");
  EXPECT_EQ(reason(4, 256, 5), "it pays");
  EXPECT_EQ(reason(4, 256, 3), "it pays");
  EXPECT_EQ(reason(4, 256, 3, 30), "reach leaves room for few taps");
  EXPECT_EQ(reason(32, 80, 7), "rows of less than 512 bytes");
  EXPECT_EQ(reason(1, 40, 7), "kernels of less than 64 MB");
}

// channels_last: several pixels a step and one, steps that are not full, more steps than blocks,
// reach beyond the plane, a slice of a map.
TEST_F(Cuda, ThePixelRingWritesItsOutputAndNothingElse) {
  if (!is_hopper()) GTEST_SKIP() << "needs compute capability 9.0";
  constexpr auto kLast = Layout::kChannelsLast;
  const std::vector<FilterCase> cases = {
      {2, 16, 1, 7, 3, {1, 2, 3}, false, kLast, kLast},
      {2, 16, 80, 80, 3, {1, 3, 5}, true, kLast, kLast},
      {1, 64, 37, 40, 3, {1, 3, 5}, false, kLast, kLast},
      {3, 8, 19, 23, 3, {1, 4, 30, 2}, true, kLast, kLast},
      {2, 24, 21, 22, 3, {1, 2, 5}, true, kLast, kLast},
      {1, 128, 9, 50, 3, {3, 5}, false, kLast, kLast},
      {12, 64, 16, 20, 3, {1, 3, 5}, true, kLast, kLast},  // steps that pass over images
  };
  expect_right(cases, kPixelRing);
}

// The same for the generated filter: on every card, each kernel that it has.
TEST_F(Cuda, EveryGeneratedFilterWritesItsOutputAndNothingElse) {
  using ops::cuda::GeneratedFilterArguments;
  const std::vector<int64_t> dilations = {1, 3, 8};
  constexpr int64_t kGuard = 1024;
  for (const auto& [type, tf32] : {std::pair{at::kFloat, false},
                                   {at::kFloat, true},
                                   {at::kHalf, false},
                                   {at::kBFloat16, false}}) {
    at::globalContext().setAllowTF32CuBLAS(tf32);
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
             {&ops::cuda::can_run_generated_filter_wgmma_tf32,
              &ops::cuda::launch_generated_filter_wgmma_tf32},
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
          const double allowed = type == at::kBFloat16       ? 0.6
                                 : type == at::kHalf || tf32 ? 0.1
                                                             : 1e-3;
          EXPECT_LT(error_of(out, exact).largest, allowed);
        }
        if (HasFailure()) return;
      }
    }
  }
  at::globalContext().setAllowTF32CuBLAS(false);
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
    if (ops::cuda::can_run_generated_filter_wgmma_tf32(arguments, nullptr)) return "warpgroups";
    return ops::cuda::can_widen_generated_filter(arguments, &why) ? "wide" : why;
  };
  constexpr auto kFirst = Layout::kContiguous;
  constexpr auto kLast = Layout::kChannelsLast;
  const std::string aligned =
      is_hopper() ? "warpgroups" : "staged: compute capability other than 9.0";
  EXPECT_EQ(form(at::kHalf, kFirst, 16, 3, 24, 3), aligned);
  EXPECT_EQ(form(at::kBFloat16, kFirst, 16, 3, 24, 3), aligned);
  EXPECT_EQ(form(at::kHalf, kLast, 64, 1, 19, 3, {1, 3, 8}), aligned);
  EXPECT_EQ(form(at::kHalf, kLast, 64, 1, 19, 3, {1, 3, 9}), "staged: dilation above 8");
  EXPECT_EQ(form(at::kBFloat16, kFirst, 16, 3, 20, 3), "strides of x or y are no multiples of 8");
  EXPECT_EQ(form(at::kBFloat16, Layout::kSliced, 16, 3, 22, 3), "x or y is not 16-byte aligned");
  EXPECT_EQ(form(at::kHalf, kLast, 16, 3, 24, 5), "kernel size other than 3");
  const std::string last = is_hopper() ? "warpgroups" : "wide";
  EXPECT_EQ(form(at::kFloat, kLast, 64, 1, 24, 3), last);
  EXPECT_EQ(form(at::kFloat, kLast, 16, 3, 19, 3, {1, 3, 8}),
            is_hopper() ? "warpgroups" : "one block alone reads a tile's y");
  EXPECT_EQ(form(at::kFloat, kLast, 16, 1, 24, 3, {1, 3, 9}), "wide");
  EXPECT_EQ(form(at::kFloat, kLast, 16, 3, 24, 3, {1, 3, 9}), "one block alone reads a tile's y");
  EXPECT_EQ(form(at::kFloat, kFirst, 16, 3, 19, 3), "wide");
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
