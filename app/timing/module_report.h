#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "network.h"
#include "timing/stage_clock.h"
#include "timing/statistics.h"

namespace hdfnet::app {

/// Which ceiling a module meets first.
enum class Bound {
  unknown,  ///< no ceiling, or nothing counted
  compute,  ///< arithmetic
  memory,   ///< memory traffic
  latency,  ///< neither: launches, dependencies, too little work
};
const char* name(Bound bound);

/// One line of the report: a host stage or a module of the network.
struct ReportRow {
  std::string name;
  std::string unit;            ///< what one call is: pair or batch
  std::optional<double> cold;  ///< milliseconds of the first call, which is in no other figure
  Statistics warm;             ///< milliseconds of the calls after it
  double share = 0;            ///< of the sum over this part of the report, 0..1
  double flop = 0;             ///< of one call; 0: not counted
  double bytes = 0;
  Bound bound = Bound::unknown;
  double of_ceiling = 0;        ///< reached share of the binding ceiling, 0..1
  std::vector<double> samples;  ///< the milliseconds behind `warm`

  double flop_per_second() const { return warm.median > 0 ? flop / warm.median * 1e3 : 0; }
  double bytes_per_second() const { return warm.median > 0 ? bytes / warm.median * 1e3 : 0; }
};

/// The module report: where a pair's time goes.
struct ModuleReport {
  std::vector<std::pair<std::string, std::string>> header;
  std::vector<ReportRow> stages;   ///< host stages and copies
  std::vector<ReportRow> modules;  ///< of the network, run one by one
  std::optional<Ceilings> ceilings;
  std::vector<std::string> warnings;
};

/// What the report is made from.
struct Measurement {
  NetworkTimes network;  ///< passes of the first batch, the first of them cold
  int warmup = 0;        ///< passes after the cold one that are left out
  int batch = 1;
  int workers = 1;
  std::optional<Ceilings> ceilings;
  std::vector<std::pair<std::string, std::string>> header;
};

/// Puts the report together; host stages come from the clock of the whole run.
ModuleReport make_report(const Measurement& measured, const StageClock& clock);

/// The binding ceiling of work that took `milliseconds`, and how much of it was reached. Work that
/// reaches less than a tenth of both ceilings is bound by latency.
std::pair<Bound, double> find_bound(double flop, double bytes, double milliseconds,
                                    const std::optional<Ceilings>& ceilings);

}  // namespace hdfnet::app
