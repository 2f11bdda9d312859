#include "eval/folder_match.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace hdfnet::eval {
namespace fs = std::filesystem;
namespace {

bool is_image(const fs::path& file) {
  static constexpr std::array<std::string_view, 10> kExtensions = {
      ".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".pgm", ".ppm", ".pnm", ".webp"};
  std::string extension = file.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(c < 128 ? std::tolower(c) : c); });
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
}

using Files = std::map<std::string, fs::path>;

/// The images below a folder by name; those without the suffix are left out.
Files find_images(const fs::path& folder, const std::string& suffix, const char* what) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw MatchError("the folder of " + std::string(what) + ", '" + folder.string() + "', is not " +
                     (fs::exists(folder, error) ? "a folder" : "there"));
  }
  Files files;
  using Walk = fs::recursive_directory_iterator;
  for (auto entry = Walk(folder, fs::directory_options::follow_directory_symlink); entry != Walk();
       ++entry) {
    if (entry->path().filename().string().starts_with('.')) {
      if (entry->is_directory()) entry.disable_recursion_pending();
      continue;
    }
    if (!entry->is_regular_file() || !is_image(entry->path())) continue;
    std::string name =
        entry->path().lexically_relative(folder).replace_extension().generic_string();
    if (!name.ends_with(suffix)) continue;
    name.resize(name.size() - suffix.size());
    const auto [other, added] = files.emplace(name, entry->path());
    if (!added) {
      throw MatchError("'" + other->second.string() + "' and '" + entry->path().string() +
                       "' have the same name, so which of them to take is not clear");
    }
  }
  return files;
}

}  // namespace

FolderMatch match_folders(const MatchOptions& options) {
  const Files predictions = find_images(options.predictions, options.prediction_suffix, "maps");
  const Files truths = find_images(options.truths, options.truth_suffix, "true masks");
  if (truths.empty()) {
    throw MatchError("no image" +
                     (options.truth_suffix.empty()
                          ? std::string()
                          : " with a name that ends in '" + options.truth_suffix + "'") +
                     " is in the folder of true masks, '" + options.truths.string() + "'");
  }
  FolderMatch result;
  for (const auto& [name, truth] : truths) {
    const auto prediction = predictions.find(name);
    if (prediction == predictions.end()) {
      result.unmatched.push_back(truth.string());
    } else {
      result.matches.push_back({name, prediction->second, truth});
    }
  }
  result.spare_predictions = predictions.size() - result.matches.size();
  return result;
}

}  // namespace hdfnet::eval
