#include "network_bench.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hdfnet/engine.h"
#include "stopwatch.h"

namespace hdfnet::bench {
namespace {

struct Options {
  std::string weights;
  std::string device = "cpu";
  std::string precision = "auto";
  std::vector<int64_t> batches = {1};
  int64_t size = 320;
  int repeats = 10;
  int threads = 0;
  std::string json;
  std::string only;  ///< engine or frozen: run one alone and print the peak resident memory
};

using Forward = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

Precision parse_precision(const std::string& text) {
  for (const Precision p :
       {Precision::automatic, Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
    if (name(p) == text) return p;
  }
  throw std::runtime_error("--precision: " + text + " is none of auto, fp32, tf32, fp16 and bf16");
}

Precision resolved_precision(const Options& options) {
  const Precision asked = parse_precision(options.precision);
  if (asked != Precision::automatic) return asked;
  return at::Device(options.device).is_cuda() ? Precision::fp16 : Precision::fp32;
}

at::ScalarType scalar_type(Precision precision) {
  if (precision == Precision::fp16) return at::kHalf;
  return precision == Precision::bf16 ? at::kBFloat16 : at::kFloat;
}

Forward load_engine(const Options& options) {
  EngineOptions settings;
  settings.device = at::Device(options.device);
  settings.precision = resolved_precision(options);
  auto engine = std::make_shared<Engine>(load_parameters(options.weights), settings);
  return [engine](const at::Tensor& rgb, const at::Tensor& depth) {
    return engine->forward(rgb, depth);
  };
}

// What a LibTorch user runs today: the archive's own graph, frozen, BatchNorm folded by the
// freezing; in half precision in the channels-last layout, which is its faster one on CUDA.
Forward load_frozen(const Options& options) {
  const at::Device device(options.device);
  const at::ScalarType type = scalar_type(resolved_precision(options));
  at::globalContext().setAllowTF32CuDNN(resolved_precision(options) == Precision::tf32);
  torch::jit::Module module = torch::jit::load(options.weights, device);
  module.to(type);
  module.eval();
  auto frozen = std::make_shared<torch::jit::Module>(torch::jit::freeze(module));
  const auto format =
      device.is_cuda() ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  return [frozen, device, type, format](const at::Tensor& rgb, const at::Tensor& depth) {
    return frozen
        ->forward(
            {rgb.to(device, type).contiguous(format), depth.to(device, type).contiguous(format)})
        .toTensor()
        .to(at::kFloat);
  };
}

Forward load(const std::string& who, const Options& options) {
  return who == "engine" ? load_engine(options) : load_frozen(options);
}

std::pair<at::Tensor, at::Tensor> inputs(const Options& options, int64_t batch) {
  const at::Device device(options.device);
  return {at::rand({batch, 3, options.size, options.size}).to(device),
          at::rand({batch, 1, options.size, options.size}).to(device)};
}

// The kernel's own record of the most memory this process has held, in MiB.
double peak_resident_mib() {
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    double kib = 0;
    if (key == "VmHWM:" && status >> kib) return kib / 1024;
  }
  return 0;
}

int run_alone(const Options& options) {
  const c10::InferenceMode inference;
  const Forward forward = load(options.only, options);
  for (const int64_t batch : options.batches) {
    const auto [rgb, depth] = inputs(options, batch);
    for (int pass = 0; pass < 3; ++pass) forward(rgb, depth);
  }
  std::printf("%.0f\n", peak_resident_mib());
  return 0;
}

std::string shell_quote(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

double peak_of_own_process(const std::string& who, const Options& options, int64_t batch) {
  const std::string command =
      shell_quote(std::filesystem::read_symlink("/proc/self/exe").string()) + " network --only " +
      who + " --weights " + shell_quote(options.weights) + " --device " +
      shell_quote(options.device) + " --precision " + options.precision + " --batch " +
      std::to_string(batch) + " --size " + std::to_string(options.size) + " --threads " +
      std::to_string(options.threads);
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start a process to measure memory in");
  double mib = 0;
  const int read = std::fscanf(pipe, "%lf", &mib);
  if (pclose(pipe) != 0 || read != 1) {
    throw std::runtime_error("the process that measures the memory of " + who + " failed");
  }
  return mib;
}

struct Row {
  int64_t batch = 0;
  Times engine{};
  Times frozen{};
  double difference = 0;  ///< largest, between the two saliency maps
  double engine_mib = 0;
  double frozen_mib = 0;
};

Row measure(const Options& options, int64_t batch, const Forward& engine, const Forward& frozen) {
  const auto [rgb, depth] = inputs(options, batch);
  const c10::DeviceType device = at::Device(options.device).type();
  Row row;
  row.batch = batch;
  for (int pass = 0; pass < 3; ++pass) {
    row.difference = (engine(rgb, depth) - frozen(rgb, depth)).abs().max().item<double>();
  }
  // In turn, so that whatever else the machine does meets both alike.
  std::vector<double> times_engine;
  std::vector<double> times_frozen;
  for (int pass = 0; pass < options.repeats; ++pass) {
    times_engine.push_back(time_once(device, [&, r = rgb, d = depth] { engine(r, d); }));
    times_frozen.push_back(time_once(device, [&, r = rgb, d = depth] { frozen(r, d); }));
  }
  row.engine = summarize(times_engine);
  row.frozen = summarize(times_frozen);
  return row;
}

void print(const Row& row) {
  std::printf(
      "%5lld  %9.3f  %9.3f  %9.3f  %9.3f  %9.3f  %9.3f  %6.2fx  %10.0f  %10.0f  %6.2f  %.2g\n",
      static_cast<long long>(row.batch), row.engine.median / 1e3, row.engine.p5 / 1e3,
      row.engine.p95 / 1e3, row.frozen.median / 1e3, row.frozen.p5 / 1e3, row.frozen.p95 / 1e3,
      row.frozen.median / row.engine.median, row.engine_mib, row.frozen_mib,
      row.engine_mib / row.frozen_mib, row.difference);
}

nlohmann::json to_json(const Row& row) {
  const auto times = [](const Times& t) {
    return nlohmann::json{{"median_us", t.median}, {"p5_us", t.p5}, {"p95_us", t.p95}};
  };
  return {{"batch", row.batch},
          {"engine", times(row.engine)},
          {"frozen_torchscript", times(row.frozen)},
          {"speedup", row.frozen.median / row.engine.median},
          {"engine_peak_resident_mib", row.engine_mib},
          {"frozen_peak_resident_mib", row.frozen_mib},
          {"largest_difference", row.difference}};
}

int run_network(const Options& options) {
  if (options.threads > 0) at::set_num_threads(options.threads);
  if (!options.only.empty()) return run_alone(options);
  const c10::InferenceMode inference;
  std::printf("%s, %s, %lldx%lld, %d threads; the archive's code is run\n", options.device.c_str(),
              std::string(name(resolved_precision(options))).c_str(),
              static_cast<long long>(options.size), static_cast<long long>(options.size),
              at::get_num_threads());
  std::printf(
      "batch  engine ms         p5        p95  frozen ms         p5        p95  speedup  "
      "engine MiB  frozen MiB   ratio  largest difference\n");
  std::vector<Row> rows;
  {
    const Forward engine = load("engine", options);
    const Forward frozen = load("frozen", options);
    for (const int64_t batch : options.batches) {
      rows.push_back(measure(options, batch, engine, frozen));
    }
  }
  nlohmann::json results = nlohmann::json::array();
  for (Row& row : rows) {
    row.engine_mib = peak_of_own_process("engine", options, row.batch);
    row.frozen_mib = peak_of_own_process("frozen", options, row.batch);
    print(row);
    results.push_back(to_json(row));
  }
  if (!options.json.empty()) {
    std::ofstream(options.json) << nlohmann::json{{"device", options.device},
                                                  {"precision", name(resolved_precision(options))},
                                                  {"size", options.size},
                                                  {"threads", at::get_num_threads()},
                                                  {"results", results}}
                                       .dump(2)
                                << "\n";
  }
  return 0;
}

}  // namespace

void add_network_command(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "network", "the engine against the frozen TorchScript of the same archive");
  command->add_option("--weights", options->weights, "TorchScript archive; its own code is run")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_option("--device", options->device, "cpu, cuda or cuda:N [cpu]");
  command->add_option("--precision", options->precision, "auto, fp32, tf32, fp16 or bf16 [auto]");
  command->add_option("--batch", options->batches, "batch sizes, separated by commas [1]")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  command->add_option("--size", options->size, "height and width [320]")
      ->check(CLI::PositiveNumber);
  command->add_option("--repeat", options->repeats, "measured passes [10]")
      ->check(CLI::PositiveNumber);
  command->add_option("--threads", options->threads, "CPU threads, 0 for LibTorch's choice [0]")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--json", options->json, "write the results to this file");
  command
      ->add_option("--only", options->only,
                   "run engine or frozen alone and print its peak resident memory in MiB")
      ->check(CLI::IsMember({"engine", "frozen"}));
  command->callback([options, &run] { run = [options] { return run_network(*options); }; });
}

}  // namespace hdfnet::bench
