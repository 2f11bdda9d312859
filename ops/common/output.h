#pragma once

#include <ATen/core/Tensor.h>

#include "common/check.h"

namespace hdfnet::ops {

/// The result of a filter of `sizes` on `x`, not yet written: the type, device and memory format of
/// x.
at::Tensor empty_filter_result(const at::Tensor& x, const FilterSizes<int64_t>& sizes,
                               bool concat_input);

}  // namespace hdfnet::ops
