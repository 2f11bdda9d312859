#pragma once

#include <span>
#include <string_view>

namespace hdfnet::app {

/// Endings that tell the RGB and the depth of one scene apart.
struct SuffixPair {
  std::string_view rgb;
  std::string_view depth;
};

/// Pairs of endings in common use, tried when plain names give no pair.
std::span<const SuffixPair> known_suffixes();

}  // namespace hdfnet::app
