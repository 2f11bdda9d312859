#include "run/ordered_results.h"

#include <utility>

namespace hdfnet::app {

void OrderedResults::add(std::size_t index, Result result) {
  const std::lock_guard lock(mutex_);
  ahead_.emplace(index, std::move(result));
  while (!ahead_.empty() && ahead_.begin()->first == next_) {
    sink_(jobs_[next_], ahead_.begin()->second);
    ahead_.erase(ahead_.begin());
    ++next_;
  }
}

void OrderedResults::finish() {
  const std::lock_guard lock(mutex_);
  for (; next_ < jobs_.size(); ++next_) {
    const auto found = ahead_.find(next_);
    sink_(jobs_[next_], found == ahead_.end() ? Result{} : found->second);
  }
}

}  // namespace hdfnet::app
