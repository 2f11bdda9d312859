#pragma once

#include <ostream>
#include <string>

#include "network.h"
#include "options/options.h"
#include "run/console.h"
#include "run/plan.h"

namespace hdfnet::app {

/// Largest difference that rounding explains, in saliency (0..1): 1e-4 for fp32, 2e-2 for tf32 and
/// fp16, 1e-1 for bf16.
double verify_tolerance(const std::string& precision);

/// Runs each pair through the network with fused and with reference DDPMs and through the archive's
/// own forward; prints the largest differences per pair. Returns the exit status: 1 when one is
/// past the tolerance, or a pair cannot be read.
int verify(const Plan& plan, const Options& options, NetworkProvider& provider, std::ostream& out,
           Console& console);

}  // namespace hdfnet::app
