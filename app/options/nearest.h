#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hdfnet::app {

/// Least number of inserted, deleted, replaced or swapped neighbouring characters between two
/// words.
std::size_t edit_distance(std::string_view first, std::string_view second);

/// The candidate that `word` is most likely a misspelling of. '_' and '-' and the case of letters
/// count as equal. Always names one, unless there are no candidates.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace hdfnet::app
