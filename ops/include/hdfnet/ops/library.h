#pragma once

#include "hdfnet/register_ops.h"

namespace hdfnet::ops {

using hdfnet::register_ops;

/// Whether the operators were compiled with their CUDA kernels.
bool built_with_cuda();

}  // namespace hdfnet::ops
