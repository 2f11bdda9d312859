#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace hdfnet::app {

/// The whole content of a regular file. Throws ImageError for a missing file, a folder, a device or
/// pipe (which might never end), a file above kMaxFileBytes, and read errors.
std::vector<std::byte> file_bytes(const std::filesystem::path& file);

}  // namespace hdfnet::app
