#pragma once

#include <string>
#include <vector>

#include "run/console.h"
#include "run/job.h"

namespace hdfnet::app {

/// Counts what became of the pairs, and lists those that failed at the end of a run.
class Summary {
 public:
  void add(const Job& job, const Result& result);

  /// For example "12 written, 1 failed in 0:03 (4.10 pairs/s)".
  std::string totals(double seconds) const;

  /// Failures one a line, then the totals.
  void print(Console& console, const std::string& totals) const;

  std::size_t count(Status status) const { return counts_[static_cast<std::size_t>(status)]; }
  bool all_good(bool allow_unpaired) const;

 private:
  struct Failure {
    std::string name;
    std::string error;
  };
  std::vector<Failure> failures_;
  std::size_t counts_[5] = {};
};

}  // namespace hdfnet::app
