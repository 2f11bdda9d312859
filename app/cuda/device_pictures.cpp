#include "cuda/device_pictures.h"

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <optional>

#include "cuda/pictures.h"
#include "host_memory.h"

namespace hdfnet::app::cuda {
namespace {

at::Tensor device_bytes(int64_t count, at::Device device) {
  return at::empty({count}, at::TensorOptions(device).dtype(at::kByte));
}

cudaStream_t stream_of(at::Device device) {
  return c10::cuda::getCurrentCUDAStream(device.index()).stream();
}

/// Below that the time to wake up counts.
constexpr int64_t kLeastMapsToSleepFor = 8;

/// Waits for the current stream as an ordinary wait does not: without keeping a core busy, of which
/// those who read and write have need.
void sleep_until_done(at::Device device) {
  at::cuda::CUDAEvent reached(cudaEventBlockingSync | cudaEventDisableTiming);
  reached.record(c10::cuda::getCurrentCUDAStream(device.index()));
  reached.synchronize();
}

int64_t pixels_of(const PairPictures& pair) {
  return static_cast<int64_t>(pair.height) * pair.width;
}

/// Places of pieces of memory one after the other, each aligned for any type.
class Layout {
 public:
  int64_t add(int64_t bytes) {
    const int64_t begin = end_;
    end_ += (bytes + 255) / 256 * 256;
    return begin;
  }
  int64_t bytes() const { return end_; }

 private:
  int64_t end_ = 0;
};

/// Where the steps between of one launch lie.
struct Scratch {
  int64_t column_filters, row_filters, narrow;
};

/// A job without its pointers.
InputJob job_of(const PairPictures& pair, const InputPlanes& planes) {
  InputJob job{};
  job.height = pair.height;
  job.width = pair.width;
  job.column_step = filter_step(pair.width, planes.width);
  job.row_step = filter_step(pair.height, planes.height);
  return job;
}

Scratch add_scratch(const InputJob& job, const InputPlanes& planes, Layout& layout) {
  constexpr auto integer = static_cast<int64_t>(sizeof(std::int32_t));
  return {layout.add(integer * job.column_step * planes.width),
          layout.add(integer * job.row_step * planes.height),
          layout.add(int64_t{4} * job.height * planes.width)};
}

/// `pictures` lie at `bytes`; moves it behind them.
void launch_input_part(const PairPictures* pictures, int count, const unsigned char*& bytes,
                       const InputPlanes& planes, at::Device device) {
  InputLaunch launch{};
  launch.count = count;
  launch.planes = planes;
  Layout layout;
  Scratch scratch[kPicturesPerLaunch];
  for (int i = 0; i < count; ++i) {
    InputJob& job = launch.jobs[i] = job_of(pictures[i], planes);
    job.rgb = bytes;
    job.depth = bytes + 3 * pixels_of(pictures[i]);
    bytes += 4 * pixels_of(pictures[i]);
    scratch[i] = add_scratch(job, planes, layout);
  }
  // Freed at the end of this function for what is queued later on the same stream.
  const at::Tensor memory = device_bytes(layout.bytes(), device);
  auto* const base = memory.mutable_data_ptr<unsigned char>();
  for (int i = 0; i < count; ++i) {
    InputJob& job = launch.jobs[i];
    job.column_filters = reinterpret_cast<std::int32_t*>(base + scratch[i].column_filters);
    job.row_filters = reinterpret_cast<std::int32_t*>(base + scratch[i].row_filters);
    job.narrow = base + scratch[i].narrow;
  }
  C10_CUDA_CHECK(launch_input(launch, stream_of(device)));
}

/// The map that is wanted, where the device gives what the host would.
std::optional<LevelMap> map_to_make(const PairPictures& pair, int map_height, int map_width) {
  if (!pair.map || is_halved(map_height, map_width, pair.map->height, pair.map->width)) {
    return std::nullopt;
  }
  return pair.map;
}

/// Finds a place for each map; returns the bytes that all take.
int64_t place_levels(const BatchView& batch, int map_height, int map_width, DeviceLevels& levels) {
  int64_t total = batch.count;
  for (int i = 0; i < batch.count; ++i) {
    const auto map = map_to_make(batch.pictures[i], map_height, map_width);
    levels.begin.push_back(map ? total : -1);
    levels.all_made &= map.has_value();
    if (map) total += static_cast<int64_t>(map->height) * map->width;
  }
  return total;
}

/// A job without its pointers; what is not to be made has no levels.
LevelJob job_of(const PairPictures& pair, int map_height, int map_width) {
  LevelJob job{};
  const auto map = map_to_make(pair, map_height, map_width);
  if (!map) return job;
  job.height = map->height;
  job.width = map->width;
  job.row_scale = between_scale(map_height, map->height);
  job.column_scale = between_scale(map_width, map->width);
  job.offset = level_offset(map->rounding);
  return job;
}

/// The maps from number `first` on; `bytes` holds what DeviceLevels says.
void launch_levels_part(const at::Tensor& maps, const BatchView& batch, int first,
                        const DeviceLevels& levels) {
  auto* const bytes = levels.bytes.mutable_data_ptr<unsigned char>();
  LevelLaunch launch{};
  launch.count = std::min(kPicturesPerLaunch, batch.count - first);
  launch.map_height = static_cast<int>(maps.size(2));
  launch.map_width = static_cast<int>(maps.size(3));
  launch.not_finite = bytes + first;
  const int64_t plane = maps.size(2) * maps.size(3);
  const auto begins = levels.begin.begin() + first;
  for (int i = 0; i < launch.count; ++i) {
    LevelJob& job = launch.jobs[i];
    job = job_of(batch.pictures[first + i], launch.map_height, launch.map_width);
    job.map = maps.const_data_ptr<float>() + plane * (first + i);
    const int64_t begin = begins[i];
    if (begin >= 0) job.levels = bytes + begin;
  }
  C10_CUDA_CHECK(launch_levels(launch, stream_of(maps.device())));
}

}  // namespace

at::Tensor upload_pictures(const BatchView& batch, at::Device device) {
  const c10::cuda::CUDAGuard guard(device);
  int64_t total = 0;
  for (int i = 0; i < batch.count; ++i) total += 4 * pixels_of(batch.pictures[i]);
  at::Tensor bytes = device_bytes(total, device);
  auto* to = bytes.mutable_data_ptr<unsigned char>();
  for (int i = 0; i < batch.count; ++i) {
    const auto size = static_cast<std::size_t>(4 * pixels_of(batch.pictures[i]));
    C10_CUDA_CHECK(cudaMemcpyAsync(to, batch.pictures[i].bytes, size, cudaMemcpyHostToDevice,
                                   stream_of(device)));
    to += size;
  }
  return bytes;
}

NetworkInput make_input(const at::Tensor& bytes, const BatchView& batch) {
  const at::Device device = bytes.device();
  const c10::cuda::CUDAGuard guard(device);
  const auto floats = at::TensorOptions(device).dtype(at::kFloat);
  NetworkInput input{at::empty({batch.count, 3, batch.height, batch.width}, floats),
                     at::empty({batch.count, 1, batch.height, batch.width}, floats)};
  const int64_t plane = static_cast<int64_t>(batch.height) * batch.width;
  const unsigned char* from = bytes.const_data_ptr<unsigned char>();
  for (int first = 0; first < batch.count; first += kPicturesPerLaunch) {
    const InputPlanes planes{input.rgb.mutable_data_ptr<float>() + 3 * plane * first,
                             input.depth.mutable_data_ptr<float>() + plane * first, batch.height,
                             batch.width};
    launch_input_part(batch.pictures + first, std::min(kPicturesPerLaunch, batch.count - first),
                      from, planes, device);
  }
  return input;
}

DeviceLevels make_levels(const at::Tensor& saliency, const BatchView& batch) {
  const at::Device device = saliency.device();
  const c10::cuda::CUDAGuard guard(device);
  const at::Tensor maps = saliency.contiguous();
  DeviceLevels levels;
  const int64_t total =
      place_levels(batch, static_cast<int>(maps.size(2)), static_cast<int>(maps.size(3)), levels);
  levels.bytes = device_bytes(total, device);
  levels.bytes.narrow(0, 0, batch.count).zero_();
  for (int first = 0; first < batch.count; first += kPicturesPerLaunch) {
    launch_levels_part(maps, batch, first, levels);
  }
  return levels;
}

Maps fetch_maps(const at::Tensor& saliency, const DeviceLevels& levels) {
  const at::Tensor bytes = page_locked_like(levels.bytes);
  bytes.copy_(levels.bytes, /*non_blocking=*/true);
  Maps maps = levels.all_made ? Maps{nullptr,
                                     static_cast<int>(saliency.size(0)),
                                     static_cast<int>(saliency.size(2)),
                                     static_cast<int>(saliency.size(3)),
                                     {}}
                              : fetch(saliency);
  if (saliency.size(0) < kLeastMapsToSleepFor) {
    wait_for(levels.bytes.device());
  } else {
    sleep_until_done(levels.bytes.device());
  }
  const auto* const host = bytes.const_data_ptr<unsigned char>();
  const std::shared_ptr<const at::Tensor> owner = std::make_shared<at::Tensor>(bytes);
  std::vector<FinishedMap> finished(levels.begin.size());
  for (std::size_t i = 0; i < finished.size(); ++i) {
    finished[i].finite = host[i] == 0;
    if (levels.begin[i] < 0) continue;
    finished[i].levels = std::shared_ptr<const unsigned char[]>(owner, host + levels.begin[i]);
  }
  maps.finished = std::make_shared<const std::vector<FinishedMap>>(std::move(finished));
  return maps;
}

}  // namespace hdfnet::app::cuda
