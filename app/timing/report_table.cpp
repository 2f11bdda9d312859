#include <algorithm>
#include <cstdio>

#include "timing/report_formats.h"

namespace hdfnet::app {
namespace {

/// A number with three or so significant digits; "-" for one that is not there.
std::string figure(double value) {
  if (value <= 0) return "-";
  char text[32];
  const int digits = value >= 100 ? 1 : value >= 10 ? 2 : 3;
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f%%", 100 * share);
  return text;
}

std::string bound_text(const ReportRow& row) {
  if (row.bound == Bound::unknown) return "-";
  char text[48];
  std::snprintf(text, sizeof text, "%s %.0f%%", name(row.bound), 100 * row.of_ceiling);
  return text;
}

/// Rows of cells; the first column is aligned left, the others right.
class Table {
 public:
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  std::string print() const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_) {
      widths.resize(std::max(widths.size(), row.size()));
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string padding(widths[i] - row[i].size(), ' ');
        text.append("  ").append(i == 0 ? row[i] : padding).append(i == 0 ? padding : row[i]);
      }
      text.erase(text.find_last_not_of(' ') + 1);
      text += '\n';
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string header_text(const ModuleReport& report) {
  std::string text;
  std::size_t width = 0;
  for (const auto& entry : report.header) width = std::max(width, entry.first.size());
  for (const auto& [key, value] : report.header) {
    text.append("  ").append(key).append(width - key.size(), ' ');
    text.append("  ").append(value).append("\n");
  }
  return text;
}

std::string stage_table(const std::vector<ReportRow>& rows) {
  Table table;
  table.add({"stage", "per", "calls", "cold ms", "mean ms", "median", "p95", "share"});
  for (const ReportRow& row : rows) {
    table.add({row.name, row.unit, std::to_string(row.warm.count), figure(row.cold.value_or(0)),
               figure(row.warm.mean), figure(row.warm.median), figure(row.warm.p95),
               percent(row.share)});
  }
  return table.print();
}

std::string module_table(const std::vector<ReportRow>& rows) {
  Table table;
  table.add({"module", "calls", "cold ms", "mean ms", "median", "p95", "share", "GFLOP", "MB",
             "TFLOP/s", "GB/s", "bound by"});
  for (const ReportRow& row : rows) {
    table.add({row.name, std::to_string(row.warm.count), figure(row.cold.value_or(0)),
               figure(row.warm.mean), figure(row.warm.median), figure(row.warm.p95),
               percent(row.share), figure(row.flop / 1e9), figure(row.bytes / 1e6),
               figure(row.flop_per_second() / 1e12), figure(row.bytes_per_second() / 1e9),
               bound_text(row)});
  }
  return table.print();
}

std::string ceilings_text(const std::optional<Ceilings>& ceilings) {
  if (!ceilings) {
    return "Ceilings: not measured on this device, so 'bound by' is not known.\n";
  }
  return "Ceilings, the best seen here of a large matrix product, a large copy and the modules: " +
         figure(ceilings->flop_per_second / 1e12) + " TFLOP/s, " +
         figure(ceilings->bytes_per_second / 1e9) +
         " GB/s. 'bound by' names the nearer one and the share of it that is reached; latency: "
         "less "
         "than 10% of both.\n";
}

}  // namespace

std::string report_table(const ModuleReport& report) {
  std::string text = "\nModule report\n" + header_text(report);
  text +=
      "\nStages. Files: of the whole run. Copies and network: passes of their own over the first "
      "batch.\n";
  text += stage_table(report.stages);
  text +=
      "\nModules of the network, one by one in passes of their own (without the overlap of the "
      "real run). The first pass is cold, and in no other figure.\n";
  text += module_table(report.modules);
  text += "\n" + ceilings_text(report.ceilings);
  for (const std::string& warning : report.warnings) text += "warning: " + warning + "\n";
  return text;
}

}  // namespace hdfnet::app
