#pragma once

#include <functional>
#include <optional>
#include <string>

#include "options/values.h"

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

}  // namespace hdfnet::app
