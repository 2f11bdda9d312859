#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "html/gallery.h"
#include "html/page.h"
#include "options/options.h"
#include "run/console.h"
#include "timing/measure.h"
#include "timing/stage_clock.h"

namespace hdfnet::app {

/// A file for a report, opened before the work so that a bad path costs no run.
class ReportFile {
 public:
  /// An empty path: not wanted. Throws UsageError when the file cannot be written.
  ReportFile(const char* option, const std::filesystem::path& file);

  bool wanted() const { return !file_.empty(); }

  /// False when the text could not be stored; the console is told.
  bool write(const std::string& text, Console& console);

 private:
  const std::string option_;
  const std::filesystem::path file_;
  std::ofstream stream_;
};

/// The reports of a run: --timing, --timing-json, --timing-csv, --trace and --report.
class RunReports {
 public:
  explicit RunReports(const Options& options);

  /// Where the pairs' pictures go; null when no page is wanted.
  Gallery* gallery() { return page_.wanted() ? &gallery_ : nullptr; }

  /// One pair is done with.
  void add(const Job& job, const Result& result);

  /// Writes what was asked for; false when something could not be stored. `modules_start_ms`: when,
  /// on the clock, the measured passes began.
  bool write(const std::optional<Measurement>& measured, const StageClock& clock,
             double modules_start_ms, const std::string& summary, Console& console);

 private:
  const Options& options_;
  ReportFile json_, csv_, trace_, page_;
  Gallery gallery_;
  PageContent content_;
};

}  // namespace hdfnet::app
