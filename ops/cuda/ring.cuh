#pragma once

// A ring of stages in shared memory, which the copy engine fills and warps read.

#include "cuda/hopper.cuh"

namespace hdfnet::ops::cuda {

/// Readies the barriers of a ring: of each stage, `full` for its one writer and `empty` for as many
/// arrivals of readers. publish_barriers() must follow.
__device__ __forceinline__ void start_ring(uint64_t* full, uint64_t* empty, int stages,
                                           int arrivals) {
  for (int i = 0; i < stages; ++i) {
    start_barrier(full + i, 1);
    start_barrier(empty + i, arrivals);
  }
}

/// Where a reader or a writer of a ring of stages is; parity is that of its barrier's phase.
struct Ring {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance(int stages) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

}  // namespace hdfnet::ops::cuda
