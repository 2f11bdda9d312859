#pragma once

// ops/cuda/instructions.cuh in C++.

#include "card.h"

namespace hdfnet::ops::cuda {

template <typename Word>
Word load_once(const Word* address) {
  return *address;
}
template <typename Word>
Word load_once_inside(const Word* address, bool inside) {
  return inside ? *address : Word{};
}
inline float load_shared_inside(const float* address, bool inside) {
  return inside ? *address : 0.f;
}

template <int kThreads>
void team_barrier(int team) {
  emulated::synchronize_some(team + 1, kThreads);
}

inline const float* advance(const float* from, unsigned count, unsigned bytes) {
  return reinterpret_cast<const float*>(reinterpret_cast<const char*>(from) +
                                        std::uint64_t{count} * bytes);
}

inline float zero_here() {
  return 0.f;
}

}  // namespace hdfnet::ops::cuda
