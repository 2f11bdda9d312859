#pragma once

#include <string>

#include "timing/module_report.h"

namespace hdfnet::app {

/// The report for a terminal.
std::string report_table(const ModuleReport& report);

/// The report with every sample, for other programs.
std::string report_json(const ModuleReport& report);

/// One line a stage or module.
std::string report_csv(const ModuleReport& report);

/// Chrome trace events: host threads as they ran, and the modules of the measured pass, in order,
/// on a track of their own that starts at `modules_start_ms`.
std::string chrome_trace(const StageClock& clock, const NetworkTimes& network,
                         double modules_start_ms);

}  // namespace hdfnet::app
