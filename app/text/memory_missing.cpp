#include "text/memory_missing.h"

#include <string_view>

namespace hdfnet::app {
namespace {

/// What stands between `before` and `after`; empty where it is not so.
std::string_view between(std::string_view text, std::string_view before, std::string_view after) {
  const std::size_t begin = text.find(before);
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin + before.size());
  const std::size_t end = text.find(after);
  return end == std::string_view::npos ? std::string_view{} : text.substr(0, end);
}

}  // namespace

std::string memory_missing(const std::string& text) {
  constexpr std::string_view lead = "CUDA out of memory. ";
  const std::size_t begin = text.find(lead);
  if (begin == std::string::npos) return text;
  const std::string_view told = std::string_view(text).substr(begin + lead.size());
  const std::string_view asked = between(told, "Tried to allocate ", ". ");
  if (asked.empty()) return text;
  std::string result = text.substr(0, begin) + "Tried to allocate ";
  result += asked;
  const std::string_view all = between(told, "total capacity of ", " of which ");
  const std::string_view free = between(told, " of which ", " is free");
  if (all.empty() || free.empty()) return result;
  return result.append("; ").append(free).append(" of ").append(all).append(" are free");
}

}  // namespace hdfnet::app
