#include "pairing/dataset.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "pairing/entry.h"
#include "pairing/pairing.h"

namespace hdfnet::app {
namespace {

namespace fs = std::filesystem;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::vector<fs::path> subfolders(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) found.push_back(it->path());
  }
  if (error) {
    throw PairingError("the data set " + path_in_quotes(folder) +
                       " cannot be listed: " + error.message() + ".");
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string names_of(const std::vector<fs::path>& folders) {
  if (folders.empty()) return "no folders";
  std::string names;
  for (const fs::path& folder : folders) {
    names += (names.empty() ? "" : ", ") + path_in_quotes(folder.filename());
  }
  return names;
}

fs::path only_one(const fs::path& dataset, const std::vector<fs::path>& folders, Role role,
                  const std::set<std::string>& accepted) {
  std::vector<fs::path> fitting;
  std::copy_if(
      folders.begin(), folders.end(), std::back_inserter(fitting),
      [&](const fs::path& folder) { return accepted.contains(lower(folder.filename().string())); });
  if (fitting.size() == 1) return fitting.front();
  const std::string advice = " Name the folders with --rgb and --depth.";
  if (fitting.empty()) {
    throw PairingError("the data set " + path_in_quotes(dataset) + " has no " +
                       std::string(name(role)) +
                       " folder (looked for RGB, Image, Images, color and depth, depths; found " +
                       names_of(folders) + ")." + advice);
  }
  throw PairingError("the data set " + path_in_quotes(dataset) + " has several " +
                     std::string(name(role)) + " folders: " + names_of(fitting) + "." + advice);
}

}  // namespace

DatasetFolders find_dataset_folders(const fs::path& dataset) {
  const std::vector<fs::path> folders = subfolders(dataset);
  return {only_one(dataset, folders, Role::rgb, {"rgb", "image", "images", "color", "colour"}),
          only_one(dataset, folders, Role::depth, {"depth", "depths"})};
}

}  // namespace hdfnet::app
