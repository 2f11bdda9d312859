#pragma once

#include <string>
#include <vector>

#include "eval/folder_match.h"
#include "eval/metrics.h"

namespace hdfnet::eval {

/// What became of the images of a folder.
struct FolderScores {
  std::vector<std::string> names;     ///< of the images that could be scored, sorted
  std::vector<Scores> scores;         ///< theirs, in the same order
  std::vector<std::string> failures;  ///< one sentence each, with the file's name
};

/// Reads and scores every match, on `threads` threads. The result does not depend on their number.
FolderScores score_matches(const std::vector<Match>& matches, int threads);

}  // namespace hdfnet::eval
