// Pictures to the network's input, and its maps to 8-bit levels of the pictures' sizes. The
// pictures of a batch, each of its own size, go side by side: blockIdx.y is the picture.
#include "cuda/pictures.h"

namespace hdfnet::app::cuda {
namespace {

constexpr int kThreads = 256;

/// Calls step(y, x) for this thread's pixel of height x width; there are threads for the largest
/// picture of the launch. Less than 2^31 pixels, so that 32 bits are enough to find the place.
template <typename Step>
__device__ void at_own_pixel(int height, int width, Step step) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  const unsigned columns = static_cast<unsigned>(width);
  const unsigned y = i / columns;
  if (y < static_cast<unsigned>(height)) {
    step(static_cast<int>(y), static_cast<int>(i - y * columns));
  }
}

__device__ InputPlanes planes_of(const InputLaunch& launch, int picture) {
  InputPlanes planes = launch.planes;
  const int64_t plane = static_cast<int64_t>(planes.height) * planes.width;
  planes.rgb += 3 * plane * picture;
  planes.depth += plane * picture;
  return planes;
}

__global__ void __launch_bounds__(kThreads)
    make_filters(const __grid_constant__ InputLaunch launch) {
  const InputJob& job = launch.jobs[blockIdx.y];
  at_own_pixel(1, launch.planes.width + launch.planes.height,
               [&](int, int i) { make_filter(job, launch.planes, i); });
}

__global__ void __launch_bounds__(kThreads)
    narrow_pictures(const __grid_constant__ InputLaunch launch) {
  const InputJob& job = launch.jobs[blockIdx.y];
  at_own_pixel(job.height, launch.planes.width,
               [&](int y, int x) { narrow_pixel(job, launch.planes, y, x); });
}

__global__ void __launch_bounds__(kThreads)
    fill_planes(const __grid_constant__ InputLaunch launch) {
  const InputJob& job = launch.jobs[blockIdx.y];
  const InputPlanes planes = planes_of(launch, static_cast<int>(blockIdx.y));
  at_own_pixel(planes.height, planes.width, [&](int y, int x) { input_pixel(job, planes, y, x); });
}

__global__ void __launch_bounds__(kThreads)
    fill_levels(const __grid_constant__ LevelLaunch launch) {
  const LevelJob& job = launch.jobs[blockIdx.y];
  if (job.levels == nullptr) return;
  at_own_pixel(job.height, job.width,
               [&](int y, int x) { level_pixel(job, launch.map_height, launch.map_width, y, x); });
}

__global__ void __launch_bounds__(kThreads)
    find_not_finite(const __grid_constant__ LevelLaunch launch) {
  const LevelJob& job = launch.jobs[blockIdx.y];
  at_own_pixel(launch.map_height, launch.map_width, [&](int y, int x) {
    // Whoever finds something writes the same.
    const float value = job.map[static_cast<int64_t>(y) * launch.map_width + x];
    if (!isfinite(value)) launch.not_finite[blockIdx.y] = 1;
  });
}

/// Threads for the largest picture; those beyond the end of a smaller one have nothing to do.
dim3 grid(int64_t most_pixels, int pictures) {
  return {static_cast<unsigned>((most_pixels + kThreads - 1) / kThreads),
          static_cast<unsigned>(pictures), 1};
}

int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

}  // namespace

cudaError_t launch_input(const InputLaunch& launch, cudaStream_t stream) {
  const InputPlanes& planes = launch.planes;
  int64_t most_narrow = 1;
  for (int i = 0; i < launch.count; ++i) {
    most_narrow = larger(most_narrow, static_cast<int64_t>(launch.jobs[i].height) * planes.width);
  }
  const int64_t pixels = static_cast<int64_t>(planes.height) * planes.width;
  make_filters<<<grid(planes.width + planes.height, launch.count), kThreads, 0, stream>>>(launch);
  narrow_pictures<<<grid(most_narrow, launch.count), kThreads, 0, stream>>>(launch);
  fill_planes<<<grid(pixels, launch.count), kThreads, 0, stream>>>(launch);
  return cudaGetLastError();
}

cudaError_t launch_levels(const LevelLaunch& launch, cudaStream_t stream) {
  int64_t most_levels = 1;
  for (int i = 0; i < launch.count; ++i) {
    const LevelJob& job = launch.jobs[i];
    most_levels = larger(most_levels, static_cast<int64_t>(job.height) * job.width);
  }
  const int64_t pixels = static_cast<int64_t>(launch.map_height) * launch.map_width;
  find_not_finite<<<grid(pixels, launch.count), kThreads, 0, stream>>>(launch);
  fill_levels<<<grid(most_levels, launch.count), kThreads, 0, stream>>>(launch);
  return cudaGetLastError();
}

}  // namespace hdfnet::app::cuda
