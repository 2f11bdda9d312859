#include "compare.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace hdfnet::bench {
namespace {

using Json = nlohmann::ordered_json;

// What a bench's row measures; its other columns say what the row is.
constexpr const char* kMeasured[] = {"us",        "p5",         "p95",      "GB/s",      "TFLOP/s",
                                     "of copy",   "of ceiling", "bound by", "MFLOP",     "MB",
                                     "FLOP/byte", "peak MB",    "error",    "PyTorch's", "right",
                                     "images/s",  "x frozen",   "peak",     "difference"};

bool is_measured(const std::string& column) {
  return std::find(std::begin(kMeasured), std::end(kMeasured), column) != std::end(kMeasured);
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

TimedRow module_row(const Json& row, const std::string& part) {
  return {part + row.at("name").get<std::string>(), row.at("median_ms").get<double>(),
          row.at("p5_ms").get<double>(), row.at("p95_ms").get<double>()};
}

TimedRow bench_row(const Json& row) {
  TimedRow result;
  for (const auto& [column, value] : row.items()) {
    if (is_measured(column)) continue;
    if (!result.name.empty()) result.name += ' ';
    // Words speak for themselves; a number needs its column's name.
    if (!value.is_string()) result.name += column + '=';
    result.name += text_of(value);
  }
  result.median = row.at("us").get<double>() / 1e3;
  result.p5 = row.at("p5").get<double>() / 1e3;
  result.p95 = row.at("p95").get<double>() / 1e3;
  return result;
}

TimedReport read(const Json& document) {
  TimedReport report;
  if (document.contains("modules")) {
    for (const auto& [key, value] : document.at("header").items()) {
      report.settings.emplace_back(key, text_of(value));
    }
    for (const Json& row : document.at("stages")) report.rows.push_back(module_row(row, "stage "));
    for (const Json& row : document.at("modules")) report.rows.push_back(module_row(row, ""));
    return report;
  }
  for (const auto& [key, value] : document.items()) {
    if (key != "rows") report.settings.emplace_back(key, text_of(value));
  }
  for (const Json& row : document.at("rows")) report.rows.push_back(bench_row(row));
  return report;
}

const TimedRow* find(const std::vector<TimedRow>& rows, const std::string& name) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const TimedRow& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

Change change_of(const TimedRow& first, const TimedRow& second) {
  if (second.p95 < first.p5) return Change::faster;
  return second.p5 > first.p95 ? Change::slower : Change::same;
}

std::string setting(const TimedReport& report, const std::string& name) {
  for (const auto& [key, value] : report.settings) {
    if (key == name) return value;
  }
  return "-";
}

}  // namespace

const char* name(Change change) {
  switch (change) {
    case Change::same:
      return "same";
    case Change::faster:
      return "faster";
    case Change::slower:
      return "slower";
    case Change::gone:
      return "gone";
    case Change::added:
      return "added";
  }
  return "?";
}

TimedReport parse_timed_report(const std::string& json, const std::string& label) {
  const std::string wanted =
      ": expected the JSON of hdfnet-infer --timing-json, or of hdfnet-bench ops, network or "
      "roofline with --format json";
  try {
    const Json document = Json::parse(json);
    if (!document.is_object()) throw std::runtime_error(label + wanted);
    return read(document);
  } catch (const Json::parse_error& error) {
    throw std::runtime_error(label + wanted + " (" + error.what() + ")");
  } catch (const Json::exception&) {
    throw std::runtime_error(label + wanted);  // JSON, but of something else
  }
}

Comparison compare(const TimedReport& first, const TimedReport& second) {
  Comparison result;
  std::vector<std::string> names;
  for (const TimedReport* report : {&first, &second}) {
    for (const auto& entry : report->settings) {
      if (std::find(names.begin(), names.end(), entry.first) == names.end()) {
        names.push_back(entry.first);
      }
    }
  }
  for (const std::string& key : names) {
    const std::string one = setting(first, key);
    const std::string other = setting(second, key);
    if (one != other) result.settings.push_back({key, one, other});
  }
  for (const TimedRow& row : first.rows) {
    ComparedRow& line = result.rows.emplace_back();
    line.name = row.name;
    line.first = row;
    const TimedRow* other = find(second.rows, row.name);
    line.change = other == nullptr ? Change::gone : change_of(row, *other);
    if (other != nullptr) line.second = *other;
  }
  for (const TimedRow& row : second.rows) {
    if (find(first.rows, row.name) != nullptr) continue;
    ComparedRow& line = result.rows.emplace_back();
    line.name = row.name;
    line.second = row;
    line.change = Change::added;
  }
  return result;
}

}  // namespace hdfnet::bench
