#include "common/output.h"

#include <ATen/ops/empty.h>

namespace hdfnet::ops {

at::Tensor empty_filter_result(const at::Tensor& x, const FilterSizes<int64_t>& sizes,
                               bool concat_input) {
  const int64_t channels = (sizes.branches + (concat_input ? 1 : 0)) * sizes.channels;
  return at::empty({sizes.batch, channels, sizes.height, sizes.width},
                   x.options().memory_format(x.suggest_memory_format()));
}

}  // namespace hdfnet::ops
