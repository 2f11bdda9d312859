#include "run/ordered_results.h"

#include <utility>

namespace hdfnet::app {

void OrderedResults::add(std::size_t index, Result result) {
  const std::lock_guard lock(mutex_);
  const std::size_t place = index - next_;
  if (ahead_.size() <= place) ahead_.resize(place + 1);
  ahead_[place] = std::move(result);
  while (!ahead_.empty() && ahead_.front()) {
    sink_(jobs_[next_], *ahead_.front());
    ahead_.pop_front();
    ++next_;
  }
}

void OrderedResults::finish() {
  const std::lock_guard lock(mutex_);
  for (; next_ < jobs_.size(); ++next_) {
    Result result;
    if (!ahead_.empty()) {
      if (ahead_.front()) result = std::move(*ahead_.front());
      ahead_.pop_front();
    }
    sink_(jobs_[next_], result);
  }
}

}  // namespace hdfnet::app
