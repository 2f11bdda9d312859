#include "timing/module_report.h"

#include <algorithm>
#include <cstdio>
#include <tuple>

namespace hdfnet::app {
namespace {

constexpr double latency_limit = 0.1;
constexpr double spread_limit = 0.025;

/// Splits a series of passes: the first is cold, `warmup` more are left out.
ReportRow row(const std::string& name, const std::string& unit, const std::vector<double>& passes,
              int warmup) {
  ReportRow result;
  result.name = name;
  result.unit = unit;
  if (!passes.empty()) result.cold = passes.front();
  const std::size_t skipped = std::min(passes.size(), static_cast<std::size_t>(1 + warmup));
  result.samples.assign(passes.begin() + static_cast<std::ptrdiff_t>(skipped), passes.end());
  result.warm = summarize(result.samples);
  return result;
}

void fill_shares(std::vector<ReportRow>& rows) {
  double total = 0;
  for (const ReportRow& each : rows) total += each.warm.mean;
  for (ReportRow& each : rows) each.share = total > 0 ? each.warm.mean / total : 0;
}

/// Per-pair milliseconds of a row, whatever its unit.
double per_pair(const ReportRow& row, int batch) {
  return row.unit == "batch" ? row.warm.mean / batch : row.warm.mean;
}

void fill_stage_shares(std::vector<ReportRow>& stages, int batch) {
  double total = 0;
  for (const ReportRow& stage : stages) total += per_pair(stage, batch);
  for (ReportRow& stage : stages) stage.share = total > 0 ? per_pair(stage, batch) / total : 0;
}

/// The passes over the first batch of a stage that belongs to the network; null for the others.
const std::vector<double>* passes_of(Stage stage, const NetworkTimes& network) {
  switch (stage) {
    case Stage::copy_in:
      return &network.copy_in;
    case Stage::device_preprocess:
      return &network.preprocess;
    case Stage::network:
      return &network.network;
    case Stage::device_postprocess:
      return &network.postprocess;
    case Stage::copy_out:
      return &network.copy_out;
    default:
      return nullptr;
  }
}

std::vector<ReportRow> stage_rows(const Measurement& measured, const StageClock& clock) {
  std::vector<ReportRow> rows;
  for (const Stage stage : all_stages) {
    const std::vector<double>* passes = passes_of(stage, measured.network);
    if (passes != nullptr) {
      if (!passes->empty()) rows.push_back(row(name(stage), "batch", *passes, measured.warmup));
    } else {
      rows.push_back(row(name(stage), "pair", clock.durations(stage), 0));
    }
  }
  fill_stage_shares(rows, measured.batch);
  return rows;
}

/// A module that is faster than the measured ceiling (other programs disturbed the measurement, or
/// the library needs fewer operations than were counted) raises it.
std::optional<Ceilings> raised(std::optional<Ceilings> ceilings,
                               const std::vector<ReportRow>& rows) {
  if (!ceilings) return ceilings;
  for (const ReportRow& each : rows) {
    ceilings->flop_per_second = std::max(ceilings->flop_per_second, each.flop_per_second());
    ceilings->bytes_per_second = std::max(ceilings->bytes_per_second, each.bytes_per_second());
  }
  return ceilings;
}

std::vector<ReportRow> module_rows(const Measurement& measured) {
  std::vector<ReportRow> rows;
  for (const ModuleTimes& module : measured.network.modules) {
    ReportRow each = row(module.name, "batch", module.milliseconds, measured.warmup);
    each.flop = module.flop;
    each.bytes = module.bytes;
    rows.push_back(std::move(each));
  }
  fill_shares(rows);
  return rows;
}

std::string text(const char* format, double first, double second = 0) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, format, first, second);
  return buffer;
}

void warn_of_spread(const ModuleReport& report, std::vector<std::string>& warnings) {
  for (const ReportRow& stage : report.stages) {
    if (stage.name != name(Stage::network) || stage.warm.relative_spread() <= spread_limit)
      continue;
    warnings.push_back(
        text("the network's times spread by %.1f %% (more than 2.5 %%): other programs "
             "use the device, or its clock changes; the figures are uncertain.",
             100 * stage.warm.relative_spread()));
  }
}

void warn_of_slow_files(const ModuleReport& report, const Measurement& measured,
                        std::vector<std::string>& warnings) {
  double host = 0, network = 0;
  for (const ReportRow& stage : report.stages) {
    (stage.unit == "pair" ? host : network) += per_pair(stage, measured.batch);
  }
  host /= measured.workers;
  if (network <= 0 || host <= network) return;
  warnings.push_back(
      text("reading and writing takes %.2f ms a pair, the network %.2f ms: the device "
           "waits for the files; more --threads would help.",
           host, network));
}

void warn_of_launches(const ModuleReport& report, std::vector<std::string>& warnings) {
  double share = 0;
  for (const ReportRow& module : report.modules) {
    if (module.bound == Bound::latency) share += module.share;
  }
  if (share <= 0.5) return;
  warnings.push_back(
      text("modules with %.0f %% of the time are bound by latency, not by arithmetic or "
           "memory: a larger --batch would use the device better.",
           100 * share));
}

}  // namespace

const char* name(Bound bound) {
  switch (bound) {
    case Bound::compute:
      return "compute";
    case Bound::memory:
      return "memory";
    case Bound::latency:
      return "latency";
    case Bound::unknown:
      break;
  }
  return "unknown";
}

std::pair<Bound, double> find_bound(double flop, double bytes, double milliseconds,
                                    const std::optional<Ceilings>& ceilings) {
  const bool counted = flop > 0 || bytes > 0;
  if (!ceilings || !counted || milliseconds <= 0) return {Bound::unknown, 0};
  const double compute = flop / ceilings->flop_per_second * 1e3 / milliseconds;
  const double memory = bytes / ceilings->bytes_per_second * 1e3 / milliseconds;
  const double reached = std::max(compute, memory);
  if (reached < latency_limit) return {Bound::latency, reached};
  return {compute >= memory ? Bound::compute : Bound::memory, reached};
}

ModuleReport make_report(const Measurement& measured, const StageClock& clock) {
  ModuleReport report;
  report.header = measured.header;
  report.stages = stage_rows(measured, clock);
  report.modules = module_rows(measured);
  report.ceilings = raised(measured.ceilings, report.modules);
  for (ReportRow& module : report.modules) {
    std::tie(module.bound, module.of_ceiling) =
        find_bound(module.flop, module.bytes, module.warm.median, report.ceilings);
  }
  warn_of_spread(report, report.warnings);
  warn_of_slow_files(report, measured, report.warnings);
  warn_of_launches(report, report.warnings);
  return report;
}

}  // namespace hdfnet::app
