#pragma once

#include <string>
#include <string_view>

namespace hdfnet {

/// The version of the LibTorch that this process has loaded, such as 2.11.0; empty when it does not
/// say.
std::string loaded_libtorch_version();

/// The same, found in the text of at::show_config().
std::string libtorch_version_in(std::string_view build_settings);

/// Why a library built with one LibTorch cannot run on another, as a sentence; empty when it can.
/// LibTorch's C++ interface changes with each minor version; a patch keeps it.
std::string libtorch_mismatch(std::string_view built_with, std::string_view loaded);

/// Throws Error(library) when the LibTorch loaded is not of this build's major and minor version.
void check_libtorch();

}  // namespace hdfnet
