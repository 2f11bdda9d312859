#pragma once

#include "cuda/filter_arguments.h"

namespace hdfnet::ops::cuda {

enum class FilterKernel { kDirect, kRing, kPlanes, kDirectPixels, kPixels, kStrided };

/// The fastest kernel that can run the call; every call has one. `why` (may be null) gets the names
/// of those before it in the order above, and what each of them says.
FilterKernel choose_filter(const FilterArguments& arguments, std::string* why);

cudaError_t launch_filter(FilterKernel kernel, const FilterArguments& arguments,
                          cudaStream_t stream);

}  // namespace hdfnet::ops::cuda
