#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "options/options.h"

namespace hdfnet::app {

/// This process's part of the work.
struct Shard {
  std::size_t index = 0;
  std::size_t count = 1;
  std::optional<int> local_rank;  ///< its number on this host; chooses the GPU
};

/// Reads an environment variable; for tests.
using Environment = std::function<const char*(const char*)>;

/// The part that --shard names; for `auto` the one that Slurm, Open MPI, MPICH or PMI gives this
/// process. Throws UsageError when no launcher's variables are there, or they make no sense.
Shard resolve_shard(const ShardChoice& choice, const Environment& environment = {});

/// Processes that a launcher starts share one command line and would write their reports over each
/// other's. So with --shard auto each gets files of its own: --manifest m.jsonl becomes
/// m.2-of-8.jsonl, and likewise --report, --timing-json, --timing-csv and --trace. Throws as above.
void give_each_shard_its_reports(Options& options, const Environment& environment = {});

}  // namespace hdfnet::app
