#include <nlohmann/json.hpp>
#include <sstream>

#include "text/utf8.h"
#include "timing/report_formats.h"

namespace hdfnet::app {
namespace {

using Json = nlohmann::ordered_json;

Json row_json(const ReportRow& row) {
  Json json = {{"name", row.name},         {"per", row.unit},
               {"calls", row.warm.count},  {"cold_ms", row.cold ? Json(*row.cold) : Json()},
               {"mean_ms", row.warm.mean}, {"median_ms", row.warm.median},
               {"p5_ms", row.warm.p5},     {"p95_ms", row.warm.p95},
               {"share", row.share}};
  if (row.flop > 0 || row.bytes > 0) {
    json["flop"] = row.flop;
    json["bytes"] = row.bytes;
    json["flop_per_second"] = row.flop_per_second();
    json["bytes_per_second"] = row.bytes_per_second();
    json["bound_by"] = name(row.bound);
    json["of_ceiling"] = row.of_ceiling;
  }
  json["samples_ms"] = row.samples;
  return json;
}

Json rows_json(const std::vector<ReportRow>& rows) {
  Json json = Json::array();
  for (const ReportRow& row : rows) json.push_back(row_json(row));
  return json;
}

/// A CSV field: in quotes when it needs them (RFC 4180).
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

void add_csv(std::ostringstream& out, const char* part, const std::vector<ReportRow>& rows) {
  for (const ReportRow& row : rows) {
    out << part << ',' << field(row.name) << ',' << row.unit << ',' << row.warm.count << ','
        << row.cold.value_or(0) << ',' << row.warm.mean << ',' << row.warm.median << ','
        << row.warm.p95 << ',' << row.share << ',' << row.flop << ',' << row.bytes << ','
        << row.flop_per_second() << ',' << row.bytes_per_second() << ',' << name(row.bound) << ','
        << row.of_ceiling << '\n';
  }
}

/// Names a track of the trace.
Json thread_name(int process, int thread, const std::string& label) {
  return {{"ph", "M"},
          {"name", "thread_name"},
          {"pid", process},
          {"tid", thread},
          {"args", {{"name", label}}}};
}

/// A span of the trace; the format counts in microseconds.
Json span(const std::string& label, const std::string& category, int process, int thread,
          double start_ms, double duration_ms) {
  return {{"ph", "X"},     {"name", label},        {"cat", category},         {"pid", process},
          {"tid", thread}, {"ts", start_ms * 1e3}, {"dur", duration_ms * 1e3}};
}

constexpr int host_process = 1, network_process = 2;

void add_host(Json& events, const StageClock& clock) {
  int thread = 0;
  for (const StageClock::Lane& lane : clock.lanes()) {
    events.push_back(thread_name(host_process, ++thread, lane.name));
    for (const StageEvent& event : lane.events) {
      Json json =
          span(name(event.stage), "host", host_process, thread, event.start_ms, event.duration_ms);
      json["args"] = {{"of", to_utf8(event.what)}};
      events.push_back(std::move(json));
    }
  }
}

void add_modules(Json& events, const NetworkTimes& network, double start_ms) {
  events.push_back(thread_name(network_process, 1, "modules, one measured pass"));
  for (const ModuleTimes& module : network.modules) {
    if (module.milliseconds.empty()) continue;
    Json json =
        span(module.name, "module", network_process, 1, start_ms, module.milliseconds.back());
    json["args"] = {{"flop", module.flop}, {"bytes", module.bytes}};
    events.push_back(std::move(json));
    start_ms += module.milliseconds.back();
  }
}

}  // namespace

std::string report_json(const ModuleReport& report) {
  Json json;
  for (const auto& [key, value] : report.header) json["header"][key] = to_utf8(value);
  json["stages"] = rows_json(report.stages);
  json["modules"] = rows_json(report.modules);
  json["ceilings"] = Json();
  if (report.ceilings) {
    json["ceilings"] = {{"flop_per_second", report.ceilings->flop_per_second},
                        {"bytes_per_second", report.ceilings->bytes_per_second}};
  }
  json["warnings"] = report.warnings;
  return json.dump(2) + "\n";
}

std::string report_csv(const ModuleReport& report) {
  std::ostringstream out;
  out << "part,name,per,calls,cold_ms,mean_ms,median_ms,p95_ms,share,flop,bytes,flop_per_second,"
         "bytes_per_second,bound_by,of_ceiling\n";
  add_csv(out, "stage", report.stages);
  add_csv(out, "module", report.modules);
  return out.str();
}

std::string chrome_trace(const StageClock& clock, const NetworkTimes& network,
                         double modules_start_ms) {
  Json events = Json::array();
  for (const auto& [process, label] :
       {std::pair{host_process, "hdfnet-infer"}, std::pair{network_process, "network"}}) {
    events.push_back(
        {{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"args", {{"name", label}}}});
  }
  add_host(events, clock);
  add_modules(events, network, modules_start_ms);
  return Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

}  // namespace hdfnet::app
