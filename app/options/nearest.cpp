#include "options/nearest.h"

#include <algorithm>
#include <cctype>
#include <limits>

namespace hdfnet::app {
namespace {

std::string folded(std::string_view word) {
  std::string result;
  for (const char c : word) {
    result += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

}  // namespace

std::size_t edit_distance(std::string_view first, std::string_view second) {
  const std::size_t columns = second.size() + 1;
  std::vector<std::size_t> before(columns), above(columns), row(columns);
  for (std::size_t j = 0; j < columns; ++j) above[j] = j;
  for (std::size_t i = 1; i <= first.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j < columns; ++j) {
      const std::size_t replaced = above[j - 1] + (first[i - 1] == second[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped =
          i > 1 && j > 1 && first[i - 1] == second[j - 2] && first[i - 2] == second[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[columns - 1];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  // A long word is no misspelling of anything: its beginning is enough, and the cost stays bounded.
  const std::string wanted = folded(word.substr(0, 64));
  std::string best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(wanted, folded(candidate));
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace hdfnet::app
