#pragma once

#include <ostream>

#include "network.h"
#include "options/options.h"
#include "run/console.h"
#include "run/plan.h"

namespace hdfnet::app {

/// The run proper: saliency maps of the plan's pairs, and the reports that were asked for. Paths of
/// written files go to `out`. Returns the exit status; throws what stops the run before its start.
int infer(const Plan& plan, const Options& options, NetworkProvider& provider, std::ostream& out,
          Console& console);

}  // namespace hdfnet::app
