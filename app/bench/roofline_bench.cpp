#include "roofline_bench.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <torch/version.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "hdfnet/version.h"
#include "report_options.h"
#include "stopwatch.h"

namespace hdfnet::bench {
namespace {

struct Options {
  std::string device = "cpu";
  int64_t batch = 64;
  std::vector<int64_t> kernel_sizes = {3, 5, 16};
  int repeats = 10;
  ReportOptions report;
};

struct Ceilings {
  double bytes_per_second, flop_per_second;
};

/// The rate of a large product of matrices in float32.
double matrix_rate(c10::DeviceType device) {
  const int64_t side = device == c10::kCUDA ? 8192 : 1024;
  const at::Tensor a = at::randn({side, side}, at::device(device));
  const at::Tensor b = at::randn({side, side}, at::device(device));
  at::Tensor c = at::empty_like(a);
  const Times times = time_calls(device, 5, [&] { at::matmul_out(c, a, b); });
  return 2.0 * static_cast<double>(side * side * side) / times.median * 1e6;
}

struct Work {
  std::string what;
  double flop;   ///< a multiplication and an addition are two
  double bytes;  ///< each tensor once
  std::function<void()> run;
};

Row measure(const Work& work, const Ceilings& ceilings, c10::DeviceType device, int repeats) {
  const Times times = time_calls(device, repeats, work.run);
  const double seconds = times.median * 1e-6;
  const double for_memory = work.bytes / ceilings.bytes_per_second;
  const double for_arithmetic = work.flop / ceilings.flop_per_second;
  Row row;
  row["what"] = work.what;
  row["MFLOP"] = work.flop / 1e6;
  row["MB"] = work.bytes / 1e6;
  row["FLOP/byte"] = work.flop / work.bytes;
  row["us"] = times.median;
  row["p5"] = times.p5;
  row["p95"] = times.p95;
  row["GB/s"] = work.bytes / seconds / 1e9;
  row["TFLOP/s"] = work.flop / seconds / 1e12;
  row["bound by"] = for_memory > for_arithmetic ? "memory" : "compute";
  row["of ceiling"] = std::max(for_memory, for_arithmetic) / seconds;
  return row;
}

std::vector<Work> works(const Options& options, c10::DeviceType device) {
  constexpr int64_t channels = 256, height = 32, width = 60;
  const at::Tensor x = at::randn({options.batch, channels, height, width}, at::device(device));
  const at::Tensor factor = at::randn({1, channels, height, width}, at::device(device));
  const at::Tensor product = at::empty_like(x);
  const auto bytes = [](std::initializer_list<at::Tensor> tensors) {
    double sum = 0;
    for (const at::Tensor& tensor : tensors) sum += static_cast<double>(tensor.nbytes());
    return sum;
  };
  std::vector<Work> result;
  result.push_back(
      {"element-wise product", static_cast<double>(x.numel()), bytes({x, factor, product}), [=] {
         at::Tensor out = product;
         at::mul_out(out, x, factor);
       }});
  for (const int64_t k : options.kernel_sizes) {
    const at::Tensor weight = at::randn({channels, 1, k, k}, at::device(device));
    const auto convolve = [=] {
      return at::conv2d(x, weight, /*bias=*/{}, {1, 1}, {k / 2, k / 2}, {1, 1}, channels);
    };
    const at::Tensor y = convolve();
    const std::string size = std::to_string(k);
    result.push_back({"convolution " + size + "x" + size + ", each channel by itself",
                      2.0 * static_cast<double>(y.numel() * k * k), bytes({x, weight, y}),
                      [convolve] { convolve(); }});
  }
  return result;
}

int run_roofline(const Options& options) {
  const c10::InferenceMode inference;
  if (options.device == "cuda" && !at::hasCUDA()) {
    throw std::runtime_error("--device cuda: no CUDA device can be used here");
  }
  const c10::DeviceType device = options.device == "cuda" ? c10::kCUDA : c10::kCPU;
  at::globalContext().setAllowTF32CuDNN(false);
  at::globalContext().setAllowTF32CuBLAS(false);
  const Ceilings ceilings{copy_rate(device), matrix_rate(device)};
  std::vector<Row> rows;
  for (const Work& work : works(options, device)) {
    rows.push_back(measure(work, ceilings, device, options.repeats));
  }
  Row environment;
  environment["hdfnet"] = HDFNET_VERSION;
  environment["torch"] = TORCH_VERSION;
  environment["device"] = options.device == "cuda"
                              ? "CUDA"
                              : "CPU, " + std::to_string(at::get_num_threads()) + " threads";
  environment["type"] = "fp32, no TF32";
  environment["copy GB/s"] = ceilings.bytes_per_second / 1e9;
  environment["matrix TFLOP/s"] = ceilings.flop_per_second / 1e12;
  options.report.write(environment, rows);
  return 0;
}

}  // namespace

void add_roofline_command(CLI::App& app, std::function<int()>& run) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "roofline",
      "Why a step of few operations can be slow: an element-wise product of a map of 32x60 with "
      "256 "
      "channels beside convolutions of the same map, in float32, against what the device can copy "
      "and multiply");
  command->add_option("--device", options->device, "cpu, cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--batch", options->batch, "maps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--kernel-size", options->kernel_sizes, "of the convolutions")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--repeat", options->repeats, "timed calls of each")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  options->report.add_to(*command);
  command->callback([options, &run] { run = [options] { return run_roofline(*options); }; });
}

}  // namespace hdfnet::bench
