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
#include "cuda/filter_choice.h"
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

// The same for generated filters, among them and with dynamic_filter in turns.
TEST_F(Cuda, AChainOfGeneratedFiltersIsInOrder) {
  constexpr int kCalls = 16;
  for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
    // Of 9 images, NCHW is cut into runs on a card like the H200.
    for (const int64_t batch : {1, 9}) {
      const FilterCase c{batch, 16, 80, 80, 3, {3}, false, layout, layout};
      const at::Tensor first = c.make_x(kHalfOnGpu);
      const at::Tensor kernels = c.make_kernels(kHalfOnGpu).div_(3);
      const at::Tensor weight = at::randn({1, 16 * 9, 16}, kHalfOnGpu).div_(16);
      for (const int every : {1, 2}) {  // this many calls have one of dynamic_filter in front
        const auto chain = [&](bool one_by_one) {
          at::Tensor x = first;
          for (int i = 0; i < kCalls; ++i) {
            x = i % every != 0 ? ops::dynamic_filter(x, kernels, c.dilations)
                               : ops::generated_dynamic_filter(x, x.unsqueeze(1), weight,
                                                               std::nullopt, c.dilations)
                                     .tanh();
            if (one_by_one) c10::cuda::device_synchronize();
          }
          return x;
        };
        const at::Tensor expected = chain(true);
        EXPECT_TRUE(expected.isfinite().all().item<bool>());
        for (int round = 0; round < 5; ++round) {
          EXPECT_TRUE(at::equal(chain(false), expected))
              << name(layout) << ", " << batch << ", " << every;
        }
      }
    }
  }
}

// A thread whose first call this is has no context yet; it gets the same kernel and the same bits.
TEST_F(Cuda, AThreadsFirstCallIsAsEveryOther) {
  for (const at::ScalarType type : {at::kHalf, at::kFloat}) {
    const auto options = at::TensorOptions().device(at::kCUDA).dtype(type);
    at::globalContext().setAllowTF32CuBLAS(type == at::kFloat);
    const at::Tensor x = at::randn({1, 16, 64, 64}, options);
    const at::Tensor y = at::randn({1, 1, 64, 64, 64}, options);
    const at::Tensor weight = at::randn({3, 16 * 9, 64}, options);
    const auto call = [&] {
      return ops::generated_dynamic_filter(x, y, weight, std::nullopt, {1, 3, 5});
    };
    const at::Tensor expected = call();
    at::Tensor result;
    std::string fault;
    std::thread thread([&] {
      try {
        result = call();
      } catch (const std::exception& error) {
        fault = error.what();
      }
    });
    thread.join();
    ASSERT_EQ(fault, "");
    EXPECT_TRUE(at::equal(result, expected)) << at::toString(type);
  }
  at::globalContext().setAllowTF32CuBLAS(false);
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

const FilterKernel kDirect = {&ops::cuda::can_run_filter_direct, &ops::cuda::launch_filter_direct};
const FilterKernel kDirectPixels = {&ops::cuda::can_run_filter_direct_pixels,
                                    &ops::cuda::launch_filter_direct_pixels};
const FilterKernel kRing = {&ops::cuda::can_run_filter_ring, &ops::cuda::launch_filter_ring};

// Each kernel that can take a case takes it, writes every element, and nothing around the output.
TEST_F(Cuda, EveryKernelWritesItsOutputAndNothingElse) {
  const FilterKernel every[] = {
      kDirect,
      kRing,
      kDirectPixels,
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
    EXPECT_TRUE(kernel == kRing || taken[&kernel] > 0);
  }
}

bool is_hopper() {
  if (!at::hasCUDA()) return false;
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

// What the direct kernel takes, and why not the rest. Needs no GPU: nothing is read.
TEST(CudaChoice, TheDirectKernelTakesEverySizeWhereItIsWide) {
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
    return ops::cuda::can_run_filter_direct(arguments, &why) ? "it does" : why;
  };
  EXPECT_EQ(reason(at::kHalf, 1, 80, 3), "it does");
  EXPECT_EQ(reason(at::kHalf, 100, 80, 3), "it does");
  EXPECT_EQ(reason(at::kFloat, 100, 80, 3), "it does");
  const std::string narrow = "more than 5 MB of results, not aligned to 8 bytes";
  EXPECT_EQ(reason(at::kHalf, 6, 90, 3), "it does");
  EXPECT_EQ(reason(at::kHalf, 7, 90, 3), narrow);
  EXPECT_EQ(reason(at::kFloat, 7, 90, 3), "it does");
  EXPECT_EQ(reason(at::kFloat, 4, 91, 3), narrow);
  EXPECT_EQ(reason(at::kHalf, 1, 488, 3), "it does");
  EXPECT_EQ(reason(at::kHalf, 1, 492, 3), "plane of more than 60000 words");
  EXPECT_EQ(reason(at::kFloat, 1, 346, 3), "it does");
  EXPECT_EQ(reason(at::kFloat, 1, 348, 3), "plane of more than 60000 words");
  EXPECT_EQ(reason(at::kHalf, 1, 80, 5), "kernel size other than 3");
}

// Which kernel a call gets, and why none of those before it.
TEST(CudaChoice, TheFastestFilterIsAskedFirst) {
  using ops::cuda::FilterKernel;
  const auto choice = [](Layout layout, int64_t batch, int64_t channels, int64_t side,
                         int64_t kernel_size, std::string* why) {
    const auto options = at::TensorOptions().dtype(at::kHalf);
    const auto make = [&](at::IntArrayRef sizes) {
      const at::Tensor map = at::empty(sizes, options);
      return layout == Layout::kChannelsLast ? map.contiguous(at::MemoryFormat::ChannelsLast) : map;
    };
    const int64_t taps = kernel_size * kernel_size;
    const at::Tensor x = make({batch, channels, side, side});
    const at::Tensor kernels =
        make({batch, 3 * channels * taps, side, side}).view({batch, 3, channels, taps, side, side});
    const at::Tensor out = make({batch, 3 * channels, side, side});
    const std::vector<int64_t> dilations = {1, 3, 5};
    const auto sizes = ops::check_dynamic_filter<int64_t>("test", x, kernels, dilations);
    return ops::cuda::choose_filter(
        ops::cuda::filter_arguments(x, kernels, out, sizes, dilations, false, 0), why);
  };
  constexpr auto kFirst = Layout::kContiguous, kLast = Layout::kChannelsLast;
  std::string why;
  // On Hopper the ring could run the first of these, too.
  EXPECT_EQ(choice(kFirst, 1, 64, 256, 3, &why), FilterKernel::kDirect);
  EXPECT_EQ(why, "");
  EXPECT_EQ(choice(kFirst, 1, 64, 256, 5, &why),
            is_hopper() ? FilterKernel::kRing : FilterKernel::kPlanes);
  EXPECT_EQ(why.find("direct: kernel size other than 3"), 0u) << why;
  EXPECT_EQ(choice(kFirst, 1, 16, 40, 5, &why), FilterKernel::kPlanes);
  EXPECT_EQ(why, "direct: kernel size other than 3; ring: kernels of less than 64 MB");
  EXPECT_EQ(choice(kLast, 1, 16, 40, 3, &why), FilterKernel::kDirectPixels);
  EXPECT_EQ(choice(kLast, 1, 16, 40, 5, &why), FilterKernel::kPixels);
  const std::string of_pixels =
      "planes: columns are not neighbours in memory; direct pixels: kernel size other than 3";
  EXPECT_NE(why.find(of_pixels), std::string::npos) << why;
  // 81 units of 9 words.
  EXPECT_EQ(choice(kLast, 1, 6, 3, 3, &why), FilterKernel::kPixels);
  EXPECT_NE(why.find("; direct pixels: kernels are no multiple of 16 bytes"), std::string::npos)
      << why;
  EXPECT_EQ(choice(kFirst, 1, 16, 40, 9, &why), FilterKernel::kStrided);
  EXPECT_EQ(choice(kFirst, 1, 16, 40, 9, nullptr), FilterKernel::kStrided);
}

// The direct kernel: four, two and one result a thread, with x from every distance to the
// words of a row; reach beyond the plane; blocks that are not full.
TEST_F(Cuda, TheDirectKernelWritesItsOutputAndNothingElse) {
  constexpr auto kFirst = Layout::kContiguous;
  const std::vector<FilterCase> cases = {
      {1, 16, 20, 20, 3, {1, 3, 5}, true, kFirst, kFirst},
      {2, 3, 9, 12, 3, {2, 4, 6, 7}, false, kFirst, kFirst},
      {1, 2, 5, 4, 3, {1, 8, 13}, true, kFirst, kFirst},
      {1, 5, 33, 132, 3, {9, 10, 11}, true, kFirst, kFirst},
      {1, 3, 7, 10, 3, {1, 2, 3, 12}, true, kFirst, kFirst},
      {2, 2, 6, 9, 3, {1, 4}, true, kFirst, kFirst},
  };
  expect_right(cases, kDirect);
}

// The same where only some of what it reads and writes is aligned to words of two or four results,
// where rows of x are apart, and where images or channels share x.
TEST_F(Cuda, TheDirectKernelTakesTensorsAsTheyLie) {
  constexpr auto kFirst = Layout::kContiguous;
  const FilterCase c = {2, 3, 9, 12, 3, {1, 2, 5}, true, kFirst, kFirst};
  const auto expect_right_result = [](const FilterCall& call, int64_t shift) {
    const at::Tensor result = call.result_of(kDirect, shift);
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

// Kernels for both gradients of dynamic_filter.
struct GradientKernels {
  bool (*can_run)(const ops::cuda::FilterGradientArguments&, bool, std::string*);
  cudaError_t (*of_input)(const ops::cuda::FilterGradientArguments&, cudaStream_t);
  cudaError_t (*of_kernels)(const ops::cuda::FilterGradientArguments&, cudaStream_t);
};
const GradientKernels kGradientsForPlanes = {&ops::cuda::can_run_filter_gradient_planes,
                                             &ops::cuda::launch_filter_gradient_of_input_planes,
                                             &ops::cuda::launch_filter_gradient_of_kernels_planes};
const GradientKernels kGradientsForPixels = {&ops::cuda::can_run_filter_gradient_pixels,
                                             &ops::cuda::launch_filter_gradient_of_input_pixels,
                                             &ops::cuda::launch_filter_gradient_of_kernels_pixels};
const GradientKernels kGradientsForAny = {nullptr, &ops::cuda::launch_filter_gradient_of_input,
                                          &ops::cuda::launch_filter_gradient_of_kernels};

// A call of either gradient of dynamic_filter.
struct FilterGradientCall {
  FilterCase c;
  at::Tensor x, kernels, grad;

  FilterGradientCall(const FilterCase& what, const at::TensorOptions& options) : c(what) {
    x = c.make_x(options);
    kernels = c.make_kernels(options);
    const auto parts = static_cast<int64_t>(c.dilations.size()) + (c.concat_input ? 1 : 0);
    grad = random_map({c.batch, parts * c.channels, c.height, c.width}, options, c.x_layout);
  }

  // The launch for the branches from `first` on, with the gradient itself at `out`.
  ops::cuda::FilterGradientArguments arguments(bool of_kernels, const at::Tensor& out,
                                               int64_t first) const {
    const auto sizes = ops::check_dynamic_filter<int64_t>("test", x, kernels, c.dilations);
    ops::cuda::FilterGradientArguments a{};
    a.filter =
        ops::cuda::filter_arguments(x, kernels, grad, sizes, c.dilations, c.concat_input, first);
    a.grad = grad.const_data_ptr();
    for (int i = 0; i < 4; ++i) a.grad_stride[i] = grad.stride(i);
    for (int64_t i = 0; i < out.dim(); ++i) a.out_stride[i] = out.stride(i);
    a.out = static_cast<char*>(out.data_ptr()) +
            (of_kernels ? first * out.stride(1) * static_cast<int64_t>(out.element_size()) : 0);
    a.add_to_out = !of_kernels && first > 0;
    return a;
  }

  // Why these kernels do not take it.
  std::string reason(bool of_kernels, const GradientKernels& by) const {
    std::string why;
    const auto a = arguments(of_kernels, at::empty_like(of_kernels ? kernels : x), 0);
    return by.can_run(a, of_kernels, &why) ? "it does" : why;
  }

  bool is_for_pixels() const { return c.x_layout == Layout::kChannelsLast; }

  // One gradient, in the layout of the case, between guards that stay as they were, `shift`
  // elements away from where it is aligned.
  at::Tensor gradient(bool of_kernels, const GradientKernels& by, int64_t shift = 0) const {
    const at::Tensor& like = of_kernels ? kernels : x;
    const int64_t guard = 1024 + shift;
    const at::Tensor guarded = at::full({like.numel() + 2 * guard}, std::nan(""), x.options());
    const at::Tensor between = guarded.narrow(0, guard, like.numel());
    const auto as_pixels = [&] {
      return of_kernels
                 ? between
                       .view({c.batch, c.height, c.width, like.size(1), c.channels,
                              c.kernel_size * c.kernel_size})
                       .permute({0, 3, 4, 5, 1, 2})
                 : between.view({c.batch, c.height, c.width, c.channels}).permute({0, 3, 1, 2});
    };
    const at::Tensor out = is_for_pixels() ? as_pixels() : between.view(like.sizes());
    for (size_t first = 0; first < c.dilations.size(); first += ops::cuda::kMaxBranches) {
      const auto a = arguments(of_kernels, out, static_cast<int64_t>(first));
      std::string why;
      EXPECT_TRUE(by.can_run == nullptr || by.can_run(a, of_kernels, &why)) << why;
      EXPECT_EQ((of_kernels ? by.of_kernels : by.of_input)(a, nullptr), cudaSuccess);
    }
    EXPECT_TRUE(guarded.narrow(0, 0, guard).isnan().all().item<bool>());
    EXPECT_TRUE(guarded.narrow(0, guard + like.numel(), guard).isnan().all().item<bool>());
    return out;
  }

  // By both: products are rounded once, so those of kernels are equal; sums are in another order.
  void expect_same(int64_t shift = 0) const {
    for (const bool of_kernels : {true, false}) {
      // Of other sizes, those for pixels compute that of kernels alone.
      if (is_for_pixels() && !of_kernels && c.kernel_size != 3) continue;
      SCOPED_TRACE(c.describe() + " " + at::toString(x.scalar_type()) +
                   (of_kernels ? ", of kernels" : ", of the input"));
      const GradientKernels& by = is_for_pixels() ? kGradientsForPixels : kGradientsForPlanes;
      const at::Tensor own = gradient(of_kernels, by, shift).to(at::kDouble);
      const at::Tensor general = gradient(of_kernels, kGradientsForAny).to(at::kDouble);
      EXPECT_TRUE(at::equal(own.isnan(), general.isnan()));
      EXPECT_TRUE(at::equal(own.isposinf(), general.isposinf()));
      EXPECT_TRUE(at::equal(own.isneginf(), general.isneginf()));
      const auto finite = [](const at::Tensor& all) { return at::nan_to_num(all, 0, 0, 0); };
      if (of_kernels) {
        EXPECT_TRUE(at::equal(finite(own), finite(general)));
        continue;
      }
      const double eps = x.scalar_type() == at::kHalf       ? 0x1p-10
                         : x.scalar_type() == at::kBFloat16 ? 0x1p-7
                                                            : 0x1p-23;
      const at::Tensor size = finite(general).abs();
      const bool rounded_before = c.dilations.size() > ops::cuda::kMaxBranches;
      const double everywhere = size.max().item<double>() * (1e-5 + (rounded_before ? 3 * eps : 0));
      const at::Tensor over = (finite(own) - finite(general)).abs() - (size * eps + everywhere);
      EXPECT_LE(over.max().item<double>(), 0);
    }
  }
};

// Calls f(case, options) in every type that the fast kernels take, up to the first failure.
template <typename Function>
void for_gradient_cases(const std::vector<FilterCase>& cases, const Function& f) {
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (FilterCase c : cases) {
      for (const bool concat : {false, true}) {
        c.concat_input = concat;
        f(c, at::TensorOptions().device(at::kCUDA).dtype(type));
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

constexpr auto kPlanes = Layout::kContiguous;

// Words of eight bytes and single elements; tiles of several rows, of one, and of a part of one;
// blocks that are not full; reach beyond the plane; groups for branches, and none in larger calls.
TEST_F(Cuda, TheGradientsForPlanesAreThoseForAnyStrides) {
  std::vector<FilterCase> cases;
  for (const int64_t k : {1, 3, 5, 7}) {
    for (const std::vector<int64_t>& dilations :
         {std::vector<int64_t>{1, 3, 5}, {2}, {1, 32}, {3, 1, 2, 4, 7}}) {
      for (const auto& [height, width] : {std::pair{1, 1}, {5, 4}, {9, 12}, {17, 22}, {13, 7}}) {
        cases.push_back({2, 3, height, width, k, dilations, false, kPlanes, kPlanes});
      }
    }
    cases.push_back({1, 2, 7, 301, k, {1, 3, 6}, false, kPlanes, kPlanes});
    cases.push_back({1, 2, 7, 602, k, {2, 5}, false, kPlanes, kPlanes});
    cases.push_back({1, 1, 6, 1100, k, {1, 10}, false, kPlanes, kPlanes});
    cases.push_back({1, 20, 85, 85, k, {1, 3, 5}, false, kPlanes, kPlanes});
    cases.push_back({2, 33, 96, 96, k, {1, 3}, false, kPlanes, kPlanes});
  }
  FilterCase many = {1, 2, 7, 8, 3, {}, false, kPlanes, kPlanes};
  for (int64_t b = 0; b < 2 * ops::cuda::kMaxBranches + 3; ++b) {
    many.dilations.push_back(1 + b % 5);
  }
  cases.push_back(many);
  for_gradient_cases(cases, [](const FilterCase& c, const at::TensorOptions& options) {
    FilterGradientCall(c, options).expect_same();
  });
}

// Where only some of what they read and write is aligned, and where rows of x are apart.
TEST_F(Cuda, TheGradientsForPlanesTakeTensorsAsTheyLie) {
  const auto shifted = [](const at::Tensor& tensor, int64_t elements) {
    const at::Tensor flat = at::empty({tensor.numel() + elements}, tensor.options());
    return flat.narrow(0, elements, tensor.numel()).view(tensor.sizes()).copy_(tensor);
  };
  const auto rows_apart = [](const at::Tensor& tensor, int64_t first, int64_t more) {
    std::vector<int64_t> sizes = tensor.sizes().vec();
    const int64_t width = sizes.back();
    sizes.back() += more;
    return at::full(sizes, std::nan(""), tensor.options()).narrow(-1, first, width).copy_(tensor);
  };
  const std::vector<FilterCase> cases = {{2, 3, 9, 12, 3, {1, 2, 5}, false, kPlanes, kPlanes},
                                         {1, 2, 6, 16, 5, {1, 4}, false, kPlanes, kPlanes}};
  for_gradient_cases(cases, [&](const FilterCase& c, const at::TensorOptions& options) {
    for (at::Tensor FilterGradientCall::*which :
         {&FilterGradientCall::x, &FilterGradientCall::kernels, &FilterGradientCall::grad}) {
      for (const int64_t elements : {1, 2, 4}) {
        FilterGradientCall call(c, options);
        call.*which = shifted(call.*which, elements);
        call.expect_same();
      }
      for (const auto& [first, more] :
           {std::pair<int64_t, int64_t>{4, 8}, {2, 2}, {0, 2}, {0, 1}, {1, 4}}) {
        FilterGradientCall call(c, options);
        call.*which = rows_apart(call.*which, first, more);
        call.expect_same();
      }
    }
    for (const int64_t shift : {1, 2, 4}) FilterGradientCall(c, options).expect_same(shift);
    FilterGradientCall shared(c, options);
    shared.x = shared.x.narrow(0, 0, 1).expand(shared.x.sizes());
    shared.grad = shared.grad.narrow(1, 0, 1).expand(shared.grad.sizes());
    shared.expect_same();
  });
}

// What is not finite meets the zeros around a plane in d kernels, and nothing there in d x.
void expect_same_of_what_is_not_finite(const std::vector<FilterCase>& cases) {
  const double infinity = std::numeric_limits<double>::infinity();
  for_gradient_cases(cases, [&](const FilterCase& c, const at::TensorOptions& options) {
    FilterGradientCall call(c, options);
    const int64_t bottom = c.height - 1, right = c.width - 1;
    call.x[0][0][c.height / 2][c.width / 2] = std::nan("");
    call.x[0][0][0][right] = infinity;
    call.grad[0][c.channels][0][0] = infinity;
    call.grad[0][c.channels][bottom][c.width / 2] = -infinity;
    call.grad[0][0][bottom][right] = std::nan("");
    for (int64_t t = 0; t < c.kernel_size * c.kernel_size; ++t) {
      call.kernels[0][t % 2][0][t][t % 3 == 0 ? 0 : bottom][t % 5 < 2 ? 0 : right] = infinity;
    }
    call.kernels[0][1][c.channels - 1][0][c.height / 2][0] = std::nan("");
    call.expect_same();
  });
}

TEST_F(Cuda, TheGradientsForPlanesPassOnWhatIsNotFinite) {
  const std::vector<FilterCase> cases = {{2, 3, 9, 12, 3, {1, 5}, false, kPlanes, kPlanes},
                                         {1, 2, 7, 9, 3, {1, 3}, false, kPlanes, kPlanes},
                                         {1, 2, 12, 16, 5, {1, 2}, false, kPlanes, kPlanes},
                                         {1, 1, 5, 8, 7, {1, 4}, false, kPlanes, kPlanes}};
  expect_same_of_what_is_not_finite(cases);
}

// Needs no GPU: nothing is read.
TEST(CudaChoice, TheGradientsForPlanesTakeRowsOfNeighbours) {
  const auto reason = [](bool of_kernels, at::ScalarType type, const FilterCase& c) {
    return FilterGradientCall(c, at::TensorOptions().dtype(type))
        .reason(of_kernels, kGradientsForPlanes);
  };
  const FilterCase usual = {2, 3, 8, 9, 3, {1, 3, 5}, true, kPlanes, kPlanes};
  for (const bool of_kernels : {false, true}) {
    for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
      for (const int64_t k : {1, 3, 5, 7}) {
        FilterCase c = usual;
        c.kernel_size = k;
        EXPECT_EQ(reason(of_kernels, type, c), "it does");
      }
    }
    EXPECT_EQ(reason(of_kernels, at::kDouble, usual), "float64");
    FilterCase c = usual;
    c.kernel_size = 9;
    EXPECT_EQ(reason(of_kernels, at::kHalf, c), "kernel size above 7");
    c = usual;
    c.x_layout = c.kernel_layout = Layout::kChannelsLast;
    EXPECT_EQ(reason(of_kernels, at::kHalf, c), "columns are not neighbours in memory");
    c = {65536, 1, 1, 2, 1, {1}, false, kPlanes, kPlanes};
    EXPECT_EQ(reason(of_kernels, at::kHalf, c), "more planes than a grid holds");
    c = {1, 1, 2, 301, 3, {64}, false, kPlanes, kPlanes};
    EXPECT_EQ(reason(of_kernels, at::kHalf, c), "it does");
    c.dilations = {65};
    EXPECT_EQ(reason(of_kernels, at::kHalf, c),
              of_kernels ? "it does" : "reach of the taps in rows that are read in parts");
  }
}

constexpr auto kPixels = Layout::kChannelsLast;

// Units of one channel and of two; groups of channels, warps and tiles that are not full; tiles of
// a part of a row and of whole planes; rings as long as tiles and shorter; reach beyond tile and
// plane.
TEST_F(Cuda, TheGradientsForPixelsAreThoseForAnyStrides) {
  std::vector<FilterCase> cases;
  for (const int64_t k : {3, 5, 7}) {
    const std::vector<int64_t> some = {3, 8}, all = {1, 2, 3, 8, 17, 40};
    for (const int64_t channels : k == 3 ? all : some) {
      for (const std::vector<int64_t>& dilations :
           {std::vector<int64_t>{1, 3, 5}, {2}, {1, 32}, {3, 1, 2, 4, 7}}) {
        for (const auto& [height, width] : {std::pair{1, 1}, {5, 4}, {9, 13}, {17, 22}}) {
          cases.push_back({2, channels, height, width, k, dilations, false, kPixels, kPixels});
        }
      }
    }
  }
  cases.push_back({1, 2, 5, 1100, 3, {1, 10}, false, kPixels, kPixels});
  cases.push_back({1, 3, 7, 301, 3, {1, 64}, false, kPixels, kPixels});
  cases.push_back({1, 8, 1500, 9, 3, {1, 2}, false, kPixels, kPixels});
  cases.push_back({1, 16, 600, 5, 3, {1, 400}, false, kPixels, kPixels});
  cases.push_back({2, 20, 85, 85, 3, {1, 3, 5}, false, kPixels, kPixels});
  cases.push_back({3, 40, 96, 200, 3, {5, 1, 3}, false, kPixels, kPixels});
  cases.push_back({2, 33, 96, 97, 3, {1, 90}, false, kPixels, kPixels});
  cases.push_back({4, 64, 64, 128, 3, {1, 3, 5}, false, kPixels, kPixels});
  for (const int64_t channels : {2, 8}) {
    FilterCase many = {1, channels, 7, 8, 3, {}, false, kPixels, kPixels};
    for (int64_t b = 0; b < 2 * ops::cuda::kMaxBranches + 3; ++b) {
      many.dilations.push_back(1 + b % 5);
    }
    cases.push_back(many);
  }
  for_gradient_cases(cases, [](const FilterCase& c, const at::TensorOptions& options) {
    FilterGradientCall(c, options).expect_same();
  });
}

// Where only some of what they read and write is aligned; where pixels, rows, and for kernels the
// channels of branches, are apart.
TEST_F(Cuda, TheGradientsForPixelsTakeTensorsAsTheyLie) {
  const auto order_of = [](const at::Tensor& tensor) {
    return tensor.dim() == 4 ? std::vector<int64_t>{0, 2, 3, 1}
                             : std::vector<int64_t>{0, 4, 5, 1, 2, 3};
  };
  const auto back = [](const at::Tensor& in_memory) {
    return in_memory.dim() == 4 ? in_memory.permute({0, 3, 1, 2})
                                : in_memory.permute({0, 3, 4, 5, 1, 2});
  };
  const auto shifted = [&](const at::Tensor& tensor, int64_t elements) {
    const at::Tensor from = tensor.permute(order_of(tensor));
    const at::Tensor flat = at::empty({tensor.numel() + elements}, tensor.options());
    return back(flat.narrow(0, elements, tensor.numel()).view(from.sizes()).copy_(from));
  };
  // `axis` counts as they lie in memory.
  const auto apart = [&](const at::Tensor& tensor, int64_t axis, int64_t first, int64_t more) {
    const at::Tensor from = tensor.permute(order_of(tensor));
    std::vector<int64_t> sizes = from.sizes().vec();
    sizes[axis] += more;
    return back(at::full(sizes, std::nan(""), tensor.options())
                    .narrow(axis, first, from.size(axis))
                    .copy_(from));
  };
  const std::vector<FilterCase> cases = {{2, 16, 9, 12, 3, {1, 2, 5}, false, kPixels, kPixels},
                                         {1, 40, 6, 16, 3, {1, 4}, false, kPixels, kPixels},
                                         {2, 7, 5, 6, 3, {1, 2}, false, kPixels, kPixels},
                                         {1, 8, 6, 16, 5, {1, 4}, false, kPixels, kPixels}};
  for_gradient_cases(cases, [&](const FilterCase& c, const at::TensorOptions& options) {
    for (at::Tensor FilterGradientCall::*which :
         {&FilterGradientCall::x, &FilterGradientCall::kernels, &FilterGradientCall::grad}) {
      for (const int64_t elements : {1, 2, 4, 8}) {
        FilterGradientCall call(c, options);
        call.*which = shifted(call.*which, elements);
        call.expect_same();
      }
      const int64_t last = which == &FilterGradientCall::kernels ? 4 : 3;
      for (int64_t axis = 1; axis <= last; ++axis) {
        for (const auto& [first, more] : {std::pair<int64_t, int64_t>{8, 16}, {2, 4}, {1, 3}}) {
          FilterGradientCall call(c, options);
          call.*which = apart(call.*which, axis, first, more);
          call.expect_same();
        }
      }
    }
    for (const int64_t shift : {1, 2, 4, 8}) FilterGradientCall(c, options).expect_same(shift);
    FilterGradientCall shared(c, options);
    shared.x = shared.x.narrow(0, 0, 1).expand(shared.x.sizes());
    shared.kernels = shared.kernels.narrow(0, 0, 1).expand(shared.kernels.sizes());
    shared.expect_same();
  });
}

TEST_F(Cuda, TheGradientsForPixelsPassOnWhatIsNotFinite) {
  const std::vector<FilterCase> cases = {{2, 3, 9, 12, 3, {1, 5}, false, kPixels, kPixels},
                                         {1, 8, 7, 9, 3, {1, 3}, false, kPixels, kPixels},
                                         {1, 18, 20, 40, 3, {2, 30}, false, kPixels, kPixels},
                                         {1, 2, 12, 16, 5, {1, 2}, false, kPixels, kPixels},
                                         {1, 1, 5, 8, 7, {1, 4}, false, kPixels, kPixels}};
  expect_same_of_what_is_not_finite(cases);
}

// Needs no GPU: nothing is read.
TEST(CudaChoice, TheGradientsForPixelsTakeRunsOfTaps) {
  const auto reason = [](bool of_kernels, at::ScalarType type, const FilterCase& c) {
    return FilterGradientCall(c, at::TensorOptions().dtype(type))
        .reason(of_kernels, kGradientsForPixels);
  };
  const FilterCase usual = {2, 3, 8, 9, 3, {1, 3, 5}, true, kPixels, kPixels};
  for (const bool of_kernels : {false, true}) {
    const std::string of_other_sizes =
        of_kernels ? "kernel size other than 3, 5 and 7" : "kernel size other than 3";
    for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
      for (const int64_t k : {1, 3, 5, 7, 9}) {
        FilterCase c = usual;
        c.kernel_size = k;
        const bool takes = k == 3 || (of_kernels && (k == 5 || k == 7));
        EXPECT_EQ(reason(of_kernels, type, c), takes ? "it does" : of_other_sizes);
      }
    }
    EXPECT_EQ(reason(of_kernels, at::kDouble, usual), "float64");
    FilterCase c = usual;
    c.x_layout = kPlanes;
    EXPECT_EQ(reason(of_kernels, at::kHalf, c), "channels are not neighbours in memory");
    c = usual;
    c.kernel_layout = kPlanes;
    EXPECT_EQ(reason(of_kernels, at::kHalf, c),
              "taps of a pixel's channels are not neighbours in memory");
    c = usual;
    c.dilations = {1, (int64_t{1} << 26) + 1};
    EXPECT_EQ(reason(of_kernels, at::kHalf, c), "dilation above 2^26");
  }
}

// The ring of taps: rows of one piece and of many, parts and bands that are not full, more bands
// than blocks, reach beyond the plane and so long that a multiprocessor holds one block, even and
// odd dilations; and what is not finite.
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
      {2, 5, 300, 256, 7, {1, 5}, true, kFirst, kFirst},
      {1, 2, 5, 24, 7, {17, 1}, false, kFirst, kFirst},
  };
  expect_right(cases, kRing);
}

// Where the ring is the faster one, and why it is not elsewhere.
TEST_F(Cuda, TheRingIsForLargeKernels) {
  using ops::cuda::Type;
  const auto reason = [](int64_t batch, int64_t side, int64_t kernel_size, int dilation = 5,
                         Type type = Type::kHalf) {
    ops::cuda::FilterArguments a{};
    a.type = type;
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
  EXPECT_EQ(reason(4, 256, 7, 5, Type::kFloat), "it pays");
  EXPECT_EQ(reason(4, 256, 7, 12), "it pays");
  EXPECT_EQ(reason(4, 256, 7, 18), "reach leaves room for few taps");
  EXPECT_EQ(reason(32, 80, 7), "rows of less than 512 bytes");
  EXPECT_EQ(reason(1, 40, 7), "kernels of less than 64 MB");
}

// channels_last: eight bytes of results a thread and four, one pixel, warps and blocks that are not
// full, several images, reach beyond the plane.
TEST_F(Cuda, TheDirectKernelForPixelsWritesItsOutputAndNothingElse) {
  constexpr auto kLast = Layout::kChannelsLast;
  const std::vector<FilterCase> cases = {
      {1, 8, 1, 1, 3, {1, 2}, true, kLast, kLast},
      {2, 16, 1, 7, 3, {1, 2, 3}, false, kLast, kLast},
      {2, 16, 80, 80, 3, {1, 3, 5}, true, kLast, kLast},
      {1, 64, 37, 40, 3, {1, 3, 5}, false, kLast, kLast},
      {3, 8, 19, 23, 3, {1, 4, 30, 2}, true, kLast, kLast},
      {1, 128, 9, 50, 3, {3, 5}, false, kLast, kLast},
      {12, 64, 16, 20, 3, {1, 3, 5}, true, kLast, kLast},
      {1, 12, 5, 7, 3, {2, 6}, true, kLast, kLast},
      {2, 6, 7, 8, 3, {1, 2, 5, 9}, false, kLast, kLast},
      {1, 10, 6, 9, 3, {1, 100}, true, kLast, kLast},
  };
  expect_right(cases, kDirectPixels);
  expect_right({1, 5, 8, 9, 3, {1, 3}, true, kLast, kLast}, at::kFloat, kDirectPixels);
  expect_right({2, 1, 9, 12, 3, {1, 4}, true, kLast, kLast}, at::kFloat, kDirectPixels);
}

// The same where only some of what it reads and writes is aligned to eight bytes, and where pixels,
// rows or images of x are apart. What is not aligned to four it leaves to others.
TEST_F(Cuda, TheDirectKernelForPixelsTakesTensorsAsTheyLie) {
  constexpr auto kLast = Layout::kChannelsLast;
  const FilterCase c = {2, 12, 9, 6, 3, {1, 2, 5}, true, kLast, kLast};
  const std::vector<int64_t> sizes = {c.batch, c.height, c.width, c.channels};
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const auto options = at::TensorOptions().device(at::kCUDA).dtype(type);
    const auto fits = [&](int64_t elements) { return type == at::kFloat || elements % 2 == 0; };
    const auto expect = [](const FilterCall& call, bool taken, int64_t shift = 0) {
      const at::Tensor result = call.result_of(kDirectPixels, shift);
      ASSERT_EQ(result.defined(), taken);
      if (!taken) return;
      EXPECT_LT(error_of(result, call.exact).largest, call.allowed());
    };
    const auto expect_with = [&](const at::Tensor& pixels, bool taken) {
      FilterCall call(c, type);
      call.x = pixels.permute({0, 3, 1, 2});
      call.find_exact();
      expect(call, taken);
    };
    for (const int64_t elements : {1, 2, 4}) {
      SCOPED_TRACE(std::string(at::toString(type)) + " by " + std::to_string(elements));
      const int64_t count = c.batch * c.height * c.width * c.channels;
      expect_with(at::randn({elements + count}, options).narrow(0, elements, count).view(sizes),
                  fits(elements));
      expect(FilterCall(c, type), fits(elements), elements);
    }
    for (std::size_t axis = 0; axis < 4; ++axis) {
      for (const auto& [first, more] :
           {std::pair<int64_t, int64_t>{4, 8}, {2, 2}, {2, 4}, {0, 2}, {0, 1}}) {
        SCOPED_TRACE(std::string(at::toString(type)) + " axis " + std::to_string(axis) +
                     " apart by " + std::to_string(more));
        std::vector<int64_t> larger = sizes;
        larger[axis] += more;
        const auto dimension = static_cast<int64_t>(axis);
        expect_with(at::randn(larger, options).narrow(dimension, first, sizes[axis]),
                    axis < 3 || fits(more));
      }
    }
    // Pixels are aligned to eight bytes, rows or images to four.
    const int64_t row = c.width * c.channels;
    for (const auto& [behind_row, behind_image] : {std::pair<int64_t, int64_t>{2, 0}, {0, 2}}) {
      SCOPED_TRACE(std::string(at::toString(type)) + " rows apart by " +
                   std::to_string(behind_row) + ", images by " + std::to_string(behind_image));
      const int64_t image = c.height * (row + behind_row) + behind_image;
      expect_with(at::randn({c.batch * image}, options)
                      .as_strided(sizes, {image, row + behind_row, c.channels, 1}),
                  true);
    }
    if (HasFailure()) return;
  }
}

// One channel of x may be planes and pixels at once; its branches are one or the other.
TEST_F(Cuda, PlanesOfOneChannelAreNotTakenForPixels) {
  for (const int64_t kernel_size : {3, 5}) {
    for (const std::vector<int64_t>& dilations : {std::vector<int64_t>{1, 3}, {1}}) {
      const FilterCase c = {
          1, 1, 8, 7, kernel_size, dilations, true, Layout::kContiguous, Layout::kChannelsLast};
      const FilterCall call(c, at::kFloat);
      const at::Tensor result =
          ops::dynamic_filter(call.x, call.kernels, c.dilations, c.concat_input);
      EXPECT_LT(error_of(result, call.exact).largest, call.allowed()) << kernel_size;
    }
  }
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
             {&ops::cuda::can_run_generated_filter_wgmma_runs,
              &ops::cuda::launch_generated_filter_wgmma_runs},
             {&ops::cuda::can_run_generated_filter_wgmma_tf32,
              &ops::cuda::launch_generated_filter_wgmma_tf32},
             {&ops::cuda::can_run_generated_filter_mma, &ops::cuda::launch_generated_filter_mma},
             {&ops::cuda::can_run_generated_filter_simt, &ops::cuda::launch_generated_filter_simt},
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

/// A call of the generated filter by which kernels are called by themselves. Its tensors are
/// others'.
struct GeneratedCall {
  static constexpr int64_t kGuard = 1024;

  GeneratedCall(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
                const std::optional<at::Tensor>& bias, const std::vector<int64_t>& dilations,
                bool concat_input, bool last) {
    const auto sizes =
        ops::check_generated_dynamic_filter<int64_t>("test", x, y, weight, bias, dilations);
    const int64_t channels =
        (static_cast<int64_t>(dilations.size()) + (concat_input ? 1 : 0)) * x.size(1);
    const int64_t count = x.size(0) * channels * x.size(2) * x.size(3);
    guarded = at::full({count + 2 * kGuard}, -77, x.options());
    const at::Tensor between = guarded.narrow(0, kGuard, count);
    out = last ? between.view({x.size(0), x.size(2), x.size(3), channels}).permute({0, 3, 1, 2})
               : between.view({x.size(0), channels, x.size(2), x.size(3)});
    arguments = ops::cuda::generated_filter_arguments(x, y, weight, bias, out, sizes, dilations,
                                                      concat_input, 0);
  }
  bool guards_are_whole() const {
    return guarded.narrow(0, 0, kGuard).eq(-77).all().item<bool>() &&
           guarded.narrow(0, guarded.numel() - kGuard, kGuard).eq(-77).all().item<bool>();
  }

  at::Tensor guarded, out;
  ops::cuda::GeneratedFilterArguments arguments;
};

/// A call of the generated filter for kernels to be held to.
struct GuardedCase {
  int64_t batch, channels, source_channels, groups, height, width;
  std::vector<int64_t> dilations;
  bool concat_input, has_bias;
  Layout x_layout, y_layout;
  bool last;
};

using CanRunGenerated = bool (*)(const ops::cuda::GeneratedFilterArguments&, std::string*);
using LaunchGenerated = cudaError_t (*)(const ops::cuda::GeneratedFilterArguments&, cudaStream_t);

/// What is not finite is where the kernel for everything has it. On compute capability 9.0 the
/// launch takes the call.
void expect_spread_alike(const GeneratedCall& call, const GeneratedCall& peer,
                         CanRunGenerated can_run, LaunchGenerated launch) {
  std::string why;
  if (!can_run(call.arguments, &why)) {
    ASSERT_FALSE(is_hopper()) << why;
    return;
  }
  ASSERT_EQ(launch(call.arguments, nullptr), cudaSuccess);
  ASSERT_EQ(ops::cuda::launch_generated_filter_scalar(peer.arguments, nullptr), cudaSuccess);
  EXPECT_TRUE(at::equal(call.out.isnan(), peer.out.isnan()));
  EXPECT_TRUE(at::equal(call.out.isinf(), peer.out.isinf()));
}

/// A launch writes what it should, within `allowed` of the largest result, and nothing else. On
/// compute capability 9.0 it takes every case.
void expect_right(const std::vector<GuardedCase>& cases, at::ScalarType type,
                  CanRunGenerated can_run, LaunchGenerated launch, double allowed) {
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(type);
  for (size_t i = 0; i < cases.size(); ++i) {
    const GuardedCase& c = cases[i];
    SCOPED_TRACE(std::string(at::toString(type)) + ", case " + std::to_string(i));
    const int64_t branches = static_cast<int64_t>(c.dilations.size());
    std::optional<at::Tensor> bias;
    if (c.has_bias) bias = at::randn({branches, c.channels * 9}, options);
    const at::Tensor x = random_map({c.batch, c.channels, c.height, c.width}, options, c.x_layout);
    const at::Tensor y =
        random_map({c.batch, c.groups * c.source_channels, c.height, c.width}, options, c.y_layout)
            .unflatten(1, {c.groups, c.source_channels});
    const at::Tensor weight = at::randn({branches, c.channels * 9, c.source_channels}, options) /
                              std::sqrt(static_cast<double>(c.source_channels));
    const GeneratedCall call(x, y, weight, bias, c.dilations, c.concat_input, c.last);
    std::string why;
    if (!can_run(call.arguments, &why)) {
      ASSERT_FALSE(is_hopper()) << why;
      continue;
    }
    ASSERT_EQ(launch(call.arguments, nullptr), cudaSuccess);
    EXPECT_TRUE(call.guards_are_whole());
    const at::Tensor exact =
        ops::generated_dynamic_filter_reference(x, y, weight, bias, c.dilations, c.concat_input);
    EXPECT_LT(error_of(call.out, exact).largest, allowed * exact.abs().max().item<double>());
    if (testing::Test::HasFailure()) return;
  }
}

// Exact float32: channels and sources that fill no group and no step, sources in parts, planes
// below a tile and below the reach, more tiles than blocks (one and two of them at a time), both
// formats of x and y beside both of the result, slices and other strides, x aligned and not.
TEST_F(Cuda, TheSimtGeneratedFilterWritesItsOutputAndNothingElse) {
  constexpr auto kFirst = Layout::kContiguous;
  constexpr auto kLast = Layout::kChannelsLast;
  std::vector<GuardedCase> cases;
  for (const bool last : {false, true}) {
    const Layout same = last ? kLast : kFirst;
    const Layout other = last ? kFirst : kLast;
    for (const GuardedCase& c : std::vector<GuardedCase>{
             {1, 1, 1, 1, 1, 1, {1}, true, true, same, same, last},
             {2, 3, 7, 2, 5, 7, {1, 8}, false, false, same, same, last},
             {1, 16, 64, 3, 20, 20, {1, 3, 5}, false, true, same, same, last},
             {1, 64, 64, 1, 128, 128, {1, 3, 5}, true, false, same, same, last},
             {3, 16, 16, 1, 200, 136, {1, 3, 5}, true, true, same, same, last},
             {2, 24, 40, 2, 19, 23, {2, 7}, true, true, same, same, last},
             {2, 48, 65, 1, 33, 40, {1, 3}, false, true, same, same, last},
             {2, 32, 100, 2, 200, 136, {1, 4}, true, true, same, same, last},
             {1, 20, 12, 3, 17, 36, {6, 1, 8}, true, false, other, same, last},
             {2, 16, 9, 1, 30, 18, {1, 3, 5}, false, true, same, other, last},
             {2, 18, 8, 1, 25, 28, {1, 3}, true, true, Layout::kSliced, Layout::kSliced, last},
             {2, 16, 24, 2, 9, 33, {3, 5}, true, true, Layout::kReversed, Layout::kReversed, last},
             {3, 16, 32, 1, 9, 32, {3, 5}, false, true, Layout::kExpanded, same, last},
             {700, 16, 8, 1, 3, 2, {1, 2}, true, true, same, same, last}}) {
      cases.push_back(c);
    }
  }
  expect_right(cases, at::kFloat, &ops::cuda::can_run_generated_filter_simt,
               &ops::cuda::launch_generated_filter_simt, 1e-5);
}

// On warpgroups: the last tiles of a row full, half full and less, planes below a tile and below
// the reach, one block on a multiprocessor and two, more tiles than blocks, more dilations than
// boxes, branches that take turns to copy x, sources that fill no operand, batches that are
// expanded.
TEST_F(Cuda, TheWarpgroupGeneratedFilterWritesItsOutputAndNothingElse) {
  constexpr auto kFirst = Layout::kContiguous;
  constexpr auto kLast = Layout::kChannelsLast;
  constexpr auto kExpanded = Layout::kExpanded;
  std::vector<GuardedCase> cases = {
      {1, 16, 64, 1, 1, 2, {1}, true, true, kLast, kLast, true},
      {2, 32, 40, 1, 19, 23, {1, 3, 5}, true, true, kLast, kLast, true},
      {3, 16, 32, 1, 9, 32, {3, 5}, true, true, kExpanded, kFirst, false},
      {3, 16, 32, 1, 9, 32, {3, 5}, false, true, kFirst, kExpanded, false},
  };
  for (const bool last : {false, true}) {
    const Layout same = last ? kLast : kFirst;
    for (const GuardedCase& c : std::vector<GuardedCase>{
             {1, 16, 64, 1, 1, 8, {1}, true, true, same, same, last},
             {2, 32, 40, 1, 19, 24, {1, 3, 5}, true, true, same, same, last},
             {1, 64, 64, 1, 128, 128, {1, 3, 5}, true, false, same, same, last},
             {3, 16, 16, 3, 40, 48, {1, 3, 8}, true, true, same, same, last},
             {2, 16, 64, 1, 33, 40, {1, 2, 3, 4, 5, 6, 7, 8}, true, true, same, same, last},
             {1, 16, 24, 2, 9, 56, {7, 2}, false, true, same, same, last},
             {300, 16, 8, 1, 3, 8, {1, 2}, true, true, same, same, last},
             {2, 16, 64, 3, 200, 136, {1, 3, 5}, true, true, same, same, last},
             {5, 16, 64, 1, 72, 80, {4, 4}, true, false, same, same, last}}) {
      cases.push_back(c);
    }
  }
  // Half a unit in the last place of the largest result, and what float sums lose.
  expect_right(cases, at::kHalf, &ops::cuda::can_run_generated_filter_wgmma,
               &ops::cuda::launch_generated_filter_wgmma, 0x1p-11 * 1.01);
  expect_right(cases, at::kBFloat16, &ops::cuda::can_run_generated_filter_wgmma,
               &ops::cuda::launch_generated_filter_wgmma, 0x1p-8 * 1.01);
  at::globalContext().setAllowTF32CuBLAS(true);
  expect_right(cases, at::kFloat, &ops::cuda::can_run_generated_filter_wgmma_tf32,
               &ops::cuda::launch_generated_filter_wgmma_tf32, 0x1p-10);
  at::globalContext().setAllowTF32CuBLAS(false);
}

// In runs of pixels: one round and several, blocks that begin within an image, go on to the next
// and have many, the last run full and not, rows that are whole pieces and not, rows below the
// reach and as long as the ring takes them, branches that take turns to copy x, planes of larger
// tensors.
TEST_F(Cuda, TheGeneratedFilterOfRunsWritesItsOutputAndNothingElse) {
  constexpr auto kFirst = Layout::kContiguous;
  constexpr auto kExpanded = Layout::kExpanded;
  const std::vector<GuardedCase> cases = {
      {1, 16, 64, 1, 1, 8, {1}, true, true, kFirst, kFirst, false},
      {32, 16, 64, 3, 80, 80, {1, 3, 5}, true, true, kFirst, kFirst, false},
      {9, 16, 64, 1, 80, 80, {1, 3, 5}, false, false, kFirst, kFirst, false},
      {40, 32, 40, 1, 40, 40, {1, 3, 5}, true, true, kFirst, kFirst, false},
      {30, 16, 24, 3, 37, 72, {5, 1, 4}, false, true, kFirst, kFirst, false},
      {3, 64, 64, 1, 90, 88, {3, 5}, true, true, kFirst, kFirst, false},
      {300, 16, 8, 1, 3, 8, {1, 8}, true, true, kFirst, kFirst, false},
      {70, 16, 16, 2, 33, 8, {8, 2}, true, true, kFirst, kFirst, false},
      {20, 16, 64, 1, 70, 48, {1, 2, 3, 4, 5, 6, 7, 8}, true, true, kFirst, kFirst, false},
      {3, 16, 32, 1, 9, 32, {3, 5}, true, true, kExpanded, kExpanded, false},
  };
  expect_right(cases, at::kHalf, &ops::cuda::can_run_generated_filter_wgmma_runs,
               &ops::cuda::launch_generated_filter_wgmma_runs, 0x1p-11 * 1.01);
  expect_right(cases, at::kBFloat16, &ops::cuda::can_run_generated_filter_wgmma_runs,
               &ops::cuda::launch_generated_filter_wgmma_runs, 0x1p-8 * 1.01);
}

// What is not finite spreads as in the kernel for everything: near the edges of planes and tiles,
// where boxes hold more than a tile needs and zeros from beyond, and into channels of y that fill
// an operand up.
TEST_F(Cuda, TheWarpgroupGeneratedFilterSpreadsWhatIsNotFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16, at::kFloat}) {
    const bool tf32 = type == at::kFloat;
    at::globalContext().setAllowTF32CuBLAS(tf32);
    const auto can_run = tf32 ? &ops::cuda::can_run_generated_filter_wgmma_tf32
                              : &ops::cuda::can_run_generated_filter_wgmma;
    const auto launch = tf32 ? &ops::cuda::launch_generated_filter_wgmma_tf32
                             : &ops::cuda::launch_generated_filter_wgmma;
    const auto options = at::TensorOptions().device(at::kCUDA).dtype(type);
    for (const bool last : {false, true}) {
      const Layout layout = last ? Layout::kChannelsLast : Layout::kContiguous;
      for (const int64_t source_channels : {8, 40, 64}) {
        SCOPED_TRACE(std::string(at::toString(type)) + " " + name(layout) + " Cy " +
                     std::to_string(source_channels));
        const at::Tensor x = random_map({2, 16, 21, 72}, options, layout);
        const at::Tensor y = random_map({2, source_channels, 21, 72}, options, layout).unsqueeze(1);
        const at::Tensor weight = at::randn({2, 16 * 9, source_channels}, options);
        const at::Tensor bias = at::randn({2, 16 * 9}, options);
        x[0][2][7][31] = std::nan("");
        x[0][3][20][71] = kInfinity;
        x[1][9][8][0] = -kInfinity;
        y[0][0][3][0][0] = kInfinity;
        y[1][0][source_channels - 1][20][71] = -kInfinity;
        y[0][0][1][16][40] = std::nan("");
        weight[1][4 * 9 + 8][source_channels - 1] = kInfinity;
        bias[0][5 * 9 + 4] = -kInfinity;
        bias[1][11 * 9] = std::nan("");
        const GeneratedCall call(x, y, weight, bias, {1, 3}, true, last);
        const GeneratedCall peer(x, y, weight, bias, {1, 3}, true, last);
        expect_spread_alike(call, peer, can_run, launch);
        if (!last && !tf32) {
          const GeneratedCall in_runs(x, y, weight, bias, {1, 3}, true, last);
          expect_spread_alike(in_runs, peer, &ops::cuda::can_run_generated_filter_wgmma_runs,
                              &ops::cuda::launch_generated_filter_wgmma_runs);
        }
        if (!is_hopper()) continue;
        EXPECT_TRUE(call.out.isnan().any().item<bool>());
        EXPECT_TRUE(call.out[0][16 + 5].isinf().any().item<bool>());
      }
    }
  }
  at::globalContext().setAllowTF32CuBLAS(false);
}

// What the copy engine cannot write goes elsewhere.
TEST_F(Cuda, TheWarpgroupGeneratedFilterSaysWhyNot) {
  if (!is_hopper()) GTEST_SKIP() << "needs compute capability 9.0";
  for (const bool last : {false, true}) {
    const auto reason = [last](auto change) {
      const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kHalf);
      const Layout layout = last ? Layout::kChannelsLast : Layout::kContiguous;
      const at::Tensor x = random_map({2, 16, 24, 40}, options, layout);
      const at::Tensor y = random_map({2, 32, 24, 40}, options, layout).unsqueeze(1);
      const at::Tensor weight = at::randn({1, 16 * 9, 32}, options);
      GeneratedCall call(x, y, weight, std::nullopt, {2}, true, last);
      change(call.arguments);
      std::string why;
      return ops::cuda::can_run_generated_filter_wgmma(call.arguments, &why) ? "it can" : why;
    };
    using Arguments = ops::cuda::GeneratedFilterArguments;
    EXPECT_EQ(reason([](Arguments&) {}), "it can");
    EXPECT_EQ(reason([](Arguments& a) { a.dilation[0] = 8; }), "it can");
    EXPECT_EQ(reason([](Arguments& a) { a.dilation[0] = 9; }), "dilation above 8");
    EXPECT_EQ(reason([](Arguments& a) { a.out_stride[0] += 4; }),
              "strides of the result are no multiples of 8");
    EXPECT_EQ(reason([](Arguments& a) { a.out_stride[2] += 4; }),
              "strides of the result are no multiples of 8");
    EXPECT_EQ(reason([](Arguments& a) { a.out = static_cast<char*>(a.out) + 8; }),
              "result is not 16-byte aligned");
  }
}

// What is not finite spreads as in the kernel for everything, to the last element: also where taps
// meet the zeros around the plane, and what fills up steps of y's channels.
TEST_F(Cuda, TheSimtGeneratedFilterSpreadsWhatIsNotFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kFloat);
  for (const bool last : {false, true}) {
    const Layout layout = last ? Layout::kChannelsLast : Layout::kContiguous;
    for (const int64_t source_channels : {7, 64, 70}) {
      SCOPED_TRACE(std::string(name(layout)) + " Cy " + std::to_string(source_channels));
      const at::Tensor x = random_map({1, 12, 21, 19}, options, layout);
      const at::Tensor y = random_map({1, source_channels, 21, 19}, options, layout).unsqueeze(1);
      const at::Tensor weight = at::randn({2, 12 * 9, source_channels}, options);
      const at::Tensor bias = at::randn({2, 12 * 9}, options);
      x[0][2][7][7] = std::nan("");
      x[0][3][20][18] = kInfinity;
      y[0][0][3][0][0] = kInfinity;
      y[0][0][source_channels - 1][20][18] = -kInfinity;
      y[0][0][1][10][15] = std::nan("");
      weight[1][4 * 9 + 8][source_channels - 1] = kInfinity;
      bias[0][5 * 9 + 4] = -kInfinity;
      bias[1][11 * 9] = std::nan("");
      const GeneratedCall call(x, y, weight, bias, {1, 3}, true, last);
      const GeneratedCall peer(x, y, weight, bias, {1, 3}, true, last);
      expect_spread_alike(call, peer, &ops::cuda::can_run_generated_filter_simt,
                          &ops::cuda::launch_generated_filter_simt);
      if (!is_hopper()) continue;
      EXPECT_TRUE(call.out[0][12][0][0].isnan().item<bool>());
      EXPECT_TRUE(call.out[0][12 + 5].isinf().any().item<bool>());
    }
  }
}

// What exact float32 gets elsewhere is several times slower.
TEST_F(Cuda, TheSimtGeneratedFilterSaysWhyNot) {
  const auto reason = [](auto change) {
    ops::cuda::GeneratedFilterArguments a{};
    a.type = ops::cuda::Type::kFloat;
    a.batch = 1;
    a.branches = 3;
    a.groups = 1;
    a.channels = a.source_channels = 64;
    a.height = a.width = 128;
    a.kernel_size = 3;
    for (int b = 0; b < 3; ++b) a.dilation[b] = 1 + 2 * b;
    change(a);
    std::string why;
    return ops::cuda::can_run_generated_filter_simt(a, &why) ? "it can" : why;
  };
  using Arguments = ops::cuda::GeneratedFilterArguments;
  if (is_hopper()) {
    EXPECT_EQ(reason([](Arguments&) {}), "it can");
    EXPECT_EQ(reason([](Arguments& a) { a.dilation[2] = 8; }), "it can");
    EXPECT_EQ(reason([](Arguments& a) { a.channels = 1, a.source_channels = 1000; }), "it can");
    EXPECT_EQ(reason([](Arguments& a) { a.batch = 70000, a.height = 1; }), "it can");
    EXPECT_EQ(reason([](Arguments& a) { a.allow_tf32 = true; }), "it can");
  }
  EXPECT_EQ(reason([](Arguments& a) { a.type = ops::cuda::Type::kDouble; }), "not float");
  EXPECT_EQ(reason([](Arguments& a) { a.type = ops::cuda::Type::kHalf; }), "not float");
  EXPECT_EQ(reason([](Arguments& a) { a.kernel_size = 5; }), "kernel size other than 3");
  EXPECT_EQ(reason([](Arguments& a) { a.dilation[1] = 9; }), "dilation above 8");
  EXPECT_EQ(reason([](Arguments& a) { a.height = a.width = 1 << 15; }), "2^30 pixels or more");
  EXPECT_EQ(reason([](Arguments& a) { a.batch = 1 << 24; }), "more than 2^30 tiles");
  EXPECT_EQ(reason([](Arguments& a) { a.channels = 1 << 29; }), "2^30 channels or more");
}

// In TF32 the exact kernel is the faster one for few channels of y.
TEST(CudaChoice, TheSimtGeneratedFilterPaysForFewChannels) {
  ops::cuda::GeneratedFilterArguments a{};
  a.source_channels = 64;
  EXPECT_TRUE(ops::cuda::generated_filter_simt_pays(a, nullptr));
  a.allow_tf32 = true;
  std::string why;
  EXPECT_FALSE(ops::cuda::generated_filter_simt_pays(a, &why));
  EXPECT_EQ(why, "TF32 with more than 16 channels of y");
  a.source_channels = 16;
  EXPECT_TRUE(ops::cuda::generated_filter_simt_pays(a, nullptr));
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
