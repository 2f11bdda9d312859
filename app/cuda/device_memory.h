#pragma once

#include <c10/core/Device.h>

#include <cstddef>

namespace hdfnet::app::cuda {

/// Bytes that this process can still take on that device, what LibTorch holds unused included.
/// Throws c10::Error.
std::size_t free_memory(c10::Device device);

}  // namespace hdfnet::app::cuda
