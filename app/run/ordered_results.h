#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "run/pipeline.h"

namespace hdfnet::app {

/// Takes results in whatever order the threads produce them and passes them on in the jobs' order.
class OrderedResults {
 public:
  OrderedResults(const std::vector<Job>& jobs, const ResultSink& sink) : jobs_(jobs), sink_(sink) {}

  void add(std::size_t index, Result result);

  /// Passes on what is left; jobs without a result are reported as not done.
  void finish();

 private:
  const std::vector<Job>& jobs_;
  const ResultSink& sink_;
  std::mutex mutex_;
  std::size_t next_ = 0;                     ///< first job that was not passed on
  std::deque<std::optional<Result>> ahead_;  ///< results of jobs next_, next_ + 1, ...
};

}  // namespace hdfnet::app
