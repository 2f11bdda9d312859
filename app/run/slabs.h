#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "run/staging.h"

namespace hdfnet::app {

/// Memory that is slow to ask for, in small pieces: page-locked memory, say, for which each request
/// waits for the device's driver. It is asked for in slabs, each as large as all before together,
/// up to a limit, as long as pieces of the last one are in use; what cannot be had is asked for as
/// small as it must be. A slab goes back with the last of its pieces. Thread-safe.
class Slabs {
 public:
  /// `allocate` gives a slab; `largest` counts floats.
  Slabs(Allocate allocate, std::size_t largest)
      : allocate_(std::move(allocate)), largest_(largest) {}

  /// `count` floats, aligned as the slab and to 256 bytes in it; a slab of their own if they are
  /// more than the largest. Throws what `allocate` throws.
  std::shared_ptr<float[]> piece(std::size_t count);

 private:
  std::shared_ptr<float[]> new_slab(std::size_t size, std::size_t least);

  const Allocate allocate_;
  const std::size_t largest_;

  std::mutex mutex_;
  std::weak_ptr<float[]> slab_;  ///< that pieces are cut from
  std::size_t size_ = 0;         ///< of it, or of the last one
  std::size_t used_ = 0;
};

}  // namespace hdfnet::app
