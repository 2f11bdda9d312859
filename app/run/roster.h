#pragma once

#include <vector>

#include "run/batch.h"

namespace hdfnet::app {

/// Which networks are still given batches. A network is put out of work when another could do what
/// it could not, so a batch that is at fault itself costs no network its place. Not safe to use
/// from several threads at once.
class Roster {
 public:
  explicit Roster(int networks) : working_(static_cast<std::size_t>(networks), true) {}

  bool works(int network) const { return working_[static_cast<std::size_t>(network)]; }

  /// Some network that works has not tried this batch.
  bool can_be_tried(const Batch& batch) const;

  /// Puts the networks that failed with this batch out of work, but never the last one. Returns the
  /// failures of those that worked until now.
  std::vector<NetworkFailure> retire_failed(const Batch& batch);

 private:
  std::vector<bool> working_;
};

}  // namespace hdfnet::app
