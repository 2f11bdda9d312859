#include "cuda_architectures.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace hdfnet::app {
namespace {

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(",;"), list.size());
    if (end > 0) parts.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

bool entry_runs_on(std::string_view entry, int capability) {
  if (entry == "native" || entry.starts_with("all")) return true;
  int built = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), built);
  if (error != std::errc()) return false;
  const std::string_view rest = entry.substr(static_cast<std::size_t>(end - entry.data()));
  if (rest.starts_with('a')) return built == capability;
  const bool machine_code = built / 10 == capability / 10 && built <= capability;
  const bool compiled_by_driver = built <= capability;
  if (rest == "-real") return machine_code;
  return compiled_by_driver;  // which includes what the machine code runs on
}

std::string dotted(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

}  // namespace

std::string_view built_cuda_architectures() {
#ifdef HDFNET_CUDA_ARCHITECTURES
  return HDFNET_CUDA_ARCHITECTURES;
#else
  return {};
#endif
}

bool kernels_run_on(std::string_view architectures, int capability) {
  const std::vector<std::string_view> built = split(architectures);
  return std::any_of(built.begin(), built.end(), [capability](std::string_view entry) {
    return entry_runs_on(entry, capability);
  });
}

std::string with_commas(std::string_view architectures) {
  std::string text;
  for (const std::string_view part : split(architectures)) {
    text += (text.empty() ? "" : ", ") + std::string(part);
  }
  return text.empty() ? "none" : text;
}

std::string missing_kernels(std::string_view architectures, int capability,
                            const std::string& device, const std::string& card) {
  if (capability <= 0 || kernels_run_on(architectures, capability)) return {};
  return "device " + device + " (" + card + ") has compute capability " + dotted(capability) +
         ", and this build has kernels for " + with_commas(architectures) +
         ": build it with -DCMAKE_CUDA_ARCHITECTURES=" + std::to_string(capability) +
         " added, or choose the device cpu.";
}

}  // namespace hdfnet::app
