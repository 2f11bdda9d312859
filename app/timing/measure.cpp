#include "timing/measure.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <exception>

#include "hdfnet/version.h"
#include "run/batch.h"

namespace hdfnet::app {
namespace {

/// False when the pair cannot be read; the run itself reads it again and reports what is wrong.
bool can_load(PairIo& io, const Job& job, const Planes& planes) {
  try {
    PairTimes times;
    io.load(job, planes, "first batch", times);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// Reads the first pairs that can be read into `batch`, which is as large as wanted.
void read_first_batch(const std::vector<Job>& jobs, InputSize size, PairIo& io, Network& network,
                      const Interrupted& interrupted, Batch& batch) {
  const auto allocate = [&](std::size_t count) { return network.allocate(count); };
  const std::size_t tries =
      std::min<std::size_t>(jobs.size(), 4 * static_cast<std::size_t>(batch.size));
  int count = 0;
  for (std::size_t i = 0; i < tries && count < batch.size; ++i) {
    if (interrupted()) throw GivenUp();
    const Planes planes =
        batch.input(count, size.height, size.width, network.takes_pictures(), allocate);
    if (!can_load(io, jobs[i], planes)) continue;
    batch.slots[static_cast<std::size_t>(count)].loaded = true;
    ++count;
  }
  batch.close_gaps(size.height, size.width);
}

std::string megabytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f MB", bytes / 1e6);
  return text;
}

std::string peak_resident_memory() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return megabytes(static_cast<double>(usage.ru_maxrss) * 1024);
}

/// What the memory is not enough for is filled up less, as in the run.
NetworkTimes measure_filled(Network& network, BatchView& view, int passes,
                            const Interrupted& interrupted) {
  for (;;) {
    try {
      return network.measure(view, passes, interrupted);
    } catch (const OutOfMemory&) {
      if (view.filled_to <= view.count) throw;
      view.filled_to = std::max(view.count, view.filled_to / 2);
    }
  }
}

std::optional<Measurement> measure(const std::vector<Job>& jobs, const Options& options,
                                   const Setup& setup, PairIo& io, Network& network,
                                   const Interrupted& interrupted) {
  Batch batch;
  batch.open(0, setup.batch);
  read_first_batch(jobs, options.size, io, network, interrupted, batch);
  BatchView view = batch.view(options.size.height, options.size.width);
  view.filled_to = setup.full_batch;  // as in the run
  if (view.count == 0) return std::nullopt;
  Measurement measured;
  measured.network =
      measure_filled(network, view, 1 + options.warmup + options.repeat, interrupted);
  measured.warmup = options.warmup;
  measured.batch = view.count;
  measured.workers = setup.workers;
  if (interrupted()) throw GivenUp();
  measured.ceilings = network.measure_ceilings();
  return measured;
}

}  // namespace

bool wants_measurement(const Options& options) {
  return options.timing || !options.timing_json.empty() || !options.timing_csv.empty() ||
         !options.trace.empty() || !options.report.empty();
}

std::optional<Measurement> measure_first_batch(const std::vector<Job>& jobs, const Options& options,
                                               const Setup& setup, PairIo& io, Network& network,
                                               const Interrupted& interrupted) {
  try {
    return measure(jobs, options, setup, io, network, interrupted);
  } catch (const GivenUp&) {
    return std::nullopt;
  }
}

std::vector<std::pair<std::string, std::string>> report_header(const Options& options,
                                                               const Setup& setup,
                                                               NetworkProvider& provider,
                                                               Network& network) {
  const NetworkInfo& info = network.info();
  std::vector<std::pair<std::string, std::string>> header = {
      {"hdfnet-infer", HDFNET_VERSION},
      {"network", info.variant + ", DDPM " + info.ddpm},
      {"weights", options.weights.string()},
      {"device", info.device + (info.device_name.empty() ? "" : " (" + info.device_name + ")")},
      {"precision", info.precision},
      {"batch", std::to_string(setup.batch) +
                    (setup.full_batch > setup.batch
                         ? ", computed as one of " + std::to_string(setup.full_batch)
                         : "") +
                    (setup.why_batch.empty() ? "" : " (auto: " + setup.why_batch + ")")},
      {"size", std::to_string(options.size.width) + "x" + std::to_string(options.size.height)},
      {"threads", std::to_string(setup.threads) + ", of them " + std::to_string(setup.workers) +
                      " read and write"},
      {"passes", "1 cold, " + std::to_string(options.warmup) + " warm-up, " +
                     std::to_string(options.repeat) + " measured"}};
  header.insert(header.end(), info.facts.begin(), info.facts.end());
  for (const auto& version : provider.versions()) header.push_back(version);
  if (const auto peak = network.peak_device_memory()) {
    header.emplace_back("peak device memory", megabytes(static_cast<double>(*peak)));
  }
  header.emplace_back("peak resident memory", peak_resident_memory());
  return header;
}

}  // namespace hdfnet::app
