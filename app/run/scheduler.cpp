#include "run/scheduler.h"

#include <algorithm>

namespace hdfnet::app {

Scheduler::Scheduler(std::size_t jobs, Limits limits, std::function<bool()> interrupted)
    : jobs_(jobs),
      limits_(limits),
      interrupted_(std::move(interrupted)),
      read_ahead_(limits.read_ahead),
      roster_(limits.networks) {
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
  if (filling_.empty() || filling_.back()->given == filling_.back()->size) return can_open();
  // What was begun must be filled for the network, once there is one.
  return !filling_.back()->further || network_is_ready_ || may_read_ahead();
}

bool Scheduler::can_open() const {
  if (next_job_ >= jobs_ || (free_.empty() && !may_read_ahead())) return false;
  if (!network_is_ready_) return true;  // nothing waits for its turn yet
  const std::size_t further = batches_.size() - static_cast<std::size_t>(limits_.batches_in_flight);
  const std::size_t window = limits_.window() + further * limits_.batch;
  return std::all_of(batches_.begin(), batches_.end(), [&](const auto& batch) {
    return !batch->in_flight || next_job_ - batch->first < window;
  });
}

/// Each pair that is being read counts as the largest so far.
bool Scheduler::may_read_ahead() const {
  const std::size_t more = largest_pair_ * (static_cast<std::size_t>(tasks_in_hand_) + 1);
  return bytes_in_hand_ + more <= read_ahead_ && read_ahead_ > 0;
}

Batch* Scheduler::opened() {
  if (free_.empty()) {
    batches_.push_back(std::make_unique<Batch>());
    batches_.back()->further = true;
    return batches_.back().get();
  }
  Batch* batch = free_.back();
  free_.pop_back();
  return batch;
}

bool Scheduler::may_save_later() const {
  const bool more_jobs = !stopping_ && next_job_ < jobs_;
  return more_jobs || !filling_.empty() || !handed_.empty() || computing_ > 0;
}

Scheduler::Task Scheduler::load_task() {
  if (filling_.empty() || filling_.back()->given == filling_.back()->size) {
    Batch* batch = opened();
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

void Scheduler::wait_for_a_network() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return network_is_ready_ || stopping_locked(); });
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

void Scheduler::loaded(Batch& batch, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t counted = std::max(bytes, limits_.least_pair);
  largest_pair_ = std::max(largest_pair_, counted);
  batch.bytes += counted;
  bytes_in_hand_ += counted;
  --batch.loading;
  --tasks_in_hand_;
  changed_.notify_all();
}

void Scheduler::saved(Batch& batch) {
  std::unique_ptr<Batch> done;  // its memory is given back after the lock
  const std::lock_guard lock(mutex_);
  if (--batch.saving == 0) {
    --being_saved_;
    done = release(batch);
  }
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
    // Maps that wait to be written are held to what they would be without reading ahead.
    const bool maps_have_room = being_saved_ < limits_.batches_in_flight;
    if (batch == nullptr && network_may_go() && front_is_ready() && maps_have_room) {
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
  std::unique_ptr<Batch> done;
  const std::lock_guard lock(mutex_);
  --computing_;
  network_is_ready_ = true;
  read_ahead_ -= std::min(read_ahead_, batch.bytes);
  batch.saving = static_cast<int>(slots_to_save.size());
  for (const int slot : slots_to_save) save_tasks_.push_back({Task::Kind::save, &batch, slot});
  if (slots_to_save.empty()) {
    done = release(batch);
  } else {
    ++being_saved_;
  }
  changed_.notify_all();
}

/// Returns a further batch, which is not used again.
std::unique_ptr<Batch> Scheduler::release(Batch& batch) {
  bytes_in_hand_ -= batch.bytes;
  batch.in_flight = false;
  if (!batch.further) {
    free_.push_back(&batch);
    return nullptr;
  }
  const auto own = std::find_if(batches_.begin(), batches_.end(),
                                [&batch](const auto& held) { return held.get() == &batch; });
  std::unique_ptr<Batch> result = std::move(*own);
  batches_.erase(own);
  return result;
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
