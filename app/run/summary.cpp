#include "run/summary.h"

#include <cstdio>

#include "run/progress.h"

namespace hdfnet::app {

void Summary::add(const Job& job, const Result& result) {
  ++counts_[static_cast<std::size_t>(result.status)];
  if (result.status == Status::failed) failures_.push_back({job.name, result.error});
}

bool Summary::all_good(bool allow_unpaired) const {
  return count(Status::failed) == 0 && count(Status::not_done) == 0 &&
         (allow_unpaired || count(Status::unpaired) == 0);
}

std::string Summary::totals(double seconds) const {
  std::string text = std::to_string(count(Status::written)) + " written";
  const auto add = [&text](std::size_t number, const char* what) {
    if (number > 0) text += ", " + std::to_string(number) + " " + what;
  };
  add(count(Status::skipped), "skipped (already there)");
  add(count(Status::failed), "failed");
  add(count(Status::unpaired), "without depth");
  add(count(Status::not_done), "not done");
  char rate[64];
  std::snprintf(rate, sizeof rate, " (%.2f pairs/s)",
                static_cast<double>(count(Status::written)) / seconds);
  text += " in " + clock_text(seconds);
  return count(Status::written) > 0 && seconds > 0 ? text + rate : text;
}

void Summary::print(Console& console, const std::string& totals) const {
  for (const Failure& failure : failures_) console.error(failure.name + ": " + failure.error);
  console.info(totals);
}

}  // namespace hdfnet::app
