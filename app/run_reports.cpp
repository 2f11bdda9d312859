#include "run_reports.h"

#include "options/config_file.h"
#include "timing/report_formats.h"

namespace hdfnet::app {

ReportFile::ReportFile(const char* option, const std::filesystem::path& file)
    : option_(option), file_(file) {
  if (file.empty()) return;
  stream_.open(file, std::ios::binary | std::ios::trunc);
  if (!stream_) {
    throw UsageError("--" + option_ + " " + file.string() +
                     " cannot be written; its folder must exist and be writable.");
  }
}

bool ReportFile::write(const std::string& text, Console& console) {
  stream_ << text << std::flush;
  if (stream_) return true;
  console.error("--" + option_ + " " + file_.string() + " could not be written completely.");
  return false;
}

RunReports::RunReports(const Options& options)
    : options_(options),
      json_("timing-json", options.timing_json),
      csv_("timing-csv", options.timing_csv),
      trace_("trace", options.trace),
      page_("report", options.report) {}

void RunReports::add(const Job& job, const Result& result) {
  if (!page_.wanted()) return;
  content_.entries.push_back({job.name, result, gallery_.take(job.name)});
}

bool RunReports::write(const std::optional<Measurement>& measured, const StageClock& clock,
                       double modules_start_ms, const std::string& summary, Console& console) {
  bool stored = true;
  if (measured) {
    const ModuleReport report = make_report(*measured, clock);
    if (options_.timing) console.text(report_table(report));
    if (json_.wanted()) stored &= json_.write(report_json(report), console);
    if (csv_.wanted()) stored &= csv_.write(report_csv(report), console);
    if (trace_.wanted()) {
      stored &= trace_.write(chrome_trace(clock, measured->network, modules_start_ms), console);
    }
    content_.report = report;
  }
  if (page_.wanted()) {
    content_.summary = summary;
    content_.settings = print_config(options_);
    stored &= page_.write(report_page(content_), console);
  }
  return stored;
}

}  // namespace hdfnet::app
