#include "application.h"

#include <algorithm>
#include <exception>
#include <opencv2/core/utility.hpp>
#include <thread>

#include "cuda_driver.h"
#include "data_files.h"
#include "hdfnet/version.h"
#include "image/read.h"
#include "infer.h"
#include "options/command_line.h"
#include "run/console.h"
#include "run/interrupt.h"
#include "run/plan.h"
#include "run/shard.h"
#include "verify.h"

namespace hdfnet::app {
namespace {

/// "cuda:0 (NVIDIA H200, compute capability 9.0)".
void print_card(int index, std::ostream& out) {
  const CudaDevice card = cuda_device(index);
  out << "cuda:" << index << " (" << card.name;
  for (const auto& [name, value] : card.facts) {
    if (name == "compute capability") out << ", " << name << " " << value;
  }
  out << ")";
}

void print_version(const NetworkProvider& provider, std::ostream& out) {
  out << "hdfnet-infer " << HDFNET_VERSION << "\n";
  for (const auto& [library, version] : provider.versions()) {
    out << "  " << library << ": " << version << "\n";
  }
  out << "  OpenCV: " << cv::getVersionString() << "\n";
  out << "  devices: cpu (" << std::max(std::thread::hardware_concurrency(), 1u) << " threads)";
  for (int i = 0; i < cuda_device_count(); ++i) {
    out << ", ";
    print_card(i, out);
  }
  out << "\n";
  if (const std::string why = provider.unused_gpu(); !why.empty()) out << "  " << why << "\n";
  out << "  reads: " << supported_formats() << "\n";
}

/// Tells what the pairing found besides pairs.
void announce(const Plan& plan, Console& console) {
  for (const std::string& note : plan.notes) console.info(note);
  for (const std::filesystem::path& file : plan.unpaired_depth) {
    console.warning(file.string() + ": depth without an RGB image; it is not used");
  }
  for (const Job& job : plan.unpaired) {
    console.warning(job.rgb.string() + ": RGB image without depth; it is left out");
  }
}

int dry_run(const Plan& plan, const Options& options, std::ostream& out) {
  for (const Job& job : plan.jobs) {
    const bool skipped = options.skip_existing && is_done(job);
    out << (skipped ? "skip" : "do") << '\t' << job.rgb.string() << '\t' << job.depth.string();
    for (const Output& output : job.outputs) out << '\t' << output.file.string();
    out << '\n';
  }
  const bool complete = plan.unpaired.empty() || options.allow_unpaired;
  return complete ? exit_status::ok : exit_status::some_failed;
}

int run_options(Options options, NetworkProvider& provider, const Streams& streams,
                Console& console) {
  const Plan plan = make_plan(options, &streams.in);
  announce(plan, console);
  if (options.dry_run) return dry_run(plan, options, streams.out);
  options.weights = find_weights(options.weights);
  give_each_shard_its_reports(options);
  const InterruptGuard guard;
  if (options.verify) return verify(plan, options, provider, streams.out, console);
  return infer(plan, options, provider, streams.out, console);
}

}  // namespace

int run_application(const std::vector<std::string>& arguments, NetworkProvider& provider,
                    const Streams& streams) {
  try {
    const CommandLine line = parse_command_line(arguments);
    if (line.help) {
      streams.out << help_text();
    } else if (line.options.version) {
      print_version(provider, streams.out);
    } else if (line.options.print_config) {
      streams.out << print_config(line.options);
    } else {
      Console console(streams.err, streams.terminal, line.options.quiet);
      return run_options(line.options, provider, streams, console);
    }
    return exit_status::ok;
  } catch (const std::exception& error) {
    // Failures of single pairs are handled where they happen; what arrives here stops the program.
    Console(streams.err, streams.terminal, false).error(error.what());
    return exit_status::cannot_run;
  }
}

}  // namespace hdfnet::app
