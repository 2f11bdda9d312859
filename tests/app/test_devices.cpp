// Several devices, simulated: one engine each, work taken as they become free, failures made up
// for.

#include <algorithm>
#include <condition_variable>

#include "pipeline_test.h"
#include "run/roster.h"

namespace hdfnet::app {
namespace {

using test::side;

/// What a thread waits for; a minute is for a machine that is far too busy, not for the test.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

class DevicesTest : public test::PipelineTest {
 protected:
  DevicesTest() {
    settings.workers = 2;
    settings.batch = 2;
  }

  /// `device` fails with whatever it is given. The others wait until it was given something.
  template <class Error>
  void let_fail(const std::string& device, const std::string& why) {
    provider.behaviour.on_device = [this, device, why](const std::string& on, const BatchView&) {
      if (on != device) {
        EXPECT_TRUE(failed.wait());
        return;
      }
      failed.open();
      throw Error(why);
    };
  }

  void expect_all_written(int count) const {
    expect_all_in_order(count);
    EXPECT_EQ(with(Status::written).size(), static_cast<std::size_t>(count));
    for (const auto& [job, value] : io.written) EXPECT_EQ(value, static_cast<float>(job));
  }

  std::size_t said(const std::string& text) const {
    const std::string all = log.str();
    std::size_t found = 0;
    for (auto at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) ++found;
    return found;
  }

  Gate failed;
};

TEST_F(DevicesTest, WorkIsTakenAsDevicesBecomeFree) {
  network_count = 2;
  constexpr int batches = 6;
  Gate rest_done;
  std::atomic<int> calls{0}, done{0};
  provider.behaviour.on_device = [&](const std::string&, const BatchView&) {
    if (calls++ == 0) {  // this device is held until the other has done all the rest
      EXPECT_TRUE(rest_done.wait());
    } else if (++done == batches - 1) {
      rest_done.open();
    }
  };
  run(2 * batches);
  expect_all_written(2 * batches);
}

TEST_F(DevicesTest, ADeviceThatFailsIsLeftOutAndItsPairsAreDoneByTheOthers) {
  network_count = 3;
  let_fail<std::runtime_error>("cuda:1", "unspecified launch failure");
  run(60);
  expect_all_written(60);
  EXPECT_EQ(said("warning: cuda:1 failed (unspecified launch failure)"), 1u) << log.str();
  EXPECT_EQ(said("the run goes on without cuda:1"), 1u);
  EXPECT_EQ(said("warning"), 1u);
}

TEST_F(DevicesTest, ADeviceWithoutMemoryForASinglePairIsLeftOut) {
  network_count = 2;
  let_fail<OutOfMemory>("cuda:0", "CUDA out of memory");
  run(20);
  expect_all_written(20);
  EXPECT_EQ(said("batches of 1 (CUDA out of memory)"), 1u) << log.str();
  EXPECT_EQ(said("the run goes on without cuda:0"), 1u) << log.str();
}

TEST(Roster, TheLastNetworkIsNeverRetired) {
  Roster roster(2);
  Batch batch;
  batch.failures = {{0, "cuda:0", "lost"}};
  EXPECT_TRUE(roster.can_be_tried(batch));
  EXPECT_EQ(roster.retire_failed(batch).size(), 1u);
  EXPECT_TRUE(roster.retire_failed(batch).empty()) << "it is retired already";
  EXPECT_FALSE(roster.works(0));
  batch.failures = {{1, "cuda:1", "lost"}};
  EXPECT_FALSE(roster.can_be_tried(batch));
  EXPECT_TRUE(roster.retire_failed(batch).empty());
  EXPECT_TRUE(roster.works(1));
}

TEST_F(DevicesTest, PairsThatNoDeviceCanDoFailAndCostNoDevice) {
  network_count = 3;
  provider.behaviour.on_device = [](const std::string& on, const BatchView& batch) {
    for (int i = 0; i < batch.count; ++i) {
      if (batch.depth[i * side * side] == 7) throw std::runtime_error("assert on " + on);
    }
  };
  run(30);
  expect_all_in_order(30);
  EXPECT_EQ(with(Status::failed), (std::vector<int>{6, 7}));
  EXPECT_EQ(with(Status::written).size(), 28u);
  for (const char* device : {"cuda:0", "cuda:1", "cuda:2"}) {
    EXPECT_NE(results[6].error.find(device), std::string::npos) << results[6].error;
  }
  EXPECT_EQ(said("goes on without"), 0u) << log.str();
}

TEST_F(DevicesTest, WhenAllDevicesFailEveryPairFailsAndTheRunEnds) {
  network_count = 2;
  provider.behaviour.on_device = [](const std::string&, const BatchView&) {
    throw std::runtime_error("gone");
  };
  run(25);
  expect_all_in_order(25);
  EXPECT_EQ(with(Status::failed).size(), 25u);
  EXPECT_EQ(results[0].error.rfind("the network failed: gone", 0), 0u) << results[0].error;
}

TEST_F(DevicesTest, AnInterruptLeavesWhatWasHandedOverUndone) {
  network_count = 2;
  std::atomic<bool> interrupted{false};
  settings.interrupted = [&] { return interrupted.load(); };
  std::atomic<int> calls{0};
  provider.behaviour.on_device = [&](const std::string&, const BatchView&) {
    if (calls++ > 0) return;
    interrupted = true;
    throw std::runtime_error("lost");
  };
  run(50);
  expect_all_in_order(50);
  EXPECT_TRUE(with(Status::failed).empty());
  EXPECT_GE(with(Status::not_done).size(), 2u) << "the first batch was done after all";
}

}  // namespace
}  // namespace hdfnet::app
