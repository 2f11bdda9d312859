#include "run/roster.h"

#include <algorithm>

namespace hdfnet::app {

bool Roster::can_be_tried(const Batch& batch) const {
  for (int network = 0; network < static_cast<int>(working_.size()); ++network) {
    if (works(network) && !batch.failed_in(network)) return true;
  }
  return false;
}

std::vector<NetworkFailure> Roster::retire_failed(const Batch& batch) {
  std::vector<NetworkFailure> retired;
  for (const NetworkFailure& failure : batch.failures) {
    const auto left = std::count(working_.begin(), working_.end(), true);
    if (!works(failure.network) || left == 1) continue;
    working_[static_cast<std::size_t>(failure.network)] = false;
    retired.push_back(failure);
  }
  return retired;
}

}  // namespace hdfnet::app
