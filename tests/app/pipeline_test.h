#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "fake_network.h"
#include "run/pipeline.h"

namespace hdfnet::app::test {

constexpr int side = 4;  ///< of the network's input

/// The number of the job, from its name.
inline int number(const Job& job) {
  return std::stoi(job.name);
}

/// Pairs that exist in memory only: the depth of job N is N everywhere.
class FakeIo final : public PairIo {
 public:
  std::set<int> unreadable, unwritable;
  std::chrono::microseconds load_time{0};
  std::size_t picture_bytes = 0;  ///< that a pair keeps until it is written
  std::function<void(const Job&)> before_load = [](const Job&) {};
  std::function<void(const Job&)> before_save = [](const Job&) {};
  std::atomic<int> loading{0}, loaded{0}, saved{0};
  std::mutex mutex;
  std::map<int, float> written;

  LoadedPair load(const Job& job, const Planes& planes, const std::string&,
                  PairTimes& times) override {
    before_load(job);
    // Later jobs are quicker, so that they overtake earlier ones.
    std::this_thread::sleep_for(load_time * (5 - number(job) % 5));
    if (unreadable.count(number(job)) > 0) throw std::runtime_error("cannot read " + job.name);
    std::fill_n(planes.rgb, 3 * side * side, 0.0f);
    std::fill_n(planes.depth, side * side, static_cast<float>(number(job)));
    times.decode = 1;
    ++loaded;
    LoadedPair pair;
    pair.width = 10 + number(job);
    pair.height = 20;
    pair.rgb.create(1, static_cast<int>(picture_bytes), CV_8UC1);
    return pair;
  }

  void save(const Job& job, const LoadedPair& pair, const MapView& map, const std::string&,
            PairTimes&) override {
    before_save(job);
    if (unwritable.count(number(job)) > 0) throw std::runtime_error("cannot write " + job.name);
    EXPECT_EQ(pair.width, 10 + number(job));
    EXPECT_EQ(map.width, side);
    const std::lock_guard lock(mutex);
    written[number(job)] = map.values[side * side - 1];
    ++saved;
  }
};

/// Runs the pipeline on jobs 0, 1, ... and takes down what became of them.
class PipelineTest : public testing::Test {
 protected:
  void run(int count) {
    jobs.clear();
    for (int i = 0; i < count; ++i) jobs.push_back({std::to_string(i), {}, {}, {}});
    settings.height = settings.width = side;
    std::vector<std::unique_ptr<RobustNetwork>> owned;
    std::vector<RobustNetwork*> networks;
    for (int i = 0; i < network_count; ++i) {
      const auto maker = [this, i](Precision wanted) {
        return provider.make({"cuda:" + std::to_string(i), wanted, Ddpm::fused});
      };
      owned.push_back(
          std::make_unique<RobustNetwork>(maker(Precision::fp16), maker, console, full_batch));
      networks.push_back(owned.back().get());
    }
    StageClock clock(false);
    run_pipeline(jobs, settings, {io, networks, clock, console},
                 [this](const Job& job, const Result& result) {
                   order.push_back(number(job));
                   results.push_back(result);
                   if (on_result) on_result();
                 });
  }

  std::vector<int> with(Status status) const {
    std::vector<int> found;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].status == status) found.push_back(order[i]);
    }
    return found;
  }

  void expect_all_in_order(int count) const {
    ASSERT_EQ(order.size(), static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) EXPECT_EQ(order[i], i);
  }

  FakeProvider provider;
  FakeIo io;
  PipelineSettings settings;
  int network_count = 1;
  int full_batch = 0;
  std::function<void()> on_result;
  std::ostringstream log;
  Console console{log, false, false};
  std::vector<Job> jobs;
  std::vector<int> order;
  std::vector<Result> results;
};

}  // namespace hdfnet::app::test
