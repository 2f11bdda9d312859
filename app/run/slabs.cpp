#include "run/slabs.h"

#include <algorithm>
#include <bit>
#include <exception>

namespace hdfnet::app {

std::shared_ptr<float[]> Slabs::new_slab(std::size_t size, std::size_t least) {
  size = std::max(size, least);
  std::shared_ptr<float[]> slab;
  try {
    slab = allocate_(size);
  } catch (const std::exception&) {
    if (size == least) throw;
    size = least;
    slab = allocate_(size);
  }
  slab_ = slab;
  size_ = size;
  used_ = 0;
  return slab;
}

std::shared_ptr<float[]> Slabs::piece(std::size_t count) {
  if (count > largest_) return allocate_(count);
  constexpr std::size_t unit = 64;
  const std::size_t whole = (std::max<std::size_t>(count, 1) + unit - 1) / unit * unit;
  const std::lock_guard lock(mutex_);
  std::shared_ptr<float[]> slab = slab_.lock();
  if (slab == nullptr || used_ + whole > size_) {
    const std::size_t grown = slab == nullptr ? size_ : 2 * size_;
    slab = new_slab(std::min(largest_, std::max(std::bit_ceil(whole), grown)), whole);
  }
  float* const begin = slab.get() + used_;
  used_ += whole;
  return {std::move(slab), begin};
}

}  // namespace hdfnet::app
