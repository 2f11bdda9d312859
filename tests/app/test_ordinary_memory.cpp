#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

#include "run/ordinary_memory.h"
#include "temporary_folder.h"

namespace hdfnet::app {
namespace {

using test::write_text;

constexpr std::size_t MB = 1000000;

class AvailableMemory : public testing::Test {
 protected:
  /// The machine has 8,192,000,000 bytes.
  AvailableMemory() {
    write("proc/meminfo", "MemTotal: 16000000 kB\nMemFree: 100 kB\nMemAvailable: 8000000 kB\n");
  }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root / name).parent_path());
    write_text(root / name, text);
  }
  void group(const std::string& folder, const std::string& limit, const std::string& used,
             const std::string& cache) {
    write("sys/fs/cgroup/" + folder + "/memory.max", limit + "\n");
    write("sys/fs/cgroup/" + folder + "/memory.current", used + "\n");
    write("sys/fs/cgroup/" + folder + "/memory.stat", "anon 5\ninactive_file " + cache + "\n");
  }
  std::size_t available() const { return available_memory(root.path()); }

  test::TemporaryFolder root;
};

TEST_F(AvailableMemory, IsTheMachinesWithoutControlGroups) {
  EXPECT_EQ(available(), 8192 * MB);
}

TEST_F(AvailableMemory, IsNothingWhereTheSystemDoesNotSay) {
  EXPECT_EQ(available_memory(root / "nowhere"), 0U);
}

TEST_F(AvailableMemory, IsWhatTheTightestGroupHasLeft) {
  write("proc/self/cgroup", "0::/slurm/job_7/step\n");
  group("slurm", "9000000000", "5000000000", "0");
  group("slurm/job_7", "4000000000", "3500000000", "500000000");
  group("slurm/job_7/step", "max", "3000000000", "0");
  EXPECT_EQ(available(), 1000 * MB);
}

TEST_F(AvailableMemory, OfAGroupThatIsFullIsNothing) {
  write("proc/self/cgroup", "0::/full\n");
  group("full", "1000", "2000", "0");
  EXPECT_EQ(available(), 0U);
}

TEST_F(AvailableMemory, AGroupThatTheContainerCannotSeeDoesNotCount) {
  write("proc/self/cgroup", "0::/host/only\n");
  group("", "2000000000", "500000000", "0");
  EXPECT_EQ(available(), 1500 * MB);
}

TEST_F(AvailableMemory, KnowsTheFirstVersionOfControlGroups) {
  write("proc/self/cgroup", "11:cpu,cpuacct:/x\n5:memory:/docker/abc\n1:name=systemd:/\n");
  const std::string folder = "sys/fs/cgroup/memory/docker/abc/";
  write(folder + "memory.limit_in_bytes", "3000000000\n");
  write(folder + "memory.usage_in_bytes", "1200000000\n");
  write(folder + "memory.stat", "total_inactive_file 200000000\n");
  EXPECT_EQ(available(), 2000 * MB);
}

TEST_F(AvailableMemory, NoLimitOfTheFirstVersionIsAVeryLargeNumber) {
  write("proc/self/cgroup", "5:memory:/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1200000000\n");
  EXPECT_EQ(available(), 8192 * MB);
}

TEST(OrdinaryMemory, CanBeWrittenToItsEnd) {
  const std::shared_ptr<float[]> memory = ordinary_memory(100001);
  memory[0] = 1;
  memory[100000] = 2;
  EXPECT_EQ(memory[0] + memory[100000] + memory[50000], 3);
  EXPECT_NE(ordinary_memory(0), nullptr);
}

TEST(OrdinaryMemory, MuchOfItBeginsWhereAHugePageCan) {
  for (const std::size_t count : {std::size_t{1} << 19, (std::size_t{3} << 20) + 1}) {
    const std::shared_ptr<float[]> memory = ordinary_memory(count);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % (2 << 20), 0U);
    memory[0] = 1;
    memory[count - 1] = 2;
    EXPECT_EQ(memory[0] + memory[count - 1] + memory[count / 2], 3);
  }
}

TEST(OrdinaryMemory, SaysWhenThereIsNone) {
  EXPECT_THROW(ordinary_memory(std::size_t{1} << 56), std::bad_alloc);
}

}  // namespace
}  // namespace hdfnet::app
