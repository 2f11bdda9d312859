#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hdfnet::bench {

/// One timed thing of a report. Times are in milliseconds.
struct TimedRow {
  std::string name;
  double median = 0;
  double p5 = 0;
  double p95 = 0;
};

/// A report that compare() understands: a module report (hdfnet-infer --timing-json), or the JSON
/// of hdfnet-bench ops and network.
struct TimedReport {
  std::vector<std::pair<std::string, std::string>> settings;  ///< device, versions, precision ...
  std::vector<TimedRow> rows;
};

/// Throws std::runtime_error, naming `label`, unless `json` is such a report.
TimedReport parse_timed_report(const std::string& json, const std::string& label);

enum class Change {
  same,    ///< the ranges from the 5th to the 95th percentile overlap
  faster,  ///< they do not, and the second is below
  slower,
  gone,   ///< only in the first report
  added,  ///< only in the second
};
const char* name(Change change);

struct ComparedRow {
  std::string name;
  TimedRow first;   ///< zeros where `change` is added
  TimedRow second;  ///< zeros where `change` is gone
  Change change = Change::same;

  double ratio() const { return second.median > 0 ? first.median / second.median : 0; }
};

struct Comparison {
  /// What the reports were made with, where that differs: name, first, second.
  struct Setting {
    std::string name, first, second;
  };
  std::vector<Setting> settings;
  std::vector<ComparedRow> rows;  ///< in the first report's order, then what the second adds
};

Comparison compare(const TimedReport& first, const TimedReport& second);

}  // namespace hdfnet::bench
