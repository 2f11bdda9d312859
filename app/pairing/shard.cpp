#include <cstdint>
#include <stdexcept>

#include "pairing/pairing.h"

namespace hdfnet::app {
namespace {

/// FNV-1a, then splitmix64's finaliser, so that names that differ in one digit spread evenly.
std::uint64_t hash(const std::string& text) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (const char c : text) {
    value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9;
  value = (value ^ value >> 27) * 0x94D049BB133111EB;
  return value ^ value >> 31;
}

}  // namespace

std::vector<Pair> shard(const std::vector<Pair>& pairs, std::size_t index, std::size_t count) {
  if (index >= count) {
    throw std::invalid_argument("shard: part " + std::to_string(index) + " of " +
                                std::to_string(count) + " does not exist (parts count from 0)");
  }
  std::vector<Pair> part;
  for (const Pair& pair : pairs) {
    if (hash(pair.stem.generic_string()) % count == index) part.push_back(pair);
  }
  return part;
}

}  // namespace hdfnet::app
