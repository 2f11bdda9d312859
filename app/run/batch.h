#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "run/pair_io.h"
#include "run/robust_network.h"

namespace hdfnet::app {

/// One pair's place in a batch.
struct Slot {
  const Job* job = nullptr;  ///< null until a worker starts to read it
  LoadedPair pair;
  Result result;
  bool loaded = false;
  bool computed = false;
  int position = 0;  ///< among the images that the network sees

  void fail(const std::string& why);
};

/// A network that could not compute a batch.
struct NetworkFailure {
  int network = 0;  ///< its index
  std::string device;
  std::string why;
};

/// Consecutive jobs that go through the network together, and the host memory they are read into.
/// Batches are used again for later jobs, so the memory of a run does not grow.
struct Batch {
  std::size_t first = 0;  ///< index of the first job
  int size = 0;
  std::vector<Slot> slots;
  std::vector<RobustMap> maps;           ///< by the position of their slots
  std::vector<NetworkFailure> failures;  ///< of the networks that tried it so far

  bool failed_in(int network) const;

  // The scheduler's counters, under its lock.
  int given = 0;          ///< slots handed to workers
  int loading = 0;        ///< of them not loaded yet
  int saving = 0;         ///< maps not written yet
  std::size_t bytes = 0;  ///< that its pairs hold
  bool in_flight = false;
  bool further = false;  ///< beyond those that circulate: used once, in ordinary memory

  void open(std::size_t first_job, int count);

  /// Where the input of one slot goes, for a network of that size; several workers may ask at once.
  /// `pictures`: for networks that take them, the same for all slots. Memory comes as it is needed.
  Planes input(int index, int height, int width, bool pictures, const Allocate& allocate);

  /// What one slot holds of the host's memory, in bytes, once it is loaded.
  std::size_t bytes_of(int index, int height, int width) const;

  /// Moves the input of loaded slots over that of those that failed, so that the network sees no
  /// gap.
  void close_gaps(int height, int width);

  /// The loaded images; only after close_gaps().
  BatchView view(int height, int width) const;

  MapView map_of(int index) const;

 private:
  Planes planes(int index, int height, int width, const Allocate& allocate);

  mutable std::mutex memory_mutex_;
  std::shared_ptr<float[]> rgb_, depth_;
  std::size_t capacity_ = 0;
  std::vector<Staging> staging_;  ///< by slot; more than slots after a larger batch
  bool holds_pictures_ = false;
  std::vector<PairPictures> pictures_;  ///< by position
};

}  // namespace hdfnet::app
