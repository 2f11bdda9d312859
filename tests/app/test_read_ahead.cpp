#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "pipeline_test.h"

namespace hdfnet::app {
namespace {

using test::number;

constexpr std::size_t MiB = std::size_t{1} << 20;

/// Two workers, batches of two: four of them circulate, and each pair takes 1 MiB.
class ReadAhead : public test::PipelineTest {
 protected:
  static constexpr int kCirculating = 4;
  static constexpr int kNormal = 2 * kCirculating;  ///< pairs

  ReadAhead() {
    settings.batch = 2;
    settings.workers = 2;
    io.picture_bytes = MiB;
  }

  /// Waits until `count` pairs are read, then as long as it takes to see more of them.
  int read_after_waiting_for(int count) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (io.loaded < count && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return io.loaded;
  }

  /// What is read at most while the first pass over a network has not ended.
  int read_during_first_pass(int expected, int jobs_in_all = 300) {
    int read = 0;
    std::atomic<int> calls{0};
    provider.behaviour.before_forward = [&](int) {
      if (++calls == 1) read = read_after_waiting_for(expected);
    };
    run(jobs_in_all);
    EXPECT_EQ(with(Status::written).size(), static_cast<std::size_t>(jobs_in_all));
    expect_all_in_order(jobs_in_all);
    for (const auto& [job, value] : io.written) EXPECT_EQ(value, static_cast<float>(job));
    return read;
  }

  /// Of 300 jobs, with 24 pairs read.
  void run_interrupted_in_the_first_pass() {
    settings.read_ahead = 25 * MiB;
    std::atomic<bool> interrupted{false};
    settings.interrupted = [&] { return interrupted.load(); };
    provider.behaviour.before_forward = [&](int) {
      read_after_waiting_for(24);
      interrupted = true;
    };
    run(300);
    expect_all_in_order(300);
  }
};

TEST_F(ReadAhead, IsNotDoneUnlessAskedFor) {
  EXPECT_EQ(read_during_first_pass(kNormal), kNormal);
}

TEST_F(ReadAhead, GoesOnToTheLimitWhileTheNetworkIsNotReady) {
  // What a pair holds for the network's sake comes on top of its picture.
  settings.read_ahead = 25 * MiB;
  EXPECT_EQ(read_during_first_pass(24), 24);
}

TEST_F(ReadAhead, ALimitBelowTheCirculatingBatchesChangesNothing) {
  settings.read_ahead = MiB;
  EXPECT_EQ(read_during_first_pass(kNormal), kNormal);
}

TEST_F(ReadAhead, SmallPairsAreLimitedInNumber) {
  io.picture_bytes = 1;
  settings.read_ahead = 1000 * MiB;
  EXPECT_EQ(read_during_first_pass(48 * 2), 48 * 2);
}

TEST_F(ReadAhead, PairsThatCannotBeReadCountAsWell) {
  for (int i = 0; i < 290; ++i) io.unreadable.insert(i);
  std::atomic<int> tried{0};
  io.before_load = [&](const Job&) { ++tried; };
  provider.behaviour.passes_to_warm_up = 1;
  settings.read_ahead = 1000 * MiB;
  int read = 0;
  std::atomic<int> calls{0};
  provider.behaviour.before_forward = [&](int) {
    if (++calls > 1) return;
    while (tried < 96) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    read = tried;
  };
  run(300);
  EXPECT_EQ(read, 96);
  EXPECT_EQ(with(Status::failed).size(), 290U);
  EXPECT_EQ(with(Status::written).size(), 10U);
  expect_all_in_order(300);
}

TEST_F(ReadAhead, AlsoWhileTheNetworkWarmsUp) {
  provider.behaviour.passes_to_warm_up = 2;
  settings.read_ahead = 25 * MiB;
  EXPECT_EQ(read_during_first_pass(24), 24);
}

class WarmingUp : public ReadAhead {
 protected:
  /// How many threads read at the same time while the first network warms up: readers wait for one
  /// another until there are `expected` of them, and then some time for one more.
  std::size_t readers_while_it_warms_up(int workers, std::size_t expected) {
    settings.workers = workers;
    settings.read_ahead = 100 * MiB;
    provider.behaviour.passes_to_warm_up = 1;
    std::mutex mutex;
    std::condition_variable changed;
    std::set<std::thread::id> readers;
    bool warm = false;
    io.before_load = [&](const Job&) {
      std::unique_lock lock(mutex);
      if (warm) return;
      readers.insert(std::this_thread::get_id());
      changed.notify_all();
      changed.wait(lock, [&] { return warm; });
    };
    std::atomic<int> calls{0};
    std::size_t found = 0;
    provider.behaviour.before_forward = [&](int) {
      if (++calls > 1) return;
      std::unique_lock lock(mutex);
      changed.wait_for(lock, std::chrono::minutes(1), [&] { return readers.size() >= expected; });
      changed.wait_for(lock, std::chrono::milliseconds(100),
                       [&] { return readers.size() > expected; });
      found = readers.size();
      warm = true;
      changed.notify_all();
    };
    run(300);
    EXPECT_EQ(with(Status::written).size(), 300U);
    return found;
  }
};

TEST_F(WarmingUp, ANetworkHasACoreOfManyForItself) {
  EXPECT_EQ(readers_while_it_warms_up(8, 7), 7U);
}

TEST_F(WarmingUp, OfFewWorkersNoneWaits) {
  EXPECT_EQ(readers_while_it_warms_up(7, 7), 7U);
}

TEST_F(WarmingUp, TwoNetworksHaveTwoOfSixteen) {
  network_count = 2;
  EXPECT_EQ(readers_while_it_warms_up(16, 14), 14U);
}

TEST_F(WarmingUp, AWorkerThatWaitedReadsWithTheOthersThen) {
  settings.workers = 8;
  settings.read_ahead = 100 * MiB;
  provider.behaviour.passes_to_warm_up = 1;
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::thread::id> readers;
  io.before_load = [&](const Job& job) {
    if (number(job) < 200) return;  // read after the first result: 100 MiB are 100 pairs
    std::unique_lock lock(mutex);
    readers.insert(std::this_thread::get_id());
    changed.notify_all();
    changed.wait_for(lock, std::chrono::minutes(1), [&] { return readers.size() == 8; });
  };
  run(300);
  EXPECT_EQ(readers.size(), 8U);
}

TEST_F(WarmingUp, AWorkerThatWaitsEndsWithAnInterruptedRun) {
  settings.workers = 8;
  provider.behaviour.passes_to_warm_up = 1;
  run_interrupted_in_the_first_pass();
  EXPECT_GT(with(Status::not_done).size(), 200U);
}

TEST_F(WarmingUp, AWorkerThatWaitsEndsWithARunThatIsInterruptedBeforeItBegins) {
  settings.workers = 8;
  settings.read_ahead = 25 * MiB;
  provider.behaviour.passes_to_warm_up = 1;
  settings.interrupted = [] { return true; };
  run(300);
  EXPECT_EQ(with(Status::not_done).size(), 300U);
}

TEST_F(WarmingUp, AWorkerThatWaitsEndsWhenNoPairCanBeRead) {
  settings.workers = 8;
  settings.read_ahead = 25 * MiB;
  settings.fail_fast = true;
  provider.behaviour.passes_to_warm_up = 1;
  for (int i = 0; i < 300; ++i) io.unreadable.insert(i);
  run(300);
  EXPECT_GE(with(Status::failed).size(), 1U);
  EXPECT_EQ(with(Status::written).size(), 0U);
}

TEST_F(ReadAhead, EndsAtTheLastPair) {
  settings.read_ahead = 100 * MiB;
  EXPECT_EQ(read_during_first_pass(17, 17), 17);
}

TEST_F(ReadAhead, TheNormalBoundComesBack) {
  settings.read_ahead = 25 * MiB;
  int computed = 0, calls = 0, most_later = 0, most = 0;
  provider.behaviour.before_forward = [&](int count) {
    ++calls;
    // The allowance is gone when as much has been computed.
    const int ahead = calls % 7 == 1 ? read_after_waiting_for(computed + kNormal) - computed : 0;
    most = std::max(most, ahead);
    if (computed > 25) most_later = std::max(most_later, ahead);
    computed += count;
  };
  run(110);
  EXPECT_GT(most, kNormal);
  EXPECT_LE(most, 25 + kNormal);
  EXPECT_EQ(most_later, kNormal);
}

TEST_F(ReadAhead, ReadingGoesOnAfterTheFirstResult) {
  settings.read_ahead = 25 * MiB;
  int calls = 0, read = 0;
  provider.behaviour.before_forward = [&](int) {
    ++calls;
    if (calls == 1) read_after_waiting_for(24);
    // 8 of the 24 pairs are written; the circulating batches that had them are there again.
    if (calls == 5) read = read_after_waiting_for(24 + kNormal);
  };
  run(100);
  EXPECT_EQ(read, 24 + kNormal);
}

TEST_F(ReadAhead, MapsDoNotPileUpBeforeTheWriting) {
  settings.workers = 1;  // then three batches circulate
  settings.read_ahead = 25 * MiB;
  std::atomic<int> calls{0};
  provider.behaviour.before_forward = [&](int) {
    if (++calls == 1) read_after_waiting_for(24);
  };
  int computed = 0;
  io.before_save = [&](const Job& job) {
    if (number(job) != 0) return;
    while (calls < 3) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    computed = calls;
  };
  run(100);
  EXPECT_EQ(computed, 3);
  expect_all_in_order(100);
}

TEST_F(ReadAhead, TheDevicesMemoryIsForTheCirculatingBatchesAlone) {
  settings.read_ahead = 25 * MiB;
  EXPECT_EQ(read_during_first_pass(24), 24);
  EXPECT_EQ(provider.behaviour.allocations, 2 * kCirculating);  // rgb and depth of each
}

TEST_F(ReadAhead, AnInterruptBeforeTheFirstResultEndsTheRun) {
  run_interrupted_in_the_first_pass();
  EXPECT_EQ(io.loaded, 24);
  EXPECT_EQ(with(Status::written), (std::vector<int>{0, 1}));
  EXPECT_EQ(with(Status::not_done).size(), 298U);
}

TEST_F(ReadAhead, ANetworkThatFailsLeavesTheBatchesToTheOther) {
  network_count = 2;
  settings.read_ahead = 40 * MiB;
  std::atomic<int> calls{0};
  provider.behaviour.on_device = [&](const std::string& device, const BatchView&) {
    if (++calls <= 2) read_after_waiting_for(20);
    if (device == "cuda:0") throw std::runtime_error("device-side assert");
  };
  run(100);
  expect_all_in_order(100);
  EXPECT_EQ(with(Status::written).size(), 100U);
}

}  // namespace
}  // namespace hdfnet::app
