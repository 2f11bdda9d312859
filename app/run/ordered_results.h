#pragma once

#include <cstddef>
#include <map>
#include <mutex>
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
  std::size_t next_ = 0;                 ///< first job that was not passed on
  std::map<std::size_t, Result> ahead_;  ///< results of later jobs, by their index
};

}  // namespace hdfnet::app
