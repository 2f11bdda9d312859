#include "ops_bench.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>

#include "hdfnet/ops/dynamic_filter.h"
#include "hdfnet/ops/generated_dynamic_filter.h"
#include "hdfnet/version.h"
#include "report_options.h"
#include "stopwatch.h"
#ifdef HDFNET_WITH_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

namespace hdfnet::bench {
namespace {

struct Options {
  std::vector<std::string> ops = {"dynamic_filter"};
  std::vector<std::string> passes = {"forward"};
  std::vector<int64_t> batches = {1, 32};
  std::vector<int64_t> channels = {16};
  std::vector<int64_t> kernel_sizes = {3};
  std::vector<int64_t> sides = {20, 40, 80};
  std::vector<std::string> types = {"fp32", "fp16"};
  std::vector<std::string> layouts = {"nchw", "nhwc"};
  std::vector<int64_t> dilations = {1, 3, 5};
  int64_t source_channels = 64;
  int64_t groups = 1;
  bool concat_input = false;
  bool tf32 = false;
  bool unchecked = false;
  std::string device = "auto";
  int repeats = 20;
  ReportOptions report;
};

const std::map<std::string, at::ScalarType> kTypes = {
    {"fp32", at::kFloat}, {"fp64", at::kDouble}, {"fp16", at::kHalf}, {"bf16", at::kBFloat16}};

struct Case {
  std::string op, pass, type, layout;
  int64_t batch, channels, kernel_size, side;
};

// The tensors of a case: x and kernels, or x, y, weight and bias.
struct Inputs {
  at::Tensor x, kernels, y, weight, bias;

  std::vector<at::Tensor> all() const {
    if (kernels.defined()) return {x, kernels};
    return {x, y, weight, bias};
  }
};

Inputs make_inputs(const Case& c, const Options& options, c10::DeviceType device) {
  const auto as = at::TensorOptions().device(device).dtype(kTypes.at(c.type));
  const auto format =
      c.layout == "nhwc" ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const int64_t branches = static_cast<int64_t>(options.dilations.size());
  const int64_t taps = c.kernel_size * c.kernel_size;
  const auto map = [&](int64_t channels) {
    return at::randn({c.batch, channels, c.side, c.side}, as).contiguous(format);
  };
  Inputs in;
  in.x = map(c.channels);
  if (c.op == "dynamic_filter") {
    in.kernels = map(branches * c.channels * taps).unflatten(1, {branches, c.channels, taps});
    return in;
  }
  in.y = map(options.groups * options.source_channels)
             .unflatten(1, {options.groups, options.source_channels});
  in.weight = at::randn({branches, c.channels * taps, options.source_channels}, as) /
              std::sqrt(static_cast<double>(options.source_channels));
  in.bias = at::randn({branches, c.channels * taps}, as);
  return in;
}

at::Tensor call(const Inputs& in, const Options& options) {
  return in.kernels.defined()
             ? ops::dynamic_filter(in.x, in.kernels, options.dilations, options.concat_input)
             : ops::generated_dynamic_filter(in.x, in.y, in.weight, in.bias, options.dilations,
                                             options.concat_input);
}

// The first image, as PyTorch users compute it: the taps by a matrix product, padding and unfold.
at::Tensor by_unfold(const Inputs& in, const Options& options) {
  const at::Tensor x = in.x.narrow(0, 0, 1).contiguous();
  at::Tensor kernels;
  if (in.kernels.defined()) {
    kernels = in.kernels.narrow(0, 0, 1);
  } else {
    const at::Tensor y = in.y.narrow(0, 0, 1).flatten(3).contiguous();
    kernels = at::add(at::matmul(in.weight, y), in.bias.unsqueeze(2))
                  .view({1, in.weight.size(0), x.size(1), -1, x.size(2), x.size(3)});
  }
  const int64_t k = std::llround(std::sqrt(static_cast<double>(kernels.size(3))));
  std::vector<at::Tensor> parts;
  if (options.concat_input) parts.push_back(x);
  for (size_t b = 0; b < options.dilations.size(); ++b) {
    const int64_t d = options.dilations[b];
    const at::Tensor windows = at::im2col(x, {k, k}, {d, d}, {k / 2 * d, k / 2 * d}, {1, 1})
                                   .view({1, x.size(1), k * k, x.size(2), x.size(3)});
    parts.push_back((windows * kernels.select(1, static_cast<int64_t>(b))).sum(2));
  }
  return at::cat(parts, 1);
}

at::Tensor exact(const Inputs& in, const Options& options) {
  const at::Tensor x = in.x.narrow(0, 0, 1);
  return in.kernels.defined()
             ? ops::dynamic_filter_reference(x, in.kernels.narrow(0, 0, 1), options.dilations,
                                             options.concat_input)
             : ops::generated_dynamic_filter_reference(x, in.y.narrow(0, 0, 1), in.weight, in.bias,
                                                       options.dilations, options.concat_input);
}

double relative_error(const at::Tensor& value, const at::Tensor& expected) {
  return ((value.to(at::kCPU, at::kDouble) - expected).norm() / expected.norm()).item<double>();
}

// What the operation must move and do at least; backward: each input again and its gradient.
struct Need {
  double bytes, flop;
};
Need need_of(const Case& c, const Inputs& in, const at::Tensor& result) {
  double bytes = 0;
  for (const at::Tensor& tensor : in.all()) bytes += static_cast<double>(tensor.nbytes());
  bytes += static_cast<double>(result.nbytes());
  const double taps = static_cast<double>(c.batch * c.side * c.side * c.kernel_size *
                                          c.kernel_size * result.size(1));
  const double each = in.kernels.defined() ? 2.0 : 2.0 + 2.0 * static_cast<double>(in.y.size(2));
  const double factor = c.pass == "backward" ? 2 : 1;
  return {bytes * factor, taps * each * factor};
}

Row measure(const Case& c, const Options& options, c10::DeviceType device, double ceiling) {
  Inputs in = make_inputs(c, options, device);
  const bool backward = c.pass == "backward";
  std::function<void()> work = [&] { call(in, options); };
  const at::Tensor result = call(in, options);
  at::Tensor differentiable, direction;
  std::vector<at::Tensor> leaves;
  if (backward) {
    for (at::Tensor* tensor : {&in.x, &in.kernels, &in.y, &in.weight, &in.bias}) {
      if (tensor->defined()) tensor->requires_grad_(true);
    }
    leaves = in.all();
    differentiable = call(in, options);
    direction = at::randn_like(result);
    work = [&] { torch::autograd::grad({differentiable}, leaves, {direction}, true); };
  }
  const Times times = time_calls(device, options.repeats, work);
  const int64_t peak = peak_memory_of(device, work);
  const Need need = need_of(c, in, result);
  const double seconds = times.median * 1e-6;

  Row row;
  row["op"] = c.op;
  row["pass"] = c.pass;
  row["batch"] = c.batch;
  row["C"] = c.channels;
  row["K"] = c.kernel_size;
  row["side"] = c.side;
  row["type"] = c.type;
  row["layout"] = c.layout;
  row["us"] = times.median;
  row["p5"] = times.p5;
  row["p95"] = times.p95;
  row["GB/s"] = need.bytes / seconds / 1e9;
  row["TFLOP/s"] = need.flop / seconds / 1e12;
  row["of copy"] = need.bytes / seconds / ceiling;
  row["peak MB"] = device == c10::kCUDA ? Row(static_cast<double>(peak) / 1e6) : Row();
  row["error"] = Row();
  row["PyTorch's"] = Row();
  row["right"] = Row();
  if (!options.unchecked) {
    const c10::AutoGradMode no_gradients(false);
    const at::Tensor expected = exact(in, options);
    const double own = relative_error(result.narrow(0, 0, 1), expected);
    const double peer = relative_error(by_unfold(in, options), expected);
    row["error"] = own;
    row["PyTorch's"] = peer;
    row["right"] = own <= 2 * peer + 1e-7;
  }
  return row;
}

std::vector<Case> cases_of(const Options& options) {
  std::vector<Case> cases;
  for (const auto& op : options.ops)
    for (const auto& pass : options.passes)
      for (const int64_t batch : options.batches)
        for (const int64_t channels : options.channels)
          for (const int64_t k : options.kernel_sizes)
            for (const int64_t side : options.sides)
              for (const auto& type : options.types)
                for (const auto& layout : options.layouts)
                  cases.push_back({op, pass, type, layout, batch, channels, k, side});
  return cases;
}

c10::DeviceType device_of(const Options& options) {
  const bool cuda = at::hasCUDA() && ops::built_with_cuda();
  if (options.device == "cuda" && !cuda) {
    throw std::runtime_error(
        "--device cuda: expected a CUDA device and operators built with CUDA, found none");
  }
  return options.device == "cpu" || !cuda ? c10::kCPU : c10::kCUDA;
}

Row environment_of(c10::DeviceType device, double ceiling, const Options& options) {
  Row environment;
  environment["hdfnet"] = HDFNET_VERSION;
  environment["torch"] = TORCH_VERSION;
  environment["device"] = "CPU, " + std::to_string(at::get_num_threads()) + " threads";
#ifdef HDFNET_WITH_CUDA
  if (device == c10::kCUDA) {
    environment["device"] = std::string(at::cuda::getCurrentDeviceProperties()->name);
  }
#endif
  environment["copy GB/s"] = ceiling / 1e9;
  environment["tf32"] = options.tf32;
  environment["repeats"] = options.repeats;
  return environment;
}

int run_ops(const Options& options) {
  ops::register_ops();
  const c10::DeviceType device = device_of(options);
  at::globalContext().setAllowTF32CuBLAS(options.tf32);
  const double ceiling = copy_rate(device);
  std::vector<Row> rows;
  bool right = true;
  for (const Case& c : cases_of(options)) {
    rows.push_back(measure(c, options, device, ceiling));
    if (rows.back()["right"].is_boolean()) right = right && rows.back()["right"].get<bool>();
  }
  options.report.write(environment_of(device, ceiling, options), rows);
  return right ? 0 : 1;
}

}  // namespace

void add_ops_command(CLI::App& app, std::function<int()>& run) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "ops",
      "Times the operators over every combination of the lists given, and checks each result");
  const auto list = [&](const char* name, auto& values, const char* help) {
    return command->add_option(name, values, help)->delimiter(',')->capture_default_str();
  };
  list("--op", options->ops, "dynamic_filter, generated_dynamic_filter")
      ->check(CLI::IsMember({"dynamic_filter", "generated_dynamic_filter"}));
  list("--pass", options->passes, "forward, backward")
      ->check(CLI::IsMember({"forward", "backward"}));
  list("--batch", options->batches, "images")->check(CLI::PositiveNumber);
  list("--channels", options->channels, "channels of x")->check(CLI::PositiveNumber);
  list("--kernel-size", options->kernel_sizes, "K, odd")->check(CLI::PositiveNumber);
  list("--side", options->sides, "height and width in pixels")->check(CLI::PositiveNumber);
  list("--type", options->types, "fp32, fp16, bf16, fp64")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16", "fp64"}));
  list("--layout", options->layouts, "nchw, nhwc")->check(CLI::IsMember({"nchw", "nhwc"}));
  list("--dilations", options->dilations, "one branch each")->check(CLI::PositiveNumber);
  command->add_option("--source-channels", options->source_channels, "channels of y")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--groups", options->groups, "groups of y: 1, or one for each dilation")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--concat-input", options->concat_input, "put x in front of the results");
  command->add_flag("--tf32", options->tf32, "allow TF32 products in fp32");
  command->add_flag("--no-check", options->unchecked, "do not compare with float64");
  command->add_option("--device", options->device, "auto, cpu, cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--repeat", options->repeats, "timed calls of each case")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  options->report.add_to(*command);
  command->callback([options, &run] { run = [options] { return run_ops(*options); }; });
}

}  // namespace hdfnet::bench
