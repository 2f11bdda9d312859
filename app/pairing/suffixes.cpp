#include "pairing/suffixes.h"

namespace hdfnet::app {

std::span<const SuffixPair> known_suffixes() {
  static constexpr SuffixPair kKnown[] = {
      {".color", ".depth"}, {"_color", "_depth"}, {"-color", "-depth"}, {".rgb", ".depth"},
      {"_rgb", "_depth"},   {"-rgb", "-depth"},   {"_RGB", "_Depth"},   {"_RGB", "_depth"},
      {"_rgb", "_d"},       {"_Color", "_Depth"}, {"_image", "_depth"}, {"", "_Depth"},
      {"", "_depth"},       {"", ".depth"},       {"", "-depth"},       {"", "_d"},
  };
  return kKnown;
}

}  // namespace hdfnet::app
