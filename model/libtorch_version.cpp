#include "hdfnet/libtorch_version.h"

#include <ATen/Version.h>
#include <torch/version.h>

#include "hdfnet/error.h"

namespace hdfnet {
namespace {

constexpr std::string_view built_with = TORCH_VERSION;

/// "2.11" of "2.11.0+cu130".
std::string_view major_minor(std::string_view version) {
  const std::size_t first = version.find('.');
  return first == std::string_view::npos ? version
                                         : version.substr(0, version.find('.', first + 1));
}

}  // namespace

std::string libtorch_version_in(std::string_view build_settings) {
  constexpr std::string_view key = "TORCH_VERSION=";
  const std::size_t found = build_settings.find(key);
  if (found == std::string_view::npos) return {};
  const std::string_view rest = build_settings.substr(found + key.size());
  return std::string(rest.substr(0, rest.find_first_of(", \n")));
}

std::string loaded_libtorch_version() {
  static const std::string version = libtorch_version_in(at::show_config());
  return version;
}

std::string libtorch_mismatch(std::string_view built, std::string_view loaded) {
  if (loaded.empty() || major_minor(built) == major_minor(loaded)) return {};
  return "LibTorch " + std::string(loaded) + " is loaded, but hdfnet was built with LibTorch " +
         std::string(built) +
         ", and the C++ interface differs between the two. Let the loader find " +
         std::string(major_minor(built)) +
         " (see LD_LIBRARY_PATH, and ldd of the program), or build hdfnet with the LibTorch that "
         "you have.";
}

void check_libtorch() {
  const std::string mismatch = libtorch_mismatch(built_with, loaded_libtorch_version());
  if (!mismatch.empty()) throw Error(ErrorCode::library, mismatch);
}

}  // namespace hdfnet
