#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hdfnet::app {

/// What a file is wanted for; depth also comes in formats that only hold numbers.
enum class Role { rgb, depth };
std::string_view name(Role role);  ///< "RGB", "depth"

/// One candidate file.
struct Entry {
  std::filesystem::path file;
  /// Path below its folder, with '/' between and without extension: "s1/0001".
  std::string stem;
  /// What the other side is compared with: the stem, less a suffix.
  std::string key;
};

/// The extension (in any case) belongs to a format that can be read in this role.
bool has_image_extension(const std::filesystem::path& file, Role role);

/// A path without its last extension; only the file name counts as one ("a.b/c" stays).
std::string without_extension(const std::string& path);

/// 'name' as file names stand in messages.
std::string path_in_quotes(const std::filesystem::path& path);

/// Sorts by the bytes of the stem, then of the whole path: the same order everywhere.
void sort_entries(std::vector<Entry>& entries);

}  // namespace hdfnet::app
