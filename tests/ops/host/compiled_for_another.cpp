// Takes the place of ops/common/torch_compiled_for.cpp: a library for a LibTorch that does not
// exist.
#include "common/torch_version.h"

namespace hdfnet::ops {

std::string torch_compiled_for() {
  return "99.1.0";
}

}  // namespace hdfnet::ops
