#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pairing/entry.h"
#include "pairing/pairing.h"

namespace hdfnet::app {

/// Candidates for both sides, before they are compared.
struct Candidates {
  std::vector<Entry> rgb;
  std::vector<Entry> depth;
  bool one_folder = false;     ///< both sides are the same folder: each file can be either
  bool rgb_is_list = false;    ///< keys are whole paths, of which the end counts
  bool depth_is_list = false;  ///< the same for depth
};

/// How files are told apart and names compared.
struct Rule {
  std::string rgb_glob, depth_glob;
  std::string rgb_suffix, depth_suffix;
};

/// Pairs by key. Throws PairingError when two RGB files would write the same output, when two depth
/// files fit one RGB, and when one file is chosen as both.
Pairing match(const Candidates& candidates, const Rule& rule);

/// Throws PairingError when two pairs have the same stem.
void refuse_collisions(const std::vector<Pair>& pairs);

/// Sorts by the bytes of the stem.
void sort_pairs(std::vector<Pair>& pairs);

}  // namespace hdfnet::app
