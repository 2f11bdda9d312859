#include "pairing/folder_scan.h"

#include <algorithm>
#include <deque>
#include <set>
#include <system_error>

#include "pairing/pairing.h"

namespace hdfnet::app {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const std::string& name) {
  return name.starts_with('.') || name == "__MACOSX";
}

/// A folder still to be listed.
struct Folder {
  fs::path path;
  std::string prefix;  ///< its path below the start, with a '/' at the end, or empty
};

class Scanner {
 public:
  explicit Scanner(const ScanOptions& options) : options_(options) {
    if (!options.except.empty()) visited_.insert(fs::weakly_canonical(options.except));
  }

  std::vector<Entry> scan(const fs::path& start) {
    visited_.erase(fs::weakly_canonical(start));  // the start is listed even when it is `except`
    folders_.push_back({start, ""});
    // Real folders first: a link must not hide the folder that it leads to.
    while (!folders_.empty() || !links_.empty()) {
      std::deque<Folder>& next = folders_.empty() ? links_ : folders_;
      const Folder folder = next.front();
      next.pop_front();
      list(folder);
    }
    sort_entries(entries_);
    return std::move(entries_);
  }

 private:
  void list(const Folder& folder) {
    if (!visited_.insert(fs::weakly_canonical(folder.path)).second) return;
    for (const fs::directory_entry& item : sorted_items(folder.path)) {
      const std::string name = item.path().filename().string();
      if (is_hidden(name)) continue;
      std::error_code error;
      if (item.is_directory(error)) {
        if (!options_.recursive) continue;
        (item.is_symlink(error) ? links_ : folders_)
            .push_back({item.path(), folder.prefix + name + "/"});
      } else if (has_image_extension(item.path(), options_.role)) {
        // Broken links and special files stay: reading them fails by name, not in silence.
        entries_.push_back({item.path(), without_extension(folder.prefix + name), ""});
      }
    }
  }

  static std::vector<fs::directory_entry> sorted_items(const fs::path& folder) {
    std::error_code error;
    std::vector<fs::directory_entry> items;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      items.push_back(*it);
    }
    if (error) {
      throw PairingError("the folder " + path_in_quotes(folder) +
                         " cannot be listed: " + error.message() + ".");
    }
    std::sort(items.begin(), items.end());
    return items;
  }

  const ScanOptions& options_;
  std::set<fs::path> visited_;
  std::deque<Folder> folders_;
  std::deque<Folder> links_;
  std::vector<Entry> entries_;
};

}  // namespace

std::vector<Entry> scan_folder(const fs::path& folder, const ScanOptions& options) {
  return Scanner(options).scan(folder);
}

}  // namespace hdfnet::app
