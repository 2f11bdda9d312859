#pragma once

#include <string>

#include "timing/module_report.h"

namespace hdfnet::app {

/// The modules' mean times as bars, in the order in which they run. SVG.
std::string module_bars(const ModuleReport& report);

/// Each module by its FLOP per byte and its FLOP/s under the two ceilings, both axes logarithmic.
/// SVG; a sentence instead when the ceilings are not known.
std::string roofline(const ModuleReport& report);

}  // namespace hdfnet::app
