#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "run/slabs.h"

namespace hdfnet::app {
namespace {

constexpr std::size_t kLargest = 4096;

/// Knows each slab that there is, and the sizes of all that were asked for.
class SlabsTest : public testing::Test {
 protected:
  Slabs slabs{[this](std::size_t count) {
                sizes.push_back(count);
                ++alive;
                return std::shared_ptr<float[]>(new float[count], [this](float* memory) {
                  --alive;
                  delete[] memory;
                });
              },
              kLargest};
  std::vector<std::size_t> sizes;
  int alive = 0;
};

TEST_F(SlabsTest, AreEachAsLargeAsAllBeforeUpToTheLargest) {
  std::vector<std::shared_ptr<float[]>> pieces;
  pieces.reserve(200);
  for (int i = 0; i < 200; ++i) pieces.push_back(slabs.piece(100));  // 128 with what aligns it
  EXPECT_EQ(sizes, (std::vector<std::size_t>{128, 256, 512, 1024, 2048, 4096, 4096, 4096, 4096,
                                             4096, 4096}));
}

TEST_F(SlabsTest, PiecesDoNotOverlapAndAreAligned) {
  std::vector<std::shared_ptr<float[]>> pieces;
  for (std::size_t i = 0; i < 100; ++i) {
    pieces.push_back(slabs.piece(1 + 37 * i % 300));
    for (std::size_t k = 0; k < 1 + 37 * i % 300; ++k) pieces[i][k] = static_cast<float>(i);
  }
  std::set<const float*> places;
  for (std::size_t i = 0; i < 100; ++i) {
    for (std::size_t k = 0; k < 1 + 37 * i % 300; ++k) {
      ASSERT_EQ(pieces[i][k], static_cast<float>(i));
    }
    places.insert(pieces[i].get());
  }
  EXPECT_EQ(places.size(), 100U);
  const std::shared_ptr<float[]> first = slabs.piece(1), second = slabs.piece(1);
  EXPECT_EQ((second.get() - first.get()) % 64, 0);
}

TEST_F(SlabsTest, GoBackWithTheLastOfTheirPieces) {
  std::shared_ptr<float[]> first = slabs.piece(10), second = slabs.piece(70);
  EXPECT_EQ(alive, 2);
  first.reset();
  EXPECT_EQ(alive, 1);
  const std::shared_ptr<float[]> copy = second;
  second.reset();
  EXPECT_EQ(alive, 1);
  const std::shared_ptr<float[]> third = slabs.piece(10);  // there was no room left beside it
  EXPECT_EQ(alive, 2);
}

TEST_F(SlabsTest, MoreThanTheLargestIsASlabOfItsOwn) {
  const std::shared_ptr<float[]> small = slabs.piece(64), large = slabs.piece(kLargest + 1);
  const std::shared_ptr<float[]> next = slabs.piece(64);
  EXPECT_EQ(sizes, (std::vector<std::size_t>{64, kLargest + 1, 128}));
  EXPECT_NE(slabs.piece(0), nullptr);
}

TEST_F(SlabsTest, DoNotGrowWhereEachPieceGoesBackBeforeTheNext) {
  for (int i = 0; i < 20; ++i) slabs.piece(100);
  EXPECT_EQ(sizes, std::vector<std::size_t>(20, 128));
  EXPECT_EQ(alive, 0);
}

TEST(Slabs, WhatCannotBeHadIsAskedForAsSmallAsItMustBe) {
  std::vector<std::size_t> asked;
  Slabs slabs(
      [&](std::size_t count) {
        asked.push_back(count);
        if (count > 200) throw std::bad_alloc();
        return std::shared_ptr<float[]>(new float[count]);
      },
      kLargest);
  std::vector<std::shared_ptr<float[]>> pieces;
  pieces.reserve(3);
  for (int i = 0; i < 3; ++i) pieces.push_back(slabs.piece(100));
  EXPECT_EQ(asked, (std::vector<std::size_t>{128, 256, 128, 256, 128}));
  EXPECT_THROW(slabs.piece(300), std::bad_alloc);
}

TEST(Slabs, AFaultOfTheAllocatorIsPassedOnAndTriedAgain) {
  int calls = 0;
  Slabs slabs(
      [&](std::size_t count) {
        if (++calls == 1) throw std::bad_alloc();
        return std::shared_ptr<float[]>(new float[count]);
      },
      kLargest);
  EXPECT_THROW(slabs.piece(1), std::bad_alloc);
  EXPECT_NE(slabs.piece(1), nullptr);
}

TEST(Slabs, ServeSeveralThreads) {
  Slabs slabs([](std::size_t count) { return std::shared_ptr<float[]>(new float[count]); },
              kLargest);
  std::vector<std::vector<std::shared_ptr<float[]>>> pieces(4);
  {
    std::vector<std::jthread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 500; ++i) {
          pieces[t].push_back(slabs.piece(32));
          pieces[t].back()[31] = static_cast<float>(1000 * t + i);
        }
      });
    }
  }
  for (int t = 0; t < 4; ++t) {
    for (int i = 0; i < 500; ++i) {
      ASSERT_EQ(pieces[t][i][31], static_cast<float>(1000 * t + i));
    }
  }
}

}  // namespace
}  // namespace hdfnet::app
