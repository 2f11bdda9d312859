#include "run/shard.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "options/config_file.h"

namespace hdfnet::app {
namespace {

struct Launcher {
  const char* rank;
  const char* size;
  const char* local_rank;
};

/// In this order: Open MPI and MPICH may run inside a Slurm job, where Slurm's own variables
/// describe the allocation and not the processes that they started.
constexpr Launcher launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    // Not SLURM_NTASKS: a batch script has that too, without srun having started that many.
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
};

std::optional<int> number(const char* text) {
  if (text == nullptr) return std::nullopt;
  const std::string_view view = text;
  int value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size()) return std::nullopt;
  return value;
}

Shard from_launcher(const Environment& read) {
  for (const Launcher& launcher : launchers) {
    const char* rank_text = read(launcher.rank);
    const char* size_text = read(launcher.size);
    if (rank_text == nullptr || size_text == nullptr) continue;
    const std::optional<int> rank = number(rank_text), size = number(size_text);
    if (!rank || !size || *rank < 0 || *rank >= *size) {
      throw UsageError(std::string("--shard auto: ") + launcher.rank + "=" + rank_text + " and " +
                       launcher.size + "=" + size_text +
                       " are no rank and size; give --shard I/N.");
    }
    return {static_cast<std::size_t>(*rank), static_cast<std::size_t>(*size),
            number(read(launcher.local_rank))};
  }
  throw UsageError(
      "--shard auto: no variables of Slurm, Open MPI, MPICH or PMI are set; start the program with "
      "srun or mpirun, or give --shard I/N.");
}

}  // namespace

Shard resolve_shard(const ShardChoice& choice, const Environment& environment) {
  if (choice.automatic) {
    return from_launcher(
        environment ? environment : [](const char* name) -> const char* { return getenv(name); });
  }
  return {static_cast<std::size_t>(choice.index), static_cast<std::size_t>(choice.count), {}};
}

void give_each_shard_its_reports(Options& options, const Environment& environment) {
  if (!options.shard.automatic) return;
  const Shard part = resolve_shard(options.shard, environment);
  if (part.count == 1) return;
  const std::string number = "." + std::to_string(part.index) + "-of-" + std::to_string(part.count);
  for (std::filesystem::path* file : {&options.manifest, &options.report, &options.timing_json,
                                      &options.timing_csv, &options.trace}) {
    if (file->empty()) continue;
    const std::filesystem::path extension = file->extension();
    file->replace_extension();
    *file += number;
    *file += extension;
  }
}

}  // namespace hdfnet::app
