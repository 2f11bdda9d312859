#pragma once

#include <istream>
#include <vector>

#include "options/options.h"
#include "pairing/pairing.h"
#include "run/job.h"

namespace hdfnet::app {

/// Everything a run will do, fixed before any work starts.
struct Plan {
  std::vector<Job> jobs;      ///< of this shard, sorted by name
  std::vector<Job> unpaired;  ///< RGB images without depth; of this shard
  std::vector<std::filesystem::path> unpaired_depth;
  std::vector<std::string> notes;
};

/// The kinds to write: --save, and a mask when there is a --threshold.
std::vector<Save> kinds_to_save(const Options& options);

/// Where one pair's results go: OUT/STEM.png for the map, OUT/STEM_overlay.png and so on for the
/// others; for a single pair OUT may name the map's file.
std::vector<Output> outputs_for(const Pair& pair, const Options& options, bool out_is_file);

/// Pairs the inputs and names the outputs. Throws UsageError or PairingError when no work can
/// start: nothing given, two outputs in one file, an output over an input, --out not fit for the
/// pairs.
Plan make_plan(const Options& options, std::istream* standard_input);

/// True when every output of the job is there.
bool is_done(const Job& job);

}  // namespace hdfnet::app
