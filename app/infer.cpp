#include "infer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <system_error>

#include "application.h"
#include "options/config_file.h"
#include "run/interrupt.h"
#include "run/manifest.h"
#include "run/ordinary_memory.h"
#include "run/pair_files.h"
#include "run/pipeline.h"
#include "run/progress.h"
#include "run/shard.h"
#include "run/summary.h"
#include "run_reports.h"
#include "setup.h"
#include "timing/measure.h"

namespace hdfnet::app {
namespace {

namespace fs = std::filesystem;

/// Bytes of read pairs before the GPU is ready.
constexpr std::size_t kMostReadAhead = std::size_t{1} << 30;

void check_output_folder(const fs::path& out) {
  const bool file = out.extension() == ".png" || out.extension() == ".PNG";
  fs::path folder = file && !fs::is_directory(out) ? out.parent_path() : out;
  if (folder.empty()) folder = ".";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw UsageError("The output folder " + folder.string() + " cannot be made (" +
                     error.message() + "); name another with --out.");
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    throw UsageError("The output folder " + folder.string() + " cannot be written to (" +
                     std::generic_category().message(errno) + "); name another with --out.");
  }
}

Result without_work(Status status, const std::string& error) {
  Result result;
  result.status = status;
  result.error = error;
  return result;
}

bool is_interrupted() {
  return InterruptGuard::signal() != 0;
}

class Inference {
 public:
  Inference(const Plan& plan, const Options& options, NetworkProvider& provider, std::ostream& out,
            Console& console)
      : plan_(plan),
        options_(options),
        provider_(provider),
        out_(out),
        console_(console),
        reports_(options),
        clock_(wants_measurement(options)) {}

  int run() {
    check_output_folder(options_.out);
    divide_jobs();
    if (!to_do_.empty()) start_networks();
    Manifest manifest(options_.manifest, manifest_hash());
    if (!to_do_.empty()) measure();
    const auto begin = Progress::Clock::now();
    run_jobs(manifest);
    const std::chrono::duration<double> seconds = Progress::Clock::now() - begin;
    const std::string totals = summary_.totals(seconds.count());
    if (measured_) {
      measured_->header = report_header(options_, setup_, provider_, networks_.front()->network());
      for (const Stage stage : {Stage::load, Stage::warm_up}) add_to_header(stage);
    }
    const bool reported = reports_.write(measured_, clock_, measured_at_ms_, totals, console_);
    const bool listed = stored_manifest(manifest);
    summary_.print(console_, totals);
    if (const int signal = InterruptGuard::signal(); signal != 0) return 128 + signal;
    const bool good = reported && listed && summary_.all_good(options_.allow_unpaired);
    return good ? exit_status::ok : exit_status::some_failed;
  }

 private:
  void divide_jobs() {
    for (const Job& job : plan_.jobs) {
      (options_.skip_existing && is_done(job) ? done_ : to_do_).push_back(job);
    }
  }

  void start_networks() {
    StageTimer loading(clock_, "start", Stage::load, "weights and networks");
    const bool single = plan_.jobs.size() == 1 && resolve_shard(options_.shard).count == 1;
    setup_ = resolve_setup(options_, provider_, to_do_.size(), single);
    networks_ = make_networks(options_, setup_, provider_, console_);
    loading.stop();
    if (options_.device == "auto" && setup_.devices.front() == "cpu") {
      if (const std::string why = provider_.unused_gpu(); !why.empty()) console_.warning(why);
    }
    const NetworkInfo& info = networks_.front()->network().info();
    console_.info(
        "HDFNet " + info.variant + " on " + info.device +
        (info.device_name.empty() ? "" : " (" + info.device_name + ")") + ", " + info.precision +
        ", batch " + std::to_string(setup_.batch) +
        (setup_.why_batch.empty() ? "" : " (auto: " + setup_.why_batch + ")") +
        (networks_.size() > 1 ? ", " + std::to_string(networks_.size()) + " devices" : ""));
  }

  std::string manifest_hash() {
    return options_.manifest.empty() || networks_.empty() ? "" : provider_.weights_sha256();
  }

  void run_jobs(Manifest& manifest) {
    const auto report = [&](const Job& job, const Result& result) {
      manifest.add(job, result);
      summary_.add(job, result);
      reports_.add(job, result);
    };
    for (const Job& job : done_) report(job, without_work(Status::skipped, ""));
    for (const Job& job : plan_.unpaired) {
      report(job, without_work(Status::unpaired, "no depth was found for this RGB image."));
    }
    if (to_do_.empty()) return;

    PairFiles files(options_, console_, clock_, reports_.gallery());
    Progress progress(console_, to_do_.size());
    std::vector<RobustNetwork*> networks;
    networks.reserve(networks_.size());
    for (const auto& network : networks_) networks.push_back(network.get());
    run_pipeline(to_do_, pipeline_settings(), {files, networks, clock_, console_},
                 [&](const Job& job, const Result& result) {
                   report(job, result);
                   if (result.status == Status::not_done) return;
                   if (result.status == Status::written) print_outputs(job);
                   progress.advance(result.status == Status::failed);
                 });
  }

  /// The processes of a launcher may share one machine's memory.
  std::size_t most_read_ahead() const {
    return std::min(kMostReadAhead, available_memory() / 8 / resolve_shard(options_.shard).count);
  }

  PipelineSettings pipeline_settings() const {
    return {.workers = setup_.workers,
            .batch = setup_.batch,
            .height = options_.size.height,
            .width = options_.size.width,
            .fail_fast = options_.fail_fast,
            .take_turns = !setup_.on_gpu,
            .read_ahead = setup_.on_gpu ? most_read_ahead() : 0,
            .interrupted = is_interrupted};
  }

  void print_outputs(const Job& job) {
    for (const Output& output : job.outputs) out_ << output.file.string() << '\n';
    out_ << std::flush;
  }

  void measure() {
    if (!wants_measurement(options_)) return;
    console_.info("Measuring the first batch: 1 cold, " + std::to_string(options_.warmup) +
                  " warm-up and " + std::to_string(options_.repeat) + " measured passes");
    const std::chrono::duration<double, std::milli> start =
        StageClock::Clock::now() - clock_.origin();
    // What there is to say of these pairs, the run itself says when it reads them again.
    std::ostream nowhere(nullptr);
    Console silent(nowhere, false, true);
    StageClock aside(false);
    PairFiles reader(options_, silent, aside);
    measured_ = measure_first_batch(to_do_, options_, setup_, reader, networks_.front()->network(),
                                    is_interrupted);
    measured_at_ms_ = start.count();
  }

  /// What went before the first results; of several networks the one that took longest.
  void add_to_header(Stage stage) {
    const std::vector<double> times = clock_.durations(stage);
    if (times.empty() || !measured_) return;
    const double longest = *std::max_element(times.begin(), times.end());
    measured_->header.emplace_back(name(stage), std::to_string(std::lround(longest)) + " ms");
  }

  bool stored_manifest(Manifest& manifest) {
    if (manifest.good()) return true;
    console_.error("--manifest " + options_.manifest.string() +
                   " could not be written completely.");
    return false;
  }

  const Plan& plan_;
  const Options& options_;
  NetworkProvider& provider_;
  std::ostream& out_;
  Console& console_;
  RunReports reports_;
  StageClock clock_;
  std::vector<Job> to_do_, done_;
  Setup setup_;
  std::vector<std::unique_ptr<RobustNetwork>> networks_;
  std::optional<Measurement> measured_;
  double measured_at_ms_ = 0;
  Summary summary_;
};

}  // namespace

int infer(const Plan& plan, const Options& options, NetworkProvider& provider, std::ostream& out,
          Console& console) {
  return Inference(plan, options, provider, out, console).run();
}

}  // namespace hdfnet::app
