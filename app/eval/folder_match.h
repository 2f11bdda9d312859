#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace hdfnet::eval {

/// Folders that cannot be compared at all; what() is a sentence.
class MatchError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A true mask and the saliency map that belongs to it.
struct Match {
  std::string name;  ///< path below the folder, without extension and suffix: "s1/0001"
  std::filesystem::path prediction;
  std::filesystem::path truth;
};

struct FolderMatch {
  std::vector<Match> matches;          ///< sorted by name
  std::vector<std::string> unmatched;  ///< masks without a map, as paths: each is a failure
  std::size_t spare_predictions = 0;   ///< maps (overlays and the like among them) without a mask
};

struct MatchOptions {
  std::filesystem::path predictions;
  std::filesystem::path truths;
  std::string prediction_suffix;  ///< ending of the maps' names before the extension
  std::string truth_suffix;       ///< the same of the masks' names
};

/// Matches the images (PNG, JPEG, BMP, TIFF, PGM, WebP) of two folders and all below them by
/// relative path without extension. Throws MatchError when a folder is not there, has no mask, or
/// has two files of one name.
FolderMatch match_folders(const MatchOptions& options);

}  // namespace hdfnet::eval
