#pragma once

#include <filesystem>
#include <vector>

#include "pairing/entry.h"

namespace hdfnet::app {

struct ScanOptions {
  Role role = Role::rgb;
  bool recursive = false;
  /// A folder that is left out although it lies below (the other side's); may be empty.
  std::filesystem::path except;
};

/// The images in a folder, sorted. Hidden files (and with them macOS's "._" side-cars), __MACOSX,
/// Thumbs.db and anything without an image's extension are left out. Links to folders are followed,
/// each real folder once, so that loops end. Throws PairingError when a folder cannot be listed.
std::vector<Entry> scan_folder(const std::filesystem::path& folder, const ScanOptions& options);

}  // namespace hdfnet::app
