#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "fake_network.h"
#include "run/pipeline.h"

namespace hdfnet::app {
namespace {

constexpr int side = 4;

/// The number of the job, from its name.
int number(const Job& job) {
  return std::stoi(job.name);
}

/// Pairs that exist in memory only: the depth of job N is N everywhere.
class FakeIo final : public PairIo {
 public:
  std::set<int> unreadable, unwritable;
  std::chrono::microseconds load_time{0};
  std::function<void(const Job&)> before_save = [](const Job&) {};
  std::atomic<int> loading{0}, loaded{0}, saved{0};
  std::mutex mutex;
  std::map<int, float> written;

  LoadedPair load(const Job& job, const Planes& planes, const std::string&,
                  PairTimes& times) override {
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

class PipelineTest : public testing::Test {
 protected:
  void run(int count) {
    jobs.clear();
    for (int i = 0; i < count; ++i) jobs.push_back({std::to_string(i), {}, {}, {}});
    settings.height = settings.width = side;
    std::vector<std::unique_ptr<RobustNetwork>> owned;
    std::vector<RobustNetwork*> networks;
    for (int i = 0; i < network_count; ++i) {
      const auto maker = [this](Precision wanted) {
        return provider.make({"cuda:0", wanted, Ddpm::fused});
      };
      owned.push_back(std::make_unique<RobustNetwork>(maker(Precision::fp16), maker, console));
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

  test::FakeProvider provider;
  FakeIo io;
  PipelineSettings settings;
  int network_count = 1;
  std::function<void()> on_result;
  std::ostringstream log;
  Console console{log, false, false};
  std::vector<Job> jobs;
  std::vector<int> order;
  std::vector<Result> results;
};

TEST_F(PipelineTest, NothingToDo) {
  run(0);
  EXPECT_TRUE(order.empty());
}

TEST_F(PipelineTest, EveryPairGetsItsOwnMapAndResultsComeInOrder) {
  io.load_time = std::chrono::microseconds(200);
  for (const int batch : {1, 3, 8, 64}) {
    for (const int workers : {1, 2, 7}) {
      order.clear();
      results.clear();
      io.written.clear();
      settings.batch = batch;
      settings.workers = workers;
      run(37);
      expect_all_in_order(37);
      EXPECT_EQ(with(Status::written).size(), 37u);
      for (const auto& [job, value] : io.written) EXPECT_EQ(value, static_cast<float>(job));
    }
  }
}

TEST_F(PipelineTest, BatchesAreConsecutiveJobsWhateverTheTiming) {
  io.load_time = std::chrono::microseconds(300);
  settings.batch = 4;
  settings.workers = 5;
  run(10);
  EXPECT_EQ(provider.behaviour.batches, (std::vector<int>{4, 4, 2}));
}

TEST_F(PipelineTest, SeveralNetworksShareTheWork) {
  network_count = 3;
  settings.batch = 2;
  settings.workers = 3;
  run(50);
  expect_all_in_order(50);
  EXPECT_EQ(io.saved, 50);
}

TEST_F(PipelineTest, FailedPairsAreReportedAndTheRestGoesOn) {
  io.unreadable = {0, 5, 6, 7, 19};
  io.unwritable = {3};
  settings.batch = 4;
  settings.workers = 3;
  run(20);
  expect_all_in_order(20);
  EXPECT_EQ(with(Status::failed), (std::vector<int>{0, 3, 5, 6, 7, 19}));
  EXPECT_EQ(results[5].error, "cannot read 5");
  EXPECT_EQ(results[3].error, "cannot write 3");
  for (const auto& [job, value] : io.written) EXPECT_EQ(value, static_cast<float>(job));
  EXPECT_EQ(io.written.size(), 14u);
}

TEST_F(PipelineTest, ABatchWithoutAReadablePairDoesNotReachTheNetwork) {
  io.unreadable = {0, 1, 2, 3};
  settings.batch = 2;
  run(4);
  EXPECT_EQ(with(Status::failed).size(), 4u);
  EXPECT_TRUE(provider.behaviour.batches.empty());
}

TEST_F(PipelineTest, ANetworkThatThrowsFailsItsBatchOnly) {
  int calls = 0;
  provider.behaviour.before_forward = [&](int) {
    if (++calls == 2) throw std::runtime_error("device-side assert");
  };
  settings.batch = 2;
  run(6);
  EXPECT_EQ(with(Status::failed), (std::vector<int>{2, 3}));
  EXPECT_EQ(results[2].error, "the network failed: device-side assert");
  EXPECT_EQ(with(Status::written), (std::vector<int>{0, 1, 4, 5}));
}

TEST_F(PipelineTest, FailFastStopsAndReportsTheRestAsNotDone) {
  io.unreadable = {4};
  settings.fail_fast = true;
  settings.batch = 1;
  settings.workers = 1;
  run(1000);
  expect_all_in_order(1000);
  EXPECT_EQ(with(Status::failed), (std::vector<int>{4}));
  EXPECT_GT(with(Status::not_done).size(), 900u);
  EXPECT_EQ(with(Status::written).size() + with(Status::not_done).size(), 999u);
}

TEST_F(PipelineTest, AnInterruptFinishesTheBatchInTheNetworkOnly) {
  std::atomic<bool> interrupted{false};
  settings.interrupted = [&] { return interrupted.load(); };
  settings.batch = 4;
  settings.workers = 2;
  int calls = 0;
  provider.behaviour.before_forward = [&](int) {
    if (++calls == 3) interrupted = true;
  };
  run(400);
  expect_all_in_order(400);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(with(Status::written).size(), 12u);
  EXPECT_EQ(with(Status::not_done).size(), 388u);
}

TEST_F(PipelineTest, AnInterruptBeforeTheStartDoesNothing) {
  settings.interrupted = [] { return true; };
  run(5);
  EXPECT_EQ(with(Status::not_done).size(), 5u);
  EXPECT_EQ(io.loaded, 0);
}

TEST_F(PipelineTest, APairThatIsSlowToWriteHoldsReadingBack) {
  // Results behind it wait for their turn: reading may go on for a bounded number of pairs only.
  settings.batch = 2;
  settings.workers = 2;
  const int window = 4 * (2 + 2) * 2;
  int while_writing = 0;
  io.before_save = [&](const Job& job) {
    if (number(job) != 0) return;
    while (io.loaded < window) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // room for going too far
    while_writing = io.loaded;
  };
  run(200);
  EXPECT_EQ(while_writing, window);
  expect_all_in_order(200);
}

TEST_F(PipelineTest, ASlowSinkHoldsReadingBack) {
  settings.batch = 2;
  settings.workers = 2;
  int most_ahead = 0;
  on_result = [&] {
    most_ahead = std::max(most_ahead, io.loaded.load() - static_cast<int>(order.size()));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  run(100);
  EXPECT_LE(most_ahead, 4 * (2 + 2) * 2);
}

TEST_F(PipelineTest, ASlowNetworkHoldsReadingBack) {
  settings.batch = 2;
  settings.workers = 4;
  int computed = 0, most_ahead = 0;
  provider.behaviour.before_forward = [&](int count) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    most_ahead = std::max(most_ahead, io.loaded.load() - computed);
    computed += count;
  };
  run(100);
  EXPECT_LE(most_ahead, 2 * (2 + 4));
}

TEST_F(PipelineTest, AMapThatIsNeverFiniteFailsItsPair) {
  provider.behaviour.alter = [](const std::string&, std::span<float> map) {
    if (map[0] == 2) map[0] = std::nanf("");
  };
  settings.batch = 4;
  run(4);
  EXPECT_EQ(with(Status::failed), (std::vector<int>{2}));
  EXPECT_NE(results[2].error.find("not finite, even in fp32"), std::string::npos);
}

TEST_F(PipelineTest, AMapComputedAgainIsSaidByName) {
  provider.behaviour.alter = [](const std::string& precision, std::span<float> map) {
    if (precision == "fp16" && map[0] == 2) map[0] = std::nanf("");
  };
  settings.batch = 4;
  run(4);
  EXPECT_EQ(with(Status::written).size(), 4u);
  EXPECT_EQ(results[2].precision, "bf16");
  EXPECT_NE(
      log.str().find("warning: 2: the network's output was not finite in fp16; computed again "
                     "in bf16"),
      std::string::npos)
      << log.str();
}

}  // namespace
}  // namespace hdfnet::app
