#include "run/usable_cores.h"

#include <gtest/gtest.h>

namespace hdfnet::app {
namespace {

TEST(UsableCores, AreThoseThatTheProcessMayRunOn) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(usable_cores(), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  ::sched_setaffinity(0, sizeof before, &before);
}

}  // namespace
}  // namespace hdfnet::app
