#pragma once

#include "options/options.h"
#include "run/job.h"
#include "run/pair_io.h"
#include "setup.h"
#include "timing/module_report.h"

namespace hdfnet::app {

/// Whether any output needs the measured passes.
bool wants_measurement(const Options& options);

/// Measures the network over the first batch that can be read, in passes of their own before the
/// run, so that neither disturbs the other. Nothing when no pair can be read, the run will say why;
/// or when it was interrupted.
std::optional<Measurement> measure_first_batch(const std::vector<Job>& jobs, const Options& options,
                                               const Setup& setup, PairIo& io, Network& network,
                                               const Interrupted& interrupted);

/// What the figures belong to: device, precision, batch, versions, how they were taken.
std::vector<std::pair<std::string, std::string>> report_header(const Options& options,
                                                               const Setup& setup,
                                                               NetworkProvider& provider,
                                                               Network& network);

}  // namespace hdfnet::app
