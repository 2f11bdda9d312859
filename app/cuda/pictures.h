#pragma once

#include <cuda_runtime_api.h>

#include "cuda/picture_steps.h"

namespace hdfnet::app::cuda {

/// Pictures that one launch takes: its arguments stay below the 4 KB that every card takes.
inline constexpr int kPicturesPerLaunch = 32;

/// Pictures to the network's input. All pointers are of the device.
struct InputLaunch {
  InputJob jobs[kPicturesPerLaunch];
  int count;
  InputPlanes planes;  ///< of the first picture; those of the others follow, rgb and depth apart
};

/// Maps to 8-bit levels.
struct LevelLaunch {
  LevelJob jobs[kPicturesPerLaunch];
  int count;
  int map_height;
  int map_width;
  unsigned char* not_finite;  ///< (count), 0 before; 1 after where a map holds NaN or infinity
};

/// Both are asynchronous and return the launch's own error. Pictures, maps and what the first pass
/// leaves (height x network width) have less than 2^31 pixels each.
cudaError_t launch_input(const InputLaunch& launch, cudaStream_t stream);
cudaError_t launch_levels(const LevelLaunch& launch, cudaStream_t stream);

}  // namespace hdfnet::app::cuda
