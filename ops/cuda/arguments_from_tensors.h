#pragma once

#include <ATen/core/Tensor.h>

#include "common/check.h"
#include "cuda/filter_arguments.h"
#include "cuda/generated_filter_arguments.h"

namespace hdfnet::ops::cuda {

Type type_of(const at::Tensor& tensor);

/// The launch that computes branches [first, first + kMaxBranches) of a call. `result` may also be
/// the result's gradient: only its strides and address are taken.
FilterArguments filter_arguments(const at::Tensor& x, const at::Tensor& kernels,
                                 const at::Tensor& result, const FilterSizes<int64_t>& sizes,
                                 at::IntArrayRef dilations, bool concat_input, int64_t first);

GeneratedFilterArguments generated_filter_arguments(const at::Tensor& x, const at::Tensor& y,
                                                    const at::Tensor& weight,
                                                    const std::optional<at::Tensor>& bias,
                                                    const at::Tensor& result,
                                                    const GeneratedFilterSizes<int64_t>& sizes,
                                                    at::IntArrayRef dilations, bool concat_input,
                                                    int64_t first);

}  // namespace hdfnet::ops::cuda
