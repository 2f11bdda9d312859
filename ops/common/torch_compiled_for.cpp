// In a file of its own, so that a test can put another version in its place.
#include <torch/version.h>

#include "common/torch_version.h"

namespace hdfnet::ops {

std::string torch_compiled_for() {
  return TORCH_VERSION;
}

}  // namespace hdfnet::ops
