#pragma once

// ops/cuda/early_launch.cuh in C++. Launches do not overlap here.

#include <utility>

#include "card.h"
#include "cuda/device_facts.h"

namespace hdfnet::ops::cuda {

inline void let_next_launch_begin() {}
inline void wait_for_launch_before() {}

template <typename T>
void compute_early(T*& pointer) {
  static_cast<void>(pointer);
}

template <typename Word>
Word load_inside(const Word* address, bool inside) {
  return inside ? *address : Word{};
}

template <typename... Parameters, typename... Arguments>
cudaError_t launch_early(void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes,
                         cudaStream_t stream, Arguments&&... arguments) {
  kernel | emulated::Configuration(grid, static_cast<unsigned>(threads), shared_bytes, stream) |
      std::forward_as_tuple(arguments...);
  return cudaSuccess;
}

}  // namespace hdfnet::ops::cuda
