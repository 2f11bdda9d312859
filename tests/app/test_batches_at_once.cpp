#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

#include "pipeline_test.h"

namespace hdfnet::app {
namespace {

/// Counts the calls that are under way together.
class Together {
 public:
  /// Waits until `wanted` calls are under way, once so many have been; for a minute at most.
  void enter(int wanted) {
    std::unique_lock lock(mutex_);
    most_ = std::max(most_, ++now_);
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::minutes(1), [&] { return most_ >= wanted; });
    --now_;
  }
  /// Stays for a while, which others may enter in.
  void stay() {
    std::unique_lock lock(mutex_);
    most_ = std::max(most_, ++now_);
    changed_.wait_for(lock, std::chrono::milliseconds(10), [&] { return most_ > 1; });
    --now_;
  }
  int most() const { return most_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int now_ = 0, most_ = 0;
};

class BatchesAtOnce : public test::PipelineTest {
 protected:
  BatchesAtOnce() {
    settings.batch = 2;
    settings.workers = 2;
    provider.behaviour.batches_at_once = 2;
  }
  void expect_all_written(int count) {
    expect_all_in_order(count);
    EXPECT_EQ(with(Status::written).size(), static_cast<std::size_t>(count));
    for (const auto& [job, value] : io.written) EXPECT_EQ(value, static_cast<float>(job));
  }

  Together together;
};

TEST_F(BatchesAtOnce, AreAsManyAsTheNetworkTakes) {
  provider.behaviour.before_forward = [&](int) { together.enter(2); };
  run(40);
  EXPECT_EQ(together.most(), 2);
  expect_all_written(40);
}

TEST_F(BatchesAtOnce, AreOneWhereTheNetworkTakesOne) {
  provider.behaviour.batches_at_once = 1;
  provider.behaviour.before_forward = [&](int) { together.stay(); };
  run(40);
  EXPECT_EQ(together.most(), 1);
  expect_all_written(40);
}

TEST_F(BatchesAtOnce, BeginAfterTheWarmUp) {
  provider.behaviour.passes_to_warm_up = 2;
  std::atomic<int> calls{0};
  int together_in_warm_up = 0;
  provider.behaviour.before_forward = [&](int) {
    if (++calls <= 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      together_in_warm_up = calls;
    } else {
      together.enter(2);
    }
  };
  run(40);
  EXPECT_EQ(together_in_warm_up, 2);
  EXPECT_EQ(together.most(), 2);
  expect_all_written(40);
}

TEST_F(BatchesAtOnce, AreOneWhereThereAreFew) {
  provider.behaviour.before_forward = [&](int) { together.stay(); };
  run(6);
  EXPECT_EQ(together.most(), 1);
  expect_all_written(6);
}

TEST_F(BatchesAtOnce, OfEachOfSeveralNetworks) {
  network_count = 2;
  provider.behaviour.before_forward = [&](int) { together.enter(4); };
  run(60);
  EXPECT_EQ(together.most(), 4);
  expect_all_written(60);
}

TEST_F(BatchesAtOnce, ThatFindTooLittleMemoryTogetherHalveOnce) {
  provider.behaviour.before_forward = [&](int count) {
    if (count < 2) return;
    together.enter(2);
    throw OutOfMemory("no room");
  };
  run(40);
  expect_all_written(40);
  const std::string said = log.str();
  const std::size_t first = said.find("not enough memory");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(said.find("not enough memory", first + 1), std::string::npos) << said;
}

TEST_F(BatchesAtOnce, MayFailTogether) {
  std::atomic<int> calls{0};
  provider.behaviour.before_forward = [&](int) {
    if (++calls > 2) return;
    together.enter(2);
    throw std::runtime_error("device-side assert");
  };
  run(20);
  expect_all_in_order(20);
  EXPECT_EQ(with(Status::failed), (std::vector<int>{0, 1, 2, 3}));
}

TEST_F(BatchesAtOnce, OfANetworkThatFailsGoToTheOther) {
  network_count = 2;
  provider.behaviour.on_device = [&](const std::string& device, const BatchView&) {
    together.enter(4);
    if (device == "cuda:0") throw std::runtime_error("device-side assert");
  };
  run(60);
  expect_all_written(60);
  EXPECT_NE(log.str().find("the run goes on without cuda:0"), std::string::npos) << log.str();
}

TEST_F(BatchesAtOnce, AreComputedAgainWhereTheyAreNotFinite) {
  provider.behaviour.before_forward = [&](int) { together.enter(2); };
  provider.behaviour.alter = [](const std::string& precision, std::span<float> map) {
    if (precision == "fp16") map[0] = std::nanf("");
  };
  run(20);
  expect_all_in_order(20);
  EXPECT_EQ(with(Status::written).size(), 20U);
  const auto& made = provider.behaviour.made;
  EXPECT_EQ(std::count(made.begin(), made.end(), "cuda:0 bf16 fused"), 1);
}

TEST_F(BatchesAtOnce, AreFinishedAfterAnInterrupt) {
  std::atomic<bool> interrupted{false};
  settings.interrupted = [&] { return interrupted.load(); };
  provider.behaviour.before_forward = [&](int) {
    together.enter(2);
    interrupted = true;
  };
  run(100);
  expect_all_in_order(100);
  EXPECT_EQ(with(Status::written), (std::vector<int>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace hdfnet::app
