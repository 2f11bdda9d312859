#include "network_bench.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#ifdef HDFNET_WITH_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

#include "hdfnet/engine.h"
#include "hdfnet/version.h"
#include "report_options.h"
#include "stopwatch.h"

namespace hdfnet::bench {
namespace {

struct Options {
  std::vector<std::string> weights;
  std::string device = "cpu";
  std::vector<std::string> precisions = {"auto"};
  std::vector<int64_t> batches = {1};
  std::vector<int64_t> sides = {320};
  std::vector<std::string> who = {"engine", "frozen"};
  int repeats = 10;
  int threads = 0;
  bool no_memory = false;
  ReportOptions report;
  std::string only;  ///< engine or frozen: run one alone and print its peak memory
};

using Forward = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

Precision parse_precision(const std::string& text) {
  for (const Precision p :
       {Precision::automatic, Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
    if (name(p) == text) return p;
  }
  throw std::runtime_error("--precision: " + text + " is none of auto, fp32, tf32, fp16 and bf16");
}

/// An archive in one precision on one device, from which both forms of the network are made.
struct Subject {
  std::string weights;
  at::Device device;
  Precision precision;  ///< never automatic
};

Subject subject(const Options& options, const std::string& weights, const std::string& precision) {
  const at::Device device(options.device);
  const Precision asked = parse_precision(precision);
  if (asked != Precision::automatic) return {weights, device, asked};
  return {weights, device, device.is_cuda() ? Precision::fp16 : Precision::fp32};
}

at::ScalarType scalar_type(Precision precision) {
  if (precision == Precision::fp16) return at::kHalf;
  return precision == Precision::bf16 ? at::kBFloat16 : at::kFloat;
}

Forward load_engine(const Subject& subject) {
  EngineOptions settings;
  settings.device = subject.device;
  settings.precision = subject.precision;
  auto engine = std::make_shared<Engine>(load_parameters(subject.weights), settings);
  return [engine](const at::Tensor& rgb, const at::Tensor& depth) {
    return engine->forward(rgb, depth);
  };
}

// What a LibTorch user runs today: the archive's own graph, frozen, BatchNorm folded by the
// freezing; in half precision in the channels-last layout, which is its faster one on CUDA.
Forward load_frozen(const Subject& subject) {
  const at::ScalarType type = scalar_type(subject.precision);
  const bool tf32 = subject.precision == Precision::tf32;
  torch::jit::Module module = torch::jit::load(subject.weights, subject.device);
  module.to(type);
  module.eval();
  auto frozen = std::make_shared<torch::jit::Module>(torch::jit::freeze(module));
  const at::Device device = subject.device;
  const auto format =
      device.is_cuda() ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  return [frozen, device, type, format, tf32](const at::Tensor& rgb, const at::Tensor& depth) {
    at::globalContext().setAllowTF32CuDNN(tf32);
    return frozen
        ->forward(
            {rgb.to(device, type).contiguous(format), depth.to(device, type).contiguous(format)})
        .toTensor()
        .to(at::kFloat);
  };
}

Forward load(const std::string& who, const Subject& subject) {
  return who == "engine" ? load_engine(subject) : load_frozen(subject);
}

struct Case {
  int64_t batch, side;
};

std::pair<at::Tensor, at::Tensor> inputs(const Case& c, at::Device device) {
  return {at::rand({c.batch, 3, c.side, c.side}).to(device),
          at::rand({c.batch, 1, c.side, c.side}).to(device)};
}

// The kernel's own record of the most memory this process has held.
double peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    double kib = 0;
    if (key == "VmHWM:" && status >> kib) return kib * 1024;
  }
  return 0;
}

// Prints the peak memory in bytes: the device's, weights included, or on the CPU the process's.
int run_alone(const Options& options) {
  const c10::InferenceMode inference;
  const Case c{options.batches.front(), options.sides.front()};
  const Subject what = subject(options, options.weights.front(), options.precisions.front());
  double bytes = 0;
  const auto work = [&] {
    const Forward forward = load(options.only, what);
    const auto [rgb, depth] = inputs(c, what.device);
    for (int pass = 0; pass < 3; ++pass) forward(rgb, depth);
  };
  bytes = static_cast<double>(peak_memory_of(what.device.type(), work));
  if (what.device.is_cpu()) bytes = peak_resident_bytes();
  std::printf("%.0f\n", bytes);
  return 0;
}

std::string shell_quote(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

double peak_of_own_process(const std::string& who, const Options& options, const Subject& what,
                           const Case& c) {
  const std::string command =
      shell_quote(std::filesystem::read_symlink("/proc/self/exe").string()) + " network --only " +
      who + " --weights " + shell_quote(what.weights) + " --device " + shell_quote(options.device) +
      " --precision " + std::string(name(what.precision)) + " --batch " + std::to_string(c.batch) +
      " --size " + std::to_string(c.side) + " --threads " + std::to_string(options.threads);
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start a process to measure memory in");
  double bytes = 0;
  const int read = std::fscanf(pipe, "%lf", &bytes);
  if (pclose(pipe) != 0 || read != 1) {
    throw std::runtime_error("the process that measures the memory of " + who + " failed");
  }
  return bytes;
}

/// Beyond this the two networks are not the same; as hdfnet-infer --verify.
double tolerance(Precision precision) {
  if (precision == Precision::fp32) return 1e-4;
  return precision == Precision::bf16 ? 1e-1 : 2e-2;
}

// One row for each form of the network, timed in turn, so that whatever else the machine does meets
// all alike.
std::vector<Row> measure(const Options& options, const Subject& what, const std::string& variant,
                         const std::vector<Forward>& forms, const Case& c) {
  const auto [rgb, depth] = inputs(c, what.device);
  std::vector<at::Tensor> maps(forms.size());
  std::vector<std::vector<double>> times(forms.size());
  for (int pass = -3; pass < options.repeats; ++pass) {
    for (size_t i = 0; i < forms.size(); ++i) {
      const double passed =
          time_once(what.device.type(), [&, r = rgb, d = depth] { maps[i] = forms[i](r, d); });
      if (pass >= 0) times[i].push_back(passed);
    }
  }
  const auto frozen = std::find(options.who.begin(), options.who.end(), "frozen");
  std::optional<size_t> peer;
  if (frozen != options.who.end()) peer = static_cast<size_t>(frozen - options.who.begin());
  std::vector<Row> rows;
  for (size_t i = 0; i < forms.size(); ++i) {
    const Times own = summarize(times[i]);
    Row row;
    row["variant"] = variant;
    row["who"] = options.who[i];
    row["precision"] = std::string(name(what.precision));
    row["batch"] = c.batch;
    row["side"] = c.side;
    row["us"] = own.median;
    row["p5"] = own.p5;
    row["p95"] = own.p95;
    row["images/s"] = static_cast<double>(c.batch) / own.median * 1e6;
    row["x frozen"] = peer ? Row(summarize(times[*peer]).median / own.median) : Row();
    row["peak MB"] = Row();
    if (!options.no_memory) {
      row["peak MB"] = peak_of_own_process(options.who[i], options, what, c) / 1e6;
    }
    row["difference"] = Row();
    row["right"] = Row();
    if (peer && *peer != i) {
      const double difference = (maps[i] - maps[*peer]).abs().max().item<double>();
      row["difference"] = difference;
      row["right"] = difference <= tolerance(what.precision);
    }
    rows.push_back(row);
  }
  return rows;
}

Row environment_of(const Options& options) {
  Row environment;
  environment["hdfnet"] = HDFNET_VERSION;
  environment["torch"] = TORCH_VERSION;
  environment["device"] = "CPU, " + std::to_string(at::get_num_threads()) + " threads";
#ifdef HDFNET_WITH_CUDA
  const at::Device device(options.device);
  if (device.is_cuda() && at::hasCUDA()) {
    environment["device"] = std::string(at::cuda::getDeviceProperties(device.index())->name);
  }
#endif
  environment["repeats"] = options.repeats;
  return environment;
}

int run_network(const Options& options) {
  if (options.threads > 0) at::set_num_threads(options.threads);
  if (!options.only.empty()) return run_alone(options);
  const c10::InferenceMode inference;
  std::vector<Row> rows;
  for (const std::string& weights : options.weights) {
    const std::string variant(name(inspect(load_parameters(weights)).variant));
    for (const std::string& precision : options.precisions) {
      const Subject what = subject(options, weights, precision);
      std::vector<Forward> forms;
      for (const std::string& who : options.who) forms.push_back(load(who, what));
      for (const int64_t side : options.sides) {
        for (const int64_t batch : options.batches) {
          for (Row& row : measure(options, what, variant, forms, {batch, side})) {
            rows.push_back(std::move(row));
          }
        }
      }
    }
  }
  options.report.write(environment_of(options), rows);
  const bool wrong = std::any_of(rows.begin(), rows.end(), [](const Row& row) {
    return row["right"].is_boolean() && !row["right"].get<bool>();
  });
  return wrong ? 1 : 0;
}

}  // namespace

void add_network_command(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "network",
      "Times the engine and the frozen TorchScript of the same archives over every combination of "
      "the lists given. The archives' own code is run");
  const auto list = [&](const char* flag, auto& values, const char* help) {
    return command->add_option(flag, values, help)->delimiter(',')->capture_default_str();
  };
  list("--weights", options->weights, "TorchScript archives, one for each variant")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_option("--device", options->device, "cpu, cuda or cuda:N")->capture_default_str();
  list("--precision", options->precisions, "auto, fp32, tf32, fp16, bf16");
  list("--batch", options->batches, "images")->check(CLI::PositiveNumber);
  list("--size", options->sides, "height and width in pixels")->check(CLI::PositiveNumber);
  list("--who", options->who, "engine, frozen")->check(CLI::IsMember({"engine", "frozen"}));
  command->add_option("--repeat", options->repeats, "timed passes of each case")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--threads", options->threads, "CPU threads, 0 for LibTorch's choice")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--no-memory", options->no_memory,
                    "do not measure the peak memory, each case in a process of its own");
  options->report.add_to(*command);
  command
      ->add_option("--only", options->only,
                   "run engine or frozen alone and print its peak memory in bytes")
      ->check(CLI::IsMember({"engine", "frozen"}));
  command->callback([options, &run] { run = [options] { return run_network(*options); }; });
}

}  // namespace hdfnet::bench
