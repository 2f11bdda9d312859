#include <atomic>
#include <chrono>
#include <thread>

#include "pipeline_test.h"

namespace hdfnet::app {
namespace {

using test::number;
using test::PipelineTest;

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

TEST_F(PipelineTest, EveryBatchIsComputedAsAFullOne) {
  settings.batch = 4;
  settings.workers = 3;
  full_batch = 4;
  io.unreadable = {1, 6, 7};
  run(10);
  EXPECT_EQ(provider.behaviour.batches, (std::vector<int>{4, 4, 4}));
  EXPECT_EQ(with(Status::written), (std::vector<int>{0, 2, 3, 4, 5, 8, 9}));
  for (const auto& [job, value] : io.written) EXPECT_EQ(value, static_cast<float>(job));
}

TEST_F(PipelineTest, AFilledBatchThatFailsFailsItsPairsOnly) {
  int calls = 0;
  provider.behaviour.before_forward = [&](int) {
    if (++calls == 3) throw std::runtime_error("device-side assert");
  };
  settings.batch = full_batch = 4;
  run(10);
  EXPECT_EQ(with(Status::failed), (std::vector<int>{8, 9}));
  EXPECT_EQ(with(Status::written).size(), 8u);
}

TEST_F(PipelineTest, WhatIsNotFiniteInAFilledBatchIsSaidOnce) {
  provider.behaviour.alter = [](const std::string& precision, std::span<float> map) {
    if (precision == "fp16" && map[0] == 1) map[0] = std::nanf("");
  };
  settings.batch = full_batch = 8;
  run(2);
  EXPECT_EQ(with(Status::written).size(), 2u);
  const std::string said = log.str();
  const std::size_t first = said.find("was not finite");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(said.find("was not finite", first + 1), std::string::npos) << said;
}

TEST_F(PipelineTest, ANetworkWarmsUpWhileTheFirstBatchesAreRead) {
  provider.behaviour.passes_to_warm_up = 2;
  settings.batch = full_batch = 4;
  settings.workers = 2;
  bool read_meanwhile = true;
  int calls = 0;
  provider.behaviour.before_forward = [&](int) {
    if (++calls > 1) return;
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (io.loaded < 8 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    read_meanwhile = io.loaded >= 8;
  };
  run(16);
  expect_all_in_order(16);
  EXPECT_TRUE(read_meanwhile);
  EXPECT_EQ(provider.behaviour.batches, (std::vector<int>{4, 4, 4, 4, 4, 4}));
  for (const auto& [job, value] : io.written) EXPECT_EQ(value, static_cast<float>(job));
  EXPECT_EQ(with(Status::written).size(), 16u);
}

TEST_F(PipelineTest, AFewPairsAreNotWorthWarmingUp) {
  provider.behaviour.passes_to_warm_up = 2;
  run(1);
  EXPECT_EQ(provider.behaviour.batches, (std::vector<int>{1}));
  settings.batch = 4;
  run(15);
  EXPECT_EQ(provider.behaviour.batches, (std::vector<int>{1, 4, 4, 4, 3}));
}

TEST_F(PipelineTest, EachNetworkWarmsUp) {
  provider.behaviour.passes_to_warm_up = 2;
  network_count = 2;
  settings.batch = 2;
  run(16);
  expect_all_in_order(16);
  EXPECT_EQ(provider.behaviour.batches.size(), 2 * 2 + 8u);
}

TEST_F(PipelineTest, AFaultWhileWarmingUpIsLeftToTheFirstBatch) {
  provider.behaviour.passes_to_warm_up = 2;
  int calls = 0;
  provider.behaviour.before_forward = [&](int count) {
    if (++calls <= 2 && count > 2) throw OutOfMemory("no room");
  };
  settings.batch = full_batch = 4;
  run(16);
  EXPECT_EQ(with(Status::written).size(), 16u);
  EXPECT_EQ(provider.behaviour.batches, (std::vector<int>{4, 4, 2, 2, 2, 2, 2, 2, 2, 2}));
  const std::string said = log.str();
  const std::size_t first = said.find("not enough memory");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(said.find("going on with batches of 2", first + 200), std::string::npos) << said;
}

TEST_F(PipelineTest, NothingIsWarmedUpAfterAnInterrupt) {
  provider.behaviour.passes_to_warm_up = 2;
  settings.interrupted = [] { return true; };
  run(8);
  EXPECT_TRUE(provider.behaviour.batches.empty());
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

TEST_F(PipelineTest, TurnsKeepTheNetworkAndTheWorkersApart) {
  settings.take_turns = true;
  std::atomic<int> working{0}, computing{0}, together{0};
  const auto alone = [&together](std::atomic<int>& own, const std::atomic<int>& others) {
    ++own;
    if (others > 0) ++together;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (others > 0) ++together;
    --own;
  };
  io.before_load = [&](const Job&) { alone(working, computing); };
  io.before_save = [&](const Job&) { alone(working, computing); };
  provider.behaviour.before_forward = [&](int) { alone(computing, working); };
  io.unreadable = {3, 11};
  io.unwritable = {5};
  for (const int batch : {1, 3, 64}) {
    for (const int workers : {1, 2, 5}) {
      order.clear();
      results.clear();
      settings.batch = batch;
      settings.workers = workers;
      run(40);
      expect_all_in_order(40);
      EXPECT_EQ(with(Status::failed), (std::vector<int>{3, 5, 11}));
      EXPECT_EQ(together, 0) << "batches of " << batch << ", " << workers << " workers";
    }
  }
}

TEST_F(PipelineTest, TurnsEndWithAnInterrupt) {
  settings.take_turns = true;
  settings.workers = 2;
  std::atomic<bool> interrupted{false};
  settings.interrupted = [&] { return interrupted.load(); };
  int calls = 0;
  provider.behaviour.before_forward = [&](int) {
    if (++calls == 3) interrupted = true;
  };
  run(100);
  expect_all_in_order(100);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(with(Status::written).size(), 3u);
  EXPECT_EQ(with(Status::not_done).size(), 97u);
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
