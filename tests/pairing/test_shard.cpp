#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "pairing/pairing.h"

namespace hdfnet::app::test {
namespace {

std::vector<Pair> numbered(int count) {
  std::vector<Pair> pairs;
  for (int i = 0; i < count; ++i) {
    const std::string stem = "scene/" + std::to_string(i);
    pairs.push_back({stem + ".jpg", stem + ".png", stem});
  }
  return pairs;
}

std::set<std::string> stems(const std::vector<Pair>& pairs) {
  std::set<std::string> result;
  for (const Pair& pair : pairs) result.insert(pair.stem.string());
  return result;
}

TEST(Shard, PartsAreDisjointAndComplete) {
  const std::vector<Pair> all = numbered(1000);
  std::set<std::string> seen;
  std::size_t total = 0;
  for (std::size_t i = 0; i < 7; ++i) {
    const std::vector<Pair> part = shard(all, i, 7);
    total += part.size();
    seen.merge(stems(part));
    EXPECT_GT(part.size(), 100U);  // of 143 on average
    EXPECT_LT(part.size(), 190U);
  }
  EXPECT_EQ(total, all.size());
  EXPECT_EQ(seen, stems(all));
}

TEST(Shard, DoesNotDependOnOrderOrOnOtherFiles) {
  std::vector<Pair> all = numbered(100);
  const std::set<std::string> before = stems(shard(all, 1, 3));
  std::reverse(all.begin(), all.end());
  EXPECT_EQ(stems(shard(all, 1, 3)), before);
  std::set<std::string> of_fewer = stems(shard(numbered(50), 1, 3));
  EXPECT_TRUE(std::includes(before.begin(), before.end(), of_fewer.begin(), of_fewer.end()));
}

TEST(Shard, KeepsTheOrderOfItsInput) {
  const std::vector<Pair> all = numbered(5);
  const std::vector<Pair> part = shard(all, 0, 1);
  ASSERT_EQ(part.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(part[i].stem, all[i].stem);
}

TEST(Shard, IsTheSameInEveryRelease) {
  // Half-finished runs on a cluster are resumed by shard.
  Pair pair;
  for (const auto& [stem, index] : {std::pair{"a", 0}, {"b", 1}, {"s1/0001", 1}}) {
    pair.stem = stem;
    EXPECT_EQ(shard({pair}, static_cast<std::size_t>(index), 4).size(), 1U) << stem;
  }
}

TEST(Shard, PartsThatDoNotExistAreErrors) {
  EXPECT_THROW(shard({}, 3, 3), std::invalid_argument);
  EXPECT_THROW(shard({}, 0, 0), std::invalid_argument);
}

}  // namespace
}  // namespace hdfnet::app::test
