#include "run/scheduler.h"

#include <algorithm>

namespace hdfnet::app {

Scheduler::Scheduler(std::size_t jobs, Limits limits, std::function<bool()> interrupted)
    : jobs_(jobs), limits_(limits), interrupted_(std::move(interrupted)), roster_(limits.networks) {
  for (int i = 0; i < limits_.batches_in_flight; ++i) {
    batches_.push_back(std::make_unique<Batch>());
    free_.push_back(batches_.back().get());
  }
}

bool Scheduler::stopping_locked() {
  if (!stopping_ && interrupted_()) {
    stopping_ = true;
    changed_.notify_all();
  }
  return stopping_;
}

bool Scheduler::can_load() const {
  if (stopping_) return false;
  const bool room = !filling_.empty() && filling_.back()->given < filling_.back()->size;
  return room || can_open();
}

bool Scheduler::can_open() const {
  if (next_job_ >= jobs_ || free_.empty()) return false;
  for (const auto& batch : batches_) {
    if (batch->in_flight && next_job_ - batch->first >= limits_.window()) return false;
  }
  return true;
}

bool Scheduler::may_save_later() const {
  const bool more_jobs = !stopping_ && next_job_ < jobs_;
  return more_jobs || !filling_.empty() || !handed_.empty() || computing_ > 0;
}

Scheduler::Task Scheduler::load_task() {
  if (filling_.empty() || filling_.back()->given == filling_.back()->size) {
    Batch* batch = free_.back();
    free_.pop_back();
    const std::size_t count = std::min<std::size_t>(limits_.batch, jobs_ - next_job_);
    batch->open(next_job_, static_cast<int>(count));
    batch->in_flight = true;
    next_job_ += count;
    filling_.push_back(batch);
  }
  Batch* batch = filling_.back();
  ++batch->loading;
  return {Task::Kind::load, batch, batch->given++};
}

std::optional<Scheduler::Task> Scheduler::next_task() {
  std::unique_lock lock(mutex_);
  while (true) {
    stopping_locked();
    if (!networks_turn_ && !save_tasks_.empty()) {
      const Task task = save_tasks_.front();
      save_tasks_.pop_front();
      ++tasks_in_hand_;
      return task;
    }
    if (!networks_turn_ && can_load()) {
      ++tasks_in_hand_;
      return load_task();
    }
    if (save_tasks_.empty() && !may_save_later()) return std::nullopt;
    changed_.wait(lock);
  }
}

void Scheduler::loaded(Batch& batch) {
  const std::lock_guard lock(mutex_);
  --batch.loading;
  --tasks_in_hand_;
  changed_.notify_all();
}

void Scheduler::saved(Batch& batch) {
  const std::lock_guard lock(mutex_);
  if (--batch.saving == 0) release(batch);
  --tasks_in_hand_;
  changed_.notify_all();
}

bool Scheduler::front_is_full() const {
  const Batch& batch = *filling_.front();
  return batch.loading == 0 && (batch.given == batch.size || stopping_);
}

bool Scheduler::network_may_go() {
  if (!limits_.take_turns) return true;
  if (networks_turn_ && !front_is_ready()) {
    networks_turn_ = false;
    changed_.notify_all();
  } else if (!networks_turn_ && front_is_ready()) {
    networks_turn_ = tasks_in_hand_ == 0 && save_tasks_.empty() && !can_load();
  }
  return networks_turn_;
}

Batch* Scheduler::take_handed(int network) {
  const auto found = std::find_if(handed_.begin(), handed_.end(), [network](const Batch* batch) {
    return !batch->failed_in(network);
  });
  if (found == handed_.end()) return nullptr;
  Batch* batch = *found;
  handed_.erase(found);
  return batch;
}

Batch* Scheduler::next_batch(int network) {
  std::unique_lock lock(mutex_);
  while (true) {
    stopping_locked();
    if (!roster_.works(network)) return nullptr;
    Batch* batch = take_handed(network);
    if (batch == nullptr && network_may_go() && front_is_ready()) {
      batch = filling_.front();
      filling_.pop_front();
    }
    if (batch != nullptr) {
      ++computing_;
      return batch;
    }
    const bool all_given = filling_.empty() && (stopping_ || next_job_ == jobs_);
    // What another network computes may still be handed over.
    if (all_given && handed_.empty() && computing_ == 0) return nullptr;
    changed_.wait(lock);
  }
}

bool Scheduler::hand_over(Batch& batch) {
  const std::lock_guard lock(mutex_);
  if (!roster_.can_be_tried(batch)) return false;
  --computing_;
  handed_.push_back(&batch);
  changed_.notify_all();
  return true;
}

Scheduler::Retirement Scheduler::retire_failed(const Batch& batch) {
  const std::lock_guard lock(mutex_);
  Retirement result{roster_.retire_failed(batch), {}};
  const auto orphans =
      std::stable_partition(handed_.begin(), handed_.end(),
                            [this](const Batch* handed) { return roster_.can_be_tried(*handed); });
  result.orphans.assign(orphans, handed_.end());
  handed_.erase(orphans, handed_.end());
  computing_ += static_cast<int>(result.orphans.size());
  changed_.notify_all();
  return result;
}

void Scheduler::computed(Batch& batch, const std::vector<int>& slots_to_save) {
  const std::lock_guard lock(mutex_);
  --computing_;
  batch.saving = static_cast<int>(slots_to_save.size());
  for (const int slot : slots_to_save) save_tasks_.push_back({Task::Kind::save, &batch, slot});
  if (slots_to_save.empty()) release(batch);
  changed_.notify_all();
}

void Scheduler::release(Batch& batch) {
  batch.in_flight = false;
  free_.push_back(&batch);
}

void Scheduler::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

bool Scheduler::stopping() {
  const std::lock_guard lock(mutex_);
  return stopping_locked();
}

}  // namespace hdfnet::app
