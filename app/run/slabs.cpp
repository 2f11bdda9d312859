#include "run/slabs.h"

#include <algorithm>
#include <bit>

namespace hdfnet::app {

std::shared_ptr<float[]> Slabs::piece(std::size_t count) {
  if (count > largest_) return allocate_(count);
  constexpr std::size_t unit = 64;
  const std::size_t whole = (std::max<std::size_t>(count, 1) + unit - 1) / unit * unit;
  const std::lock_guard lock(mutex_);
  std::shared_ptr<float[]> slab = slab_.lock();
  if (slab == nullptr || used_ + whole > size_) {
    const std::size_t size = std::min(largest_, std::max(std::bit_ceil(whole), 2 * size_));
    slab = allocate_(std::max(size, whole));
    slab_ = slab;
    size_ = std::max(size, whole);
    used_ = 0;
  }
  float* const begin = slab.get() + used_;
  used_ += whole;
  return {std::move(slab), begin};
}

}  // namespace hdfnet::app
