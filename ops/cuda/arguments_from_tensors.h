#pragma once

#include <ATen/core/Tensor.h>

#include "common/check.h"
#include "cuda/filter_arguments.h"

namespace hdfnet::ops::cuda {

Type type_of(const at::Tensor& tensor);

/// The launch that computes branches [first, first + kMaxBranches) of a call.
FilterArguments filter_arguments(const at::Tensor& x, const at::Tensor& kernels,
                                 const at::Tensor& result, const FilterSizes<int64_t>& sizes,
                                 at::IntArrayRef dilations, bool concat_input, int64_t first);

}  // namespace hdfnet::ops::cuda
