#include "infer.h"

#include <chrono>
#include <fstream>

#include "application.h"
#include "options/config_file.h"
#include "run/interrupt.h"
#include "run/manifest.h"
#include "run/pair_files.h"
#include "run/pipeline.h"
#include "run/progress.h"
#include "run/summary.h"
#include "setup.h"
#include "timing/measure.h"
#include "timing/report_formats.h"

namespace hdfnet::app {
namespace {

namespace fs = std::filesystem;

/// A file for a report, opened before the work so that a bad path costs no run.
class ReportFile {
 public:
  ReportFile(const char* option, const fs::path& file) : option_(option), file_(file) {
    if (file.empty()) return;
    stream_.open(file, std::ios::binary | std::ios::trunc);
    if (!stream_) {
      throw UsageError("--" + option_ + " " + file.string() +
                       " cannot be written; its folder must exist and be writable.");
    }
  }

  bool wanted() const { return !file_.empty(); }

  /// False when the text could not be stored; the console is told.
  bool write(const std::string& text, Console& console) {
    stream_ << text << std::flush;
    if (stream_) return true;
    console.error("--" + option_ + " " + file_.string() + " could not be written completely.");
    return false;
  }

 private:
  const std::string option_;
  const fs::path file_;
  std::ofstream stream_;
};

void check_output_folder(const fs::path& out) {
  const bool file = out.extension() == ".png" || out.extension() == ".PNG";
  const fs::path folder = file && !fs::is_directory(out) ? out.parent_path() : out;
  std::error_code error;
  fs::create_directories(folder.empty() ? "." : folder, error);
  if (error) {
    throw UsageError("The output folder " + folder.string() + " cannot be made (" +
                     error.message() + "); name another with --out.");
  }
}

Result without_work(Status status, const std::string& error) {
  Result result;
  result.status = status;
  result.error = error;
  return result;
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
        json_("timing-json", options.timing_json),
        csv_("timing-csv", options.timing_csv),
        trace_("trace", options.trace),
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
    const bool stored = write_reports() && stored_manifest(manifest);
    summary_.print(console_, seconds.count());
    if (const int signal = InterruptGuard::signal(); signal != 0) return 128 + signal;
    const bool good = stored && summary_.all_good(options_.allow_unpaired);
    return good ? exit_status::ok : exit_status::some_failed;
  }

 private:
  void divide_jobs() {
    for (const Job& job : plan_.jobs) {
      (options_.skip_existing && is_done(job) ? done_ : to_do_).push_back(job);
    }
  }

  void start_networks() {
    setup_ = resolve_setup(options_, provider_, to_do_.size());
    networks_ = make_networks(options_, setup_, provider_, console_);
    if (options_.device == "auto" && setup_.devices.front() == "cpu") {
      if (const std::string why = provider_.unused_gpu(); !why.empty()) console_.warning(why);
    }
    const NetworkInfo& info = networks_.front()->network().info();
    console_.info(
        "HDFNet " + info.variant + " on " + info.device +
        (info.device_name.empty() ? "" : " (" + info.device_name + ")") + ", " + info.precision +
        ", batch " + std::to_string(setup_.batch) +
        (networks_.size() > 1 ? ", " + std::to_string(networks_.size()) + " devices" : ""));
  }

  std::string manifest_hash() {
    return options_.manifest.empty() || networks_.empty() ? "" : provider_.weights_sha256();
  }

  void run_jobs(Manifest& manifest) {
    const auto report = [&](const Job& job, const Result& result) {
      manifest.add(job, result);
      summary_.add(job, result);
    };
    for (const Job& job : done_) report(job, without_work(Status::skipped, ""));
    for (const Job& job : plan_.unpaired) {
      report(job, without_work(Status::unpaired, "no depth was found for this RGB image."));
    }
    if (to_do_.empty()) return;

    PairFiles files(options_, console_, clock_);
    Progress progress(console_, to_do_.size());
    std::vector<RobustNetwork*> networks;
    for (const auto& network : networks_) networks.push_back(network.get());
    run_pipeline(to_do_, pipeline_settings(), {files, networks, clock_, console_},
                 [&](const Job& job, const Result& result) {
                   report(job, result);
                   if (result.status == Status::not_done) return;
                   if (result.status == Status::written) print_outputs(job);
                   progress.advance(result.status == Status::failed);
                 });
  }

  PipelineSettings pipeline_settings() const {
    return {.workers = setup_.workers,
            .batch = setup_.batch,
            .height = options_.size.height,
            .width = options_.size.width,
            .fail_fast = options_.fail_fast,
            .interrupted = [] { return InterruptGuard::signal() != 0; }};
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
    measured_ = measure_first_batch(to_do_, options_, setup_, reader, networks_.front()->network());
    measured_at_ms_ = start.count();
  }

  bool write_reports() {
    if (!measured_) return true;
    measured_->header = report_header(options_, setup_, provider_, networks_.front()->network());
    const ModuleReport report = make_report(*measured_, clock_);
    if (options_.timing) console_.text(report_table(report));
    bool stored = true;
    if (json_.wanted()) stored &= json_.write(report_json(report), console_);
    if (csv_.wanted()) stored &= csv_.write(report_csv(report), console_);
    if (trace_.wanted()) {
      stored &= trace_.write(chrome_trace(clock_, measured_->network, measured_at_ms_), console_);
    }
    return stored;
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
  ReportFile json_, csv_, trace_;
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
