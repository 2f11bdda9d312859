#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "run/console.h"
#include "run/pair_io.h"
#include "run/robust_network.h"
#include "timing/stage_clock.h"

namespace hdfnet::app {

struct PipelineSettings {
  int workers = 1;  ///< threads that read and write
  int batch = 1;    ///< pairs the network takes at once
  int height = 320;
  int width = 320;
  bool fail_fast = false;
  /// Reading and writing wait while the network computes, and it waits for them: for a network on
  /// the CPU, whose cores they would take away. With one network only.
  bool take_turns = false;
  /// Bytes of read pairs up to which reading goes on while no network is ready yet (Scheduler), and
  /// at most 48 pairs for each worker; in ordinary memory, which is given back. 0: in the fixed
  /// number of batches alone.
  std::size_t read_ahead = 0;
  std::function<bool()> interrupted = [] { return false; };
};

/// What a run needs and does not own. All networks share the work, each with as many threads as it
/// takes batches at once.
struct PipelineParts {
  PairIo& io;
  std::vector<RobustNetwork*> networks;
  StageClock& clock;
  Console& console;
};

/// Told of each pair once, in the order of the jobs, from one thread at a time.
using ResultSink = std::function<void(const Job&, const Result&)>;

/// Runs all jobs. Batches are consecutive jobs whatever the timing, so a run can be repeated to the
/// bit. A failed pair is reported, and the rest goes on. A batch that a network fails with is tried
/// by the others: when one can do it, the console is told and the failed network gets no more work;
/// when none can, its pairs have failed. With fail_fast, or when interrupted() says
/// so, what the networks have is still finished and all later jobs are reported as not done.
void run_pipeline(const std::vector<Job>& jobs, const PipelineSettings& settings,
                  const PipelineParts& parts, const ResultSink& sink);

}  // namespace hdfnet::app
