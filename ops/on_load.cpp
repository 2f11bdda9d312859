// Registers the operators when libhdfnet_ops.so is loaded. Of the static library the linker leaves
// this file out, since nothing refers to it.
#include <cstdio>
#include <exception>

#include "hdfnet/register_ops.h"

namespace {

// An exception cannot leave dlopen, so what is wrong is said here; register_ops() throws it again.
bool register_on_load() noexcept {
  try {
    hdfnet::register_ops();
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return false;
  }
}

[[maybe_unused]] const bool registered = register_on_load();

}  // namespace
