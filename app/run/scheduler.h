#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "run/batch.h"
#include "run/roster.h"

namespace hdfnet::app {

/// Decides what each thread of the pipeline does next.
///
/// A fixed number of batches circulates: filled by the workers, computed by a network, written by
/// the workers, free again. That bound is the back-pressure: reading waits when the network or the
/// disk is the slow one. Writing comes before reading, so finished maps never pile up; and reading
/// keeps within a window that starts at the oldest batch still in hand, so one slow pair cannot
/// leave ever more results waiting for their turn behind it.
///
/// A GPU takes a while to be ready, and the workers' cores would be idle meanwhile. So until the
/// first batch is through the network, reading goes on in further batches, up to a number of bytes;
/// then that number falls by what the network computes, and only the fixed number of batches is
/// left.
///
/// Where the network runs on the same cores as the workers, they can take turns: the network
/// computes all that was read while the workers wait, then the workers write and read all they can
/// while it waits. A worker beside a network that has a thread on every core holds one of them up,
/// and all others wait for that one.
class Scheduler {
 public:
  struct Limits {
    int batch = 1;              ///< jobs per batch
    int batches_in_flight = 1;  ///< that circulate
    int networks = 1;
    bool take_turns = false;     ///< with one network only
    std::size_t read_ahead = 0;  ///< bytes in hand up to which further batches are read; 0: none
    std::size_t least_pair = 0;  ///< bytes that a pair counts at least
    std::size_t window() const { return std::size_t{4} * batches_in_flight * batch; }  ///< jobs
  };

  struct Task {
    enum class Kind { load, save };
    Kind kind = Kind::load;
    Batch* batch = nullptr;
    int slot = 0;
  };

  Scheduler(std::size_t jobs, Limits limits, std::function<bool()> interrupted);

  /// Waits until the first batch is through a network, or no new pair is read any more.
  void wait_for_a_network();

  /// For workers: waits for something to do; nothing when the run is over.
  std::optional<Task> next_task();
  void loaded(Batch& batch, std::size_t bytes);  ///< a load task is done; what the pair holds
  void saved(Batch& batch);                      ///< a save task is done

  /// For networks: waits for the next batch, in order; null when there are no more, or when this
  /// network was put out of work.
  Batch* next_batch(int network);
  void computed(Batch& batch, const std::vector<int>& slots_to_save);

  /// For a network that failed with its batch, and has noted so in it: gives the batch to another
  /// one. False when there is none that has not tried it; the batch then stays the caller's.
  bool hand_over(Batch& batch);

  struct Retirement {
    std::vector<NetworkFailure> networks;
    std::vector<Batch*> orphans;  ///< that only they could still have tried; now the caller's
  };
  /// For a network that could do a batch in which others have failed: they get no more work.
  Retirement retire_failed(const Batch& batch);

  /// No new pair is read and no new batch computed from now on.
  void stop();
  bool stopping();

 private:
  bool stopping_locked();
  bool can_load() const;
  bool can_open() const;
  bool may_read_ahead() const;
  bool may_save_later() const;
  bool front_is_ready() const { return !filling_.empty() && front_is_full(); }
  bool network_may_go();
  Task load_task();
  std::unique_ptr<Batch> release(Batch& batch);
  Batch* opened();
  Batch* take_handed(int network);
  bool front_is_full() const;

  const std::size_t jobs_;
  const Limits limits_;
  const std::function<bool()> interrupted_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::size_t next_job_ = 0;
  std::vector<std::unique_ptr<Batch>> batches_;
  std::vector<Batch*> free_;
  std::deque<Batch*> filling_;  ///< opened and not yet computed, in the order of their jobs
  std::deque<Batch*> handed_;   ///< that a network failed with and another will try
  int computing_ = 0;
  int being_saved_ = 0;            ///< batches
  bool network_is_ready_ = false;  ///< a batch has been through it
  std::size_t read_ahead_;         ///< what is left of it
  std::size_t bytes_in_hand_ = 0;
  std::size_t largest_pair_ = 0;  ///< so far, in bytes
  int tasks_in_hand_ = 0;
  bool networks_turn_ = false;  ///< never, unless they take turns
  Roster roster_;
  std::deque<Task> save_tasks_;
};

}  // namespace hdfnet::app
