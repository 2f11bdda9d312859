#include "common/torch_version.h"

#include <c10/macros/Export.h>
#include <dlfcn.h>

#include <map>

// Every LibTorch has this, but not each package the header, caffe2/core/common.h.
// (at::show_config() has the same text, but asks the CUDA driver on its way, too early while
// libraries are loaded.)
namespace caffe2 {
TORCH_API const std::map<std::string, std::string>& GetBuildOptions();
}

namespace hdfnet::ops {
namespace {

// "2.11" of "2.11.0+cu130"
std::string major_and_minor(const std::string& version) {
  const size_t first = version.find('.');
  if (first == std::string::npos) return version;
  return version.substr(0, version.find_first_not_of("0123456789", first + 1));
}

}  // namespace

RunningTorch torch_running() {
  RunningTorch running;
  const auto& options = caffe2::GetBuildOptions();
  if (const auto version = options.find("TORCH_VERSION"); version != options.end()) {
    running.version = version->second;
  }
  Dl_info place{};
  if (dladdr(&options, &place) != 0 && place.dli_fname != nullptr) running.file = place.dli_fname;
  return running;
}

std::string torch_version_fault(const std::string& compiled_for, const RunningTorch& running) {
  const std::string needed = major_and_minor(compiled_for);
  if (running.version.empty() || major_and_minor(running.version) == needed) return "";
  std::string found = "LibTorch " + running.version;
  if (!running.file.empty()) found += " (" + running.file + ")";
  return "libhdfnet_ops was compiled for LibTorch " + compiled_for + ", but this process runs " +
         found + ", so the operators were not registered. Use a LibTorch " + needed +
         ", or build libhdfnet_ops against the one that runs: "
         "cmake --preset release -DCMAKE_PREFIX_PATH=FOLDER_OF_THAT_LIBTORCH";
}

}  // namespace hdfnet::ops
