#pragma once

#include <string>

#include "eval/folder_scores.h"
#include "eval/summary.h"

namespace hdfnet::eval {

/// The means as a table for people.
std::string to_table(const Summary& summary, std::size_t images);

/// Everything: the means, the curves, each image, the failures. Numbers with all their digits.
std::string to_json(const Summary& summary, const FolderScores& folder);

/// One line an image, and the means in a last line named "mean". RFC 4180.
std::string to_csv(const Summary& summary, const FolderScores& folder);

/// The curves over the thresholds: threshold, precision, recall, F, E.
std::string curves_to_csv(const Summary& summary);

}  // namespace hdfnet::eval
