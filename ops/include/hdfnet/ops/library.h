#pragma once

namespace hdfnet::ops {

/// Makes sure that the operators of libhdfnet_ops are registered with the dispatcher as
/// torch.ops.hdfnet.*. Loading the library registers them; calling this once from a program keeps
/// the linker (static archives, --as-needed) from dropping the library as unused. Cheap,
/// thread-safe.
void register_ops();

/// Whether the operators were compiled with their CUDA kernels.
bool built_with_cuda();

}  // namespace hdfnet::ops
