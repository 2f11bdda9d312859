#include "run/pipeline.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "run/batch.h"
#include "run/ordered_results.h"
#include "run/ordinary_memory.h"
#include "run/scheduler.h"
#include "run/slabs.h"

namespace hdfnet::app {
namespace {

/// A network warms up when it has so many batches to come: a pass more is nothing to them, and
/// reading goes on meanwhile.
constexpr std::size_t kBatchesToWarmUpFor = 4;

/// Half a second of reading pairs of 640x480.
constexpr std::size_t kPairsAheadForEachWorker = 48;

/// Memory for reading ahead is asked for in 32 MiB: a system call, and the faults at its first use,
/// hold up the driver that sets up the device.
constexpr std::size_t kLargestSlab = std::size_t{8} << 20;  // floats

/// So many workers of which one can wait for each network that warms up.
constexpr int kWorkersForEachWarmingUp = 8;

/// Runs `step` and turns an exception into the pair's failure.
template <class Step>
void attempt(Slot& slot, Step step) {
  try {
    step();
  } catch (const std::exception& error) {
    slot.fail(error.what());
  } catch (...) {
    slot.fail("an unknown fault.");
  }
}

class Run {
 public:
  Run(const std::vector<Job>& jobs, const PipelineSettings& settings, const PipelineParts& parts,
      const ResultSink& sink)
      : settings_(settings),
        parts_(parts),
        scheduler_(jobs.size(), schedule(settings, parts), settings.interrupted),
        results_(jobs, sink),
        jobs_(jobs),
        all_take_pictures_(std::all_of(
            parts.networks.begin(), parts.networks.end(),
            [](RobustNetwork* network) { return network->network().takes_pictures(); })) {}

  void all() {
    std::vector<std::jthread> threads;
    const int networks = static_cast<int>(parts_.networks.size());
    threads.reserve(parts_.networks.size() + static_cast<std::size_t>(settings_.workers));
    for (int i = 0; i < networks; ++i) {
      threads.emplace_back([this, i] { network_thread(i); });
    }
    for (int i = 0; i < settings_.workers; ++i) {
      threads.emplace_back([this, i] { worker_thread(i); });
    }
    threads.clear();  // joins
    results_.finish();
  }

 private:
  static Scheduler::Limits schedule(const PipelineSettings& settings, const PipelineParts& parts) {
    // For each network those in it and one on its way; one more that fills, and with small
    // batches enough of them to keep every worker busy.
    const int networks = static_cast<int>(parts.networks.size());
    int for_networks = 0;
    for (RobustNetwork* network : parts.networks) {
      for_networks += network->network().batches_at_once() + 1;
    }
    const int for_workers = (2 * settings.workers + settings.batch - 1) / settings.batch;
    const std::size_t pairs_ahead = kPairsAheadForEachWorker * settings.workers;
    return {settings.batch,
            for_networks + for_workers,
            networks,
            settings.take_turns && networks == 1,
            settings.read_ahead,
            settings.read_ahead / pairs_ahead};
  }

  /// A network that warms up needs a core, too: with all of them reading it takes longer, and
  /// everything waits for it.
  bool waits_for_networks(int worker) const {
    int warming_up = 0;
    for (RobustNetwork* network : parts_.networks) {
      if (needs_warming_up(*network)) ++warming_up;
    }
    return worker < std::min(warming_up, settings_.workers / kWorkersForEachWarmingUp);
  }

  void worker_thread(int index) {
    const std::string lane = "worker " + std::to_string(index);
    if (waits_for_networks(index)) scheduler_.wait_for_a_network();
    while (const std::optional<Scheduler::Task> task = scheduler_.next_task()) {
      Slot& slot = task->batch->slots[task->slot];
      if (task->kind == Scheduler::Task::Kind::load) {
        load(*task->batch, task->slot, lane);
        scheduler_.loaded(*task->batch,
                          task->batch->bytes_of(task->slot, settings_.height, settings_.width));
      } else {
        attempt(slot, [&] {
          parts_.io.save(*slot.job, slot.pair, task->batch->map_of(task->slot), lane,
                         slot.result.times);
          slot.result.status = Status::written;
        });
        report(slot);
        scheduler_.saved(*task->batch);
      }
    }
  }

  void load(Batch& batch, int index, const std::string& lane) {
    Slot& slot = batch.slots[index];
    slot.job = &jobs_[batch.first + index];
    attempt(slot, [&] {
      const auto allocate = [this, &batch](std::size_t count) {
        return batch.further ? ahead_.piece(count) : host_memory(count);
      };
      const Planes planes =
          batch.input(index, settings_.height, settings_.width, all_take_pictures_, allocate);
      slot.pair = parts_.io.load(*slot.job, planes, lane, slot.result.times);
      slot.result.width = slot.pair.width;
      slot.result.height = slot.pair.height;
      slot.loaded = true;
    });
  }

  /// From the first network that can still give some.
  std::shared_ptr<float[]> host_memory(std::size_t count) {
    for (std::size_t i = 0; i + 1 < parts_.networks.size(); ++i) {
      try {
        return parts_.networks[i]->network().allocate(count);
      } catch (const std::exception&) {
        continue;  // its device has failed; the network thread says so
      }
    }
    return parts_.networks.back()->network().allocate(count);
  }

  bool has_many_batches() const {
    return jobs_.size() / parts_.networks.size() / settings_.batch >= kBatchesToWarmUpFor;
  }

  bool needs_warming_up(RobustNetwork& network) const {
    return network.network().passes_to_warm_up() > 0 && has_many_batches();
  }

  /// While the workers read the first batches.
  void warm_up(int index) {
    RobustNetwork& network = *parts_.networks[index];
    if (!needs_warming_up(network)) return;
    if (scheduler_.stopping()) return;
    StageTimer timer(parts_.clock, lane_of(index), Stage::warm_up,
                     "batch of " + std::to_string(settings_.batch));
    network.warm_up(settings_.batch, settings_.height, settings_.width);
    timer.stop();
  }

  static std::string lane_of(int network, int among = 0) {
    return "network " + std::to_string(network) + (among > 0 ? "+" + std::to_string(among) : "");
  }

  /// A few batches are not worth a second thread, and its plain passes their memory.
  void network_thread(int index) {
    warm_up(index);
    const int at_once =
        has_many_batches() ? parts_.networks[index]->network().batches_at_once() : 1;
    std::vector<std::jthread> others;
    for (int among = 1; among < at_once; ++among) {
      others.emplace_back([this, index, among] { pass_batches(index, lane_of(index, among)); });
    }
    pass_batches(index, lane_of(index));
  }

  void pass_batches(int index, const std::string& lane) {
    while (Batch* batch = scheduler_.next_batch(index)) {
      if (batch->failures.empty()) batch->close_gaps(settings_.height, settings_.width);
      const bool settled = scheduler_.stopping() || forward(*batch, index, lane);
      if (settled) pass_on(*batch);
    }
  }

  /// Gives what was computed to the workers and reports the rest.
  void pass_on(Batch& batch) {
    std::vector<int> to_save;
    for (int i = 0; i < batch.size; ++i) {
      Slot& slot = batch.slots[i];
      if (slot.job == nullptr) continue;  // never read: the run was stopped before
      if (slot.computed) {
        to_save.push_back(i);
      } else {
        report(slot);
      }
    }
    scheduler_.computed(batch, to_save);
  }

  /// False when the network failed and the batch now belongs to another one.
  bool forward(Batch& batch, int index, const std::string& lane) {
    const BatchView view = batch.view(settings_.height, settings_.width);
    if (view.count == 0) return true;
    RobustNetwork& network = *parts_.networks[index];
    const NetworkInfo& info = network.network().info();
    StageTimer timer(parts_.clock, lane, Stage::network,
                     "batch of " + std::to_string(view.count) + " from " + jobs_[batch.first].name);
    bool failed = false;
    try {
      batch.maps = network.forward(view);
    } catch (const std::exception& error) {
      failed = true;
      batch.failures.push_back({index, info.device, error.what()});
    }
    const double share = timer.stop() / view.count;
    if (failed && scheduler_.hand_over(batch)) return false;
    if (!failed && !batch.failures.empty()) go_on_without_failed(batch, info.device);
    for (Slot& slot : batch.slots) {
      if (!slot.loaded) continue;
      slot.result.times.network = share;
      if (failed) {
        slot.fail(fault(batch));
      } else {
        take(slot, batch, info);
      }
    }
    return true;
  }

  static std::string fault(const Batch& batch) {
    const std::vector<NetworkFailure>& failures = batch.failures;
    std::string text = "the network failed: " + failures.front().why;
    for (std::size_t i = 1; i < failures.size(); ++i) {
      text += "; on " + failures[i].device + ", too: " + failures[i].why;
    }
    return text;
  }

  /// `device` could do a batch that others could not.
  void go_on_without_failed(const Batch& batch, const std::string& device) {
    const Scheduler::Retirement retirement = scheduler_.retire_failed(batch);
    for (const NetworkFailure& failure : retirement.networks) {
      parts_.console.warning(failure.device + " failed (" + failure.why + ") with pairs that " +
                             device + " then did; the run goes on without " + failure.device);
    }
    for (Batch* orphan : retirement.orphans) {
      for (Slot& slot : orphan->slots) {
        if (slot.loaded) slot.fail(fault(*orphan));
      }
      pass_on(*orphan);
    }
  }

  /// The network's answer for one pair.
  void take(Slot& slot, const Batch& batch, const NetworkInfo& info) {
    const RobustMap& map = batch.maps[slot.position];
    slot.result.precision = map.precision;
    slot.computed = map.finite;
    if (!slot.computed) {
      slot.fail(map.not_finite());
    } else if (slot.result.precision != info.precision) {
      parts_.console.warning(slot.job->name + ": the network's output was not finite in " +
                             info.precision + "; computed again in " + slot.result.precision +
                             ". --precision " + slot.result.precision + " avoids the detour");
    }
  }

  void report(Slot& slot) {
    if (slot.result.status == Status::failed && settings_.fail_fast) scheduler_.stop();
    results_.add(static_cast<std::size_t>(slot.job - jobs_.data()), std::move(slot.result));
  }

  const PipelineSettings& settings_;
  const PipelineParts& parts_;
  Scheduler scheduler_;
  OrderedResults results_;
  const std::vector<Job>& jobs_;
  const bool all_take_pictures_;
  Slabs ahead_{ordinary_memory, kLargestSlab};
};

}  // namespace

void run_pipeline(const std::vector<Job>& jobs, const PipelineSettings& settings,
                  const PipelineParts& parts, const ResultSink& sink) {
  Run(jobs, settings, parts, sink).all();
}

}  // namespace hdfnet::app
