#include "run/batch.h"

#include <algorithm>
#include <mutex>

namespace hdfnet::app {

void Slot::fail(const std::string& why) {
  result.status = Status::failed;
  result.error = why;
  loaded = false;
  computed = false;
}

void Batch::open(std::size_t first_job, int count) {
  first = first_job;
  size = count;
  slots.assign(static_cast<std::size_t>(count), Slot{});
  maps.clear();
  failures.clear();
  given = loading = saving = 0;
  bytes = 0;
  if (staging_.size() < slots.size()) staging_.resize(slots.size());
  holds_pictures_ = false;
  pictures_.clear();
}

bool Batch::failed_in(int network) const {
  return std::any_of(failures.begin(), failures.end(), [network](const NetworkFailure& failure) {
    return failure.network == network;
  });
}

Planes Batch::input(int index, int height, int width, bool pictures, const Allocate& allocate) {
  const std::lock_guard lock(memory_mutex_);
  holds_pictures_ = pictures;
  if (!pictures) return planes(index, height, width, allocate);
  Staging& staging = staging_[static_cast<std::size_t>(index)];
  staging.use(allocate);
  return {nullptr, nullptr, height, width, &staging};
}

std::size_t Batch::bytes_of(int index, int height, int width) const {
  const std::lock_guard lock(memory_mutex_);
  const std::size_t planes = std::size_t{4} * height * width * sizeof(float);
  const auto slot = static_cast<std::size_t>(index);
  return size_of(slots[slot].pair) + (holds_pictures_ ? staging_[slot].bytes() : planes);
}

Planes Batch::planes(int index, int height, int width, const Allocate& allocate) {
  const std::size_t plane = static_cast<std::size_t>(height) * width;
  if (const auto count = static_cast<std::size_t>(size); capacity_ < count * plane) {
    rgb_ = allocate(3 * count * plane);
    depth_ = allocate(count * plane);
    capacity_ = count * plane;
  }
  const auto offset = static_cast<std::size_t>(index) * plane;
  return {rgb_.get() + 3 * offset, depth_.get() + offset, height, width};
}

void Batch::close_gaps(int height, int width) {
  const std::size_t plane = static_cast<std::size_t>(height) * width;
  std::size_t position = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].loaded) continue;
    if (holds_pictures_) {
      pictures_.push_back(staging_[i].pictures());
    } else if (position != i) {
      std::copy_n(rgb_.get() + 3 * plane * i, 3 * plane, rgb_.get() + 3 * plane * position);
      std::copy_n(depth_.get() + plane * i, plane, depth_.get() + plane * position);
    }
    slots[i].position = static_cast<int>(position++);
  }
}

BatchView Batch::view(int height, int width) const {
  const auto loaded =
      std::count_if(slots.begin(), slots.end(), [](const Slot& slot) { return slot.loaded; });
  const int count = static_cast<int>(loaded);
  if (holds_pictures_) return {nullptr, nullptr, count, height, width, pictures_.data()};
  return {rgb_.get(), depth_.get(), count, height, width};
}

MapView Batch::map_of(int index) const {
  const RobustMap& map = maps[slots[index].position];
  if (map.levels() != nullptr) return {{}, 0, 0, map.levels()};
  return {map.values(), map.maps.height, map.maps.width};
}

}  // namespace hdfnet::app
