// Times packed_conv2d beside oneDNN's convolution, each with a weight packed once, at the shapes of
// the network on the CPU, and holds both to float64. Prints a table in Markdown.
//
//   ninja -C build bench_cpu_convolutions
//   OMP_WAIT_POLICY=passive build/bin/bench_cpu_convolutions [THREADS] [REPEATS] [INSTRUCTION_SET]
//
// The two take turns. Times are processor time of the process divided by the threads, so that other
// programs on the same cores count little; the policy keeps waiting out of it.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "hdfnet/ops/packed_conv2d.h"

namespace {

struct Shape {
  const char* where;
  int64_t channels, outputs, kernel, stride, groups, side;
};

const Shape kShapes[] = {
    {"encoder1", 64, 64, 3, 1, 1, 320},
    {"encoder2 first", 64, 128, 3, 1, 1, 160},
    {"encoder2", 128, 128, 3, 1, 1, 160},
    {"encoder4 first", 128, 256, 3, 1, 1, 80},
    {"encoder4", 256, 256, 3, 1, 1, 80},
    {"encoder8 first", 256, 512, 3, 1, 1, 40},
    {"encoder8", 512, 512, 3, 1, 1, 40},
    {"encoder16", 512, 512, 3, 1, 1, 20},
    {"depth_trans4 dense 1", 64, 64, 3, 1, 1, 80},
    {"depth_trans4 dense 4", 256, 64, 3, 1, 1, 80},
    {"depth_trans4 fuse", 320, 256, 3, 1, 1, 80},
    {"depth_trans8 fuse", 576, 512, 3, 1, 1, 40},
    {"depth_trans16 fuse", 576, 512, 3, 1, 1, 20},
    {"depth_trans8 main", 512, 64, 3, 1, 1, 40},
    {"selfdc_4 first", 64, 240, 3, 1, 1, 80},
    {"selfdc_4 dense 1", 48, 48, 3, 1, 3, 80},
    {"selfdc_4 dense 4", 192, 48, 3, 1, 3, 80},
    {"selfdc_4 merge", 240, 192, 3, 1, 3, 80},
    {"selfdc_4 generate", 192, 432, 1, 1, 3, 80},
    {"upconv2", 64, 32, 3, 1, 1, 160},
    {"upconv1", 32, 32, 3, 1, 1, 320},
    {"trans1", 64, 32, 1, 1, 1, 320},
    {"trans4", 256, 64, 1, 1, 1, 80},
    {"depth_trans8 down", 512, 64, 1, 1, 1, 40},
    {"ResNet-50 layer1 expand", 64, 256, 1, 1, 1, 80},
    {"ResNet-50 layer3 reduce", 1024, 256, 1, 1, 1, 20},
    {"ResNet-50 layer3 expand", 256, 1024, 1, 1, 1, 20},
    {"ResNet-50 layer4 shortcut", 1024, 2048, 1, 2, 1, 20},
    {"ResNet-50 layer4 reduce", 2048, 512, 1, 1, 1, 10},
    {"ResNet-50 layer4 expand", 512, 2048, 1, 1, 1, 10},
    {"ResNet-50 depth_trans16", 1024, 1024, 3, 1, 1, 20},
    {"ResNet-50 depth_trans32", 2048, 2048, 3, 1, 1, 10},
};

using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                             at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, int64_t,
                             std::string_view, c10::List<std::optional<at::Scalar>>,
                             std::optional<std::string_view>);

class OneDnn {
 public:
  OneDnn(const Shape& shape, const at::Tensor& weight, at::Tensor bias)
      : padding_(2, shape.kernel / 2),
        stride_(2, shape.stride),
        groups_(shape.groups),
        weight_(at::mkldnn_reorder_conv2d_weight(weight.to_mkldnn(), padding_, stride_, {1, 1},
                                                 groups_)),
        bias_(std::move(bias)) {}

  at::Tensor operator()(const at::Tensor& x) const {
    static const auto call = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("mkldnn::_convolution_pointwise", "")
                                 .typed<Signature>();
    return call.call(x, weight_, bias_, padding_, stride_, {1, 1}, groups_, "relu",
                     c10::List<std::optional<at::Scalar>>(), std::nullopt);
  }

 private:
  std::vector<int64_t> padding_;
  std::vector<int64_t> stride_;
  int64_t groups_;
  at::Tensor weight_;
  at::Tensor bias_;
};

double processor_milliseconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6) /
         at::get_num_threads();
}

template <typename Call>
double time_of(const Call& call) {
  const double before = processor_milliseconds();
  call();
  return processor_milliseconds() - before;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::array<double, 2> errors(const at::Tensor& y, const at::Tensor& exact) {
  const at::Tensor difference = (y - exact).abs();
  return {difference.max().item<double>(), difference.mean().item<double>()};
}

void measure(const Shape& s, int repeats, std::string_view instruction_set) {
  const auto last = at::MemoryFormat::ChannelsLast;
  const at::Tensor x = at::relu(at::randn({1, s.channels, s.side, s.side})).contiguous(last);
  const int64_t terms = s.channels / s.groups * s.kernel * s.kernel;
  const at::Tensor weight = at::randn({s.outputs, s.channels / s.groups, s.kernel, s.kernel}) *
                            std::sqrt(2.0 / static_cast<double>(terms));
  const at::Tensor bias = at::randn({s.outputs});
  const OneDnn vendor(s, weight, bias);
  const at::Tensor packed = hdfnet::ops::pack_conv2d_weight(weight, s.groups);
  const auto own = [&] {
    return hdfnet::ops::packed_conv2d(x, packed, bias, std::nullopt,
                                      {s.stride, /*relu=*/true, instruction_set});
  };
  const std::array<at::Tensor, 2> results = {vendor(x), own()};
  std::array<std::vector<double>, 2> times;
  for (int i = 0; i < repeats; ++i) {
    times[0].push_back(time_of([&] { vendor(x); }));
    times[1].push_back(time_of(own));
  }
  const std::vector<int64_t> stride(2, s.stride);
  const std::vector<int64_t> padding(2, s.kernel / 2);
  const at::Tensor exact =
      at::relu(at::conv2d(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble), stride,
                          padding, {1, 1}, s.groups));
  const auto [vendor_largest, vendor_mean] = errors(results[0], exact);
  const auto [largest, mean] = errors(results[1], exact);
  const double flop = 2.0 * static_cast<double>(terms * exact.numel());
  const double vendor_time = median(times[0]);
  const double own_time = median(times[1]);
  std::printf(
      "| %s | %lld -> %lld, %lldx%lld%s%s, %lld | %.3f | %.3f | %.2f | %.0f | %.0f | %.1e / %.1e "
      "| %.1e / %.1e |\n",
      s.where, static_cast<long long>(s.channels), static_cast<long long>(s.outputs),
      static_cast<long long>(s.kernel), static_cast<long long>(s.kernel),
      s.stride > 1 ? ", stride 2" : "", s.groups > 1 ? ", 3 groups" : "",
      static_cast<long long>(s.side), vendor_time, own_time, vendor_time / own_time,
      flop / vendor_time * 1e-6, flop / own_time * 1e-6, vendor_largest, vendor_mean, largest,
      mean);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const c10::InferenceMode inference;
  at::manual_seed(0);
  at::set_num_threads(argc > 1 ? std::atoi(argv[1]) : at::get_num_threads());
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 15;
  if (hdfnet::ops::packed_conv2d_instruction_sets().empty()) {
    std::fputs("packed_conv2d has no kernels for this processor\n", stderr);
    return 1;
  }
  std::puts(
      "| convolution | channels, kernel, side | oneDNN ms | packed ms | ratio | oneDNN GFLOP/s | "
      "packed | oneDNN error, largest / mean | packed |");
  std::puts("|---|---|---|---|---|---|---|---|---|");
  for (const Shape& shape : kShapes) measure(shape, repeats, argc > 3 ? argv[3] : "");
  return 0;
}
