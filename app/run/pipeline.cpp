#include "run/pipeline.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "run/batch.h"
#include "run/ordered_results.h"
#include "run/scheduler.h"

namespace hdfnet::app {
namespace {

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
        jobs_(jobs) {}

  void all() {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < parts_.networks.size(); ++i) {
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
    // For each network one batch in it and one on its way; one more that fills, and with small
    // batches enough of them to keep every worker busy.
    const int networks = static_cast<int>(parts.networks.size());
    const int for_workers = (2 * settings.workers + settings.batch - 1) / settings.batch;
    return {settings.batch, 2 * networks + for_workers};
  }

  void worker_thread(int index) {
    const std::string lane = "worker " + std::to_string(index);
    while (const std::optional<Scheduler::Task> task = scheduler_.next_task()) {
      Slot& slot = task->batch->slots[task->slot];
      if (task->kind == Scheduler::Task::Kind::load) {
        load(*task->batch, task->slot, lane);
        scheduler_.loaded(*task->batch);
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
      const auto allocate = [this](std::size_t count) {
        return parts_.networks.front()->network().allocate(count);
      };
      const Planes planes = batch.planes(index, settings_.height, settings_.width, allocate);
      slot.pair = parts_.io.load(*slot.job, planes, lane, slot.result.times);
      slot.result.width = slot.pair.width;
      slot.result.height = slot.pair.height;
      slot.loaded = true;
    });
  }

  void network_thread(std::size_t index) {
    const std::string lane = "network " + std::to_string(index);
    while (Batch* batch = scheduler_.next_batch()) {
      batch->close_gaps(settings_.height, settings_.width);
      if (!scheduler_.stopping()) forward(*batch, *parts_.networks[index], lane);
      std::vector<int> to_save;
      for (int i = 0; i < batch->size; ++i) {
        Slot& slot = batch->slots[i];
        if (slot.job == nullptr) continue;  // never read: the run was stopped before
        if (slot.computed) {
          to_save.push_back(i);
        } else {
          report(slot);
        }
      }
      scheduler_.computed(*batch, to_save);
    }
  }

  void forward(Batch& batch, RobustNetwork& network, const std::string& lane) {
    const BatchView view = batch.view(settings_.height, settings_.width);
    if (view.count == 0) return;
    StageTimer timer(parts_.clock, lane, Stage::network,
                     "batch of " + std::to_string(view.count) + " from " + jobs_[batch.first].name);
    std::string fault;
    try {
      batch.maps = network.forward(view);
    } catch (const std::exception& error) {
      fault = error.what();
    }
    const double share = timer.stop() / view.count;
    for (Slot& slot : batch.slots) {
      if (slot.loaded) take(slot, batch, fault, share, network.network().info());
    }
  }

  /// The network's answer for one pair.
  void take(Slot& slot, const Batch& batch, const std::string& fault, double share,
            const NetworkInfo& info) {
    slot.result.times.network = share;
    if (!fault.empty()) {
      slot.fail("the network failed: " + fault);
      return;
    }
    const RobustMap& map = batch.maps[slot.position];
    slot.result.precision = map.precision;
    slot.computed = map.finite;
    if (!slot.computed) {
      slot.fail("the network's output is not finite, even in " + slot.result.precision +
                ": the weights or the input are outside what the network can compute.");
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
};

}  // namespace

void run_pipeline(const std::vector<Job>& jobs, const PipelineSettings& settings,
                  const PipelineParts& parts, const ResultSink& sink) {
  Run(jobs, settings, parts, sink).all();
}

}  // namespace hdfnet::app
