#include "run/ordinary_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <new>
#include <optional>
#include <string>

namespace hdfnet::app {
namespace {

namespace fs = std::filesystem;

/// The number in a file that holds nothing else; nothing where there is none ("max").
std::optional<std::size_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::size_t value = 0;
  if (!(stream >> value)) return std::nullopt;
  return value;
}

/// The number after the word `name`.
std::optional<std::size_t> number_after(const fs::path& file, const std::string& name) {
  std::ifstream stream(file);
  std::string word;
  while (stream >> word) {
    std::size_t value = 0;
    if (word == name && stream >> value) return value;
  }
  return std::nullopt;
}

/// Files of one version of control groups.
struct GroupFiles {
  const char* folder;  ///< below /sys/fs/cgroup
  const char* limit;
  const char* used;
  const char* reclaimable;  ///< in memory.stat: of the used, what the kernel gives up first
};
constexpr GroupFiles kVersion1{"memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file"};
constexpr GroupFiles kVersion2{"", "memory.max", "memory.current", "inactive_file"};

/// Nothing where the group has no limit.
std::optional<std::size_t> left_in(const fs::path& group, const GroupFiles& files) {
  const auto limit = number_in(group / files.limit);
  const auto used = number_in(group / files.used);
  if (!limit || !used) return std::nullopt;
  const std::size_t cache = number_after(group / "memory.stat", files.reclaimable).value_or(0);
  const std::size_t kept = *used - std::min(*used, cache);
  return *limit - std::min(*limit, kept);
}

/// The least that the group and those above it have left. In a container the path may lead to
/// where the container cannot see: what exists on the way counts.
std::size_t left_in_groups(const fs::path& root, const GroupFiles& files, const std::string& path) {
  std::size_t left = std::numeric_limits<std::size_t>::max();
  fs::path group = root / "sys/fs/cgroup" / files.folder;
  left = std::min(left, left_in(group, files).value_or(left));
  for (const fs::path& part : fs::path(path).relative_path()) {
    group /= part;
    left = std::min(left, left_in(group, files).value_or(left));
  }
  return left;
}

}  // namespace

std::shared_ptr<float[]> ordinary_memory(std::size_t count) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const std::size_t bytes = std::max<std::size_t>(count, 1) * sizeof(float);
  const std::size_t mapped = bytes + (bytes >= kHugePage ? kHugePage : 0);
  if (mapped < bytes) throw std::bad_alloc();
  void* const memory =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  void* begin = memory;
  if (std::size_t space = mapped; bytes >= kHugePage) {
    std::align(kHugePage, bytes, begin, space);
    // 512 times fewer faults at its first use. Where there are no huge pages, it does without.
    ::madvise(begin, bytes, MADV_HUGEPAGE);
  }
  return {static_cast<float*>(begin), [memory, mapped](float*) { ::munmap(memory, mapped); }};
}

std::size_t available_memory(const fs::path& root) {
  std::size_t left = 1024 * number_after(root / "proc/meminfo", "MemAvailable:").value_or(0);
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") left = std::min(left, left_in_groups(root, kVersion2, path));
    if (controllers.find(",memory,") != std::string::npos) {
      left = std::min(left, left_in_groups(root, kVersion1, path));
    }
  }
  return left;
}

}  // namespace hdfnet::app
