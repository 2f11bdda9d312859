// The emulated card itself: what must show does show.
#include <gtest/gtest.h>

#include "card.h"
#include "cuda/hopper.cuh"
#include "cuda/tensor_map.h"

namespace hdfnet::emulated {
namespace {

constexpr int kThreads = 64;

void run_threads(const std::function<void()>& kernel, std::size_t shared_bytes = 1024) {
  run(dim3(1), dim3(kThreads), shared_bytes, kernel);
}

TEST(EmulatedCard, GivesEveryThreadItsPlace) {
  std::vector<int> runs(48, 0);
  run(dim3(2, 3), dim3(4, 2), 0, [&] {
    ++runs.at(((blockIdx.y * 2 + blockIdx.x) * 2 + threadIdx.y) * 4 + threadIdx.x);
    EXPECT_EQ(blockDim.y, 2u);
    EXPECT_EQ(gridDim.y, 3u);
  });
  EXPECT_EQ(runs, std::vector<int>(48, 1));
}

TEST(EmulatedCard, BarriersHoldEveryoneBack) {
  std::vector<int> steps(kThreads, 0);
  const auto expect_all = [&](int first, int step) {
    for (int t = first; t < kThreads; ++t) EXPECT_EQ(steps[static_cast<std::size_t>(t)], step);
  };
  run_threads([&] {
    int& mine = steps[threadIdx.x];
    mine = 1;
    __syncthreads();
    expect_all(0, 1);
    __syncthreads();
    if (threadIdx.x < 32) return;  // who has ended is not waited for
    mine = 2;
    __syncthreads();
    expect_all(32, 2);
    synchronize_some(3, 32);
    mine = 3;
    __syncwarp();
    expect_all(32, 3);
  });
}

TEST(EmulatedCard, ExchangesWithinAWarp) {
  run_threads([] {
    for (const int lanes : {1, 8, 16}) {
      const int got = __shfl_xor_sync(0xffffffffu, static_cast<int>(threadIdx.x), lanes);
      EXPECT_EQ(got, static_cast<int>(threadIdx.x) ^ lanes);
    }
  });
}

TEST(EmulatedCard, WhatIsUnderWayIsNaN) {
  const std::vector<float> source(64, 2.f);
  run_threads(
      [&] {
        auto* const floats = reinterpret_cast<float*>(dynamic_shared(1024));
        float* const mine = floats + 4 * threadIdx.x;
        EXPECT_TRUE(std::isnan(*mine));  // before anything was written
        ops::cuda::copy_async<16>(mine, source.data(), threadIdx.x % 2 == 0);
        ops::cuda::end_copy_group();
        EXPECT_TRUE(std::isnan(*mine));
        ops::cuda::wait_for_copy_groups<0>();
        EXPECT_EQ(*mine, threadIdx.x % 2 == 0 ? 2.f : 0.f);
      },
      16 * kThreads);
}

TEST(EmulatedCard, TakesBytesApart) {
  EXPECT_EQ(__byte_perm(0x33221100u, 0x77665544u, 0x5410u), 0x55441100u);
  EXPECT_EQ(__byte_perm(0x33221100u, 0x77665544u, 0x3276u), 0x33227766u);
  EXPECT_EQ(__funnelshift_r(0x11223344u, 0xaabbccddu, 8), 0xdd112233u);
}

/// A tensor of 3 x 5 x 40 halves, each its own number.
class Boxes : public testing::Test {
 protected:
  Boxes() : source_(600), map_() {
    for (std::size_t i = 0; i < source_.size(); ++i)
      source_[i] = static_cast<unsigned short>(i + 1);
  }
  bool encode(CUtensorMapSwizzle swizzle, int columns) {
    return ops::cuda::encode_tensor_map<3>(&map_, ops::cuda::Type::kHalf, source_.data(),
                                           {40, 5, 3}, {40, 200}, {columns, 4, 2}, {swizzle});
  }
  std::vector<unsigned short> source_;
  CUtensorMap map_;
};

TEST_F(Boxes, LieInTheOrderThatTheManualGives) {
  ASSERT_TRUE(encode(CU_TENSOR_MAP_SWIZZLE_64B, 32));
  run_threads([&] {
    auto* const halves = reinterpret_cast<unsigned short*>(dynamic_shared(1024));
    auto* const barrier = reinterpret_cast<std::uint64_t*>(halves + 256);
    if (threadIdx.x == 0) ops::cuda::start_barrier(barrier, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
      ops::cuda::arrive_and_expect(barrier, 512);
      ops::cuda::copy_box(halves, &map_, barrier, 16, -1, 1);
    }
    ops::cuda::wait(barrier, 0);
    for (int row = 0; row < 8; ++row) {
      for (int column = 0; column < 32; ++column) {
        // 16-byte pieces change places by the row's number over 2, modulo 4.
        const int piece = column / 8 ^ row / 2 % 4;
        const int h = row % 4 - 1, n = row / 4 + 1, w = column + 16;
        const bool inside = h >= 0 && w < 40 && n < 3;
        EXPECT_EQ(halves[row * 32 + piece * 8 + column % 8],
                  inside ? source_[static_cast<std::size_t>(n * 200 + h * 40 + w)] : 0);
      }
    }
  });
}

TEST_F(Boxes, AreRefusedAsTheManualSays) {
  EXPECT_FALSE(encode(CU_TENSOR_MAP_SWIZZLE_64B, 40));  // rows beyond what changes places
  EXPECT_FALSE(encode(CU_TENSOR_MAP_SWIZZLE_NONE, 4));  // 8 bytes
  EXPECT_FALSE(ops::cuda::encode_tensor_map<3>(&map_, ops::cuda::Type::kHalf, source_.data() + 1,
                                               {40, 5, 3}, {40, 200}, {32, 4, 2}));
  EXPECT_FALSE(ops::cuda::encode_tensor_map<3>(&map_, ops::cuda::Type::kHalf, source_.data(),
                                               {40, 5, 3}, {41, 200}, {32, 4, 2}));
}

// A thread that has not called the runtime yet has no context, without which there are no maps.
TEST_F(Boxes, NeedAContextAndBindIt) {
  card().context_is_bound = false;
  EXPECT_TRUE(encode(CU_TENSOR_MAP_SWIZZLE_64B, 32));
  EXPECT_TRUE(card().context_is_bound);
}

using EmulatedCardDeathTest = testing::Test;

TEST(EmulatedCardDeathTest, EndsWhatWaitsForEver) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto wait_for = [](int bytes_expected) {
    run_threads([=] {
      auto* const barrier = reinterpret_cast<std::uint64_t*>(dynamic_shared(1024));
      if (threadIdx.x == 0) ops::cuda::start_barrier(barrier, 1);
      __syncthreads();
      if (threadIdx.x == 0) ops::cuda::arrive_and_expect(barrier, bytes_expected);
      ops::cuda::wait(barrier, 0);
    });
  };
  wait_for(0);
  EXPECT_DEATH(wait_for(16), "threads wait for ever");
  EXPECT_DEATH(run_threads([] {
                 if (threadIdx.x != 0)
                   __syncwarp();
                 else
                   __syncthreads();
               }),
               "threads wait for ever");
}

TEST(EmulatedCardDeathTest, EndsWhatUsesBarriersWrongly) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto barrier = [] { return reinterpret_cast<std::uint64_t*>(dynamic_shared(1024)); };
  EXPECT_DEATH(run_threads([&] { ops::cuda::wait(barrier(), 0); }), "nobody started");
  EXPECT_DEATH(run_threads([&] { ops::cuda::wait(barrier() + 1000, 0); }), "outside");
  EXPECT_DEATH(run_threads([&] {
                 if (threadIdx.x != 0) return;
                 ops::cuda::start_barrier(barrier(), 2);
                 ops::cuda::arrive_and_expect(barrier(), 16);
                 ops::cuda::arrive(barrier());
                 ops::cuda::arrive(barrier());
               }),
               "more arrivals");
}

}  // namespace
}  // namespace hdfnet::emulated
