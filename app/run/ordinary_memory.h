#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

namespace hdfnet::app {

/// Uninitialised memory for `count` floats straight from the system, to which it goes back with
/// the last owner, whatever the allocator keeps; in huge pages if there are any and they can be
/// filled. Throws std::bad_alloc.
std::shared_ptr<float[]> ordinary_memory(std::size_t count);

/// Bytes that this process can still take without swapping, in the machine and in its control
/// groups (of Slurm, of a container); 0 when the system does not say. `root` is for tests.
std::size_t available_memory(const std::filesystem::path& root = "/");

}  // namespace hdfnet::app
