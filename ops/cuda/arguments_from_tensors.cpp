#include "cuda/arguments_from_tensors.h"

#include <algorithm>

namespace hdfnet::ops::cuda {

Type type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return Type::kFloat;
    case at::kDouble:
      return Type::kDouble;
    case at::kHalf:
      return Type::kHalf;
    default:
      return Type::kBFloat16;
  }
}

FilterArguments filter_arguments(const at::Tensor& x, const at::Tensor& kernels,
                                 const at::Tensor& result, const FilterSizes<int64_t>& sizes,
                                 at::IntArrayRef dilations, bool concat_input, int64_t first) {
  FilterArguments a{};
  const auto element = static_cast<int64_t>(x.element_size());
  a.x = x.const_data_ptr();
  a.kernels =
      static_cast<const char*>(kernels.const_data_ptr()) + first * kernels.stride(1) * element;
  a.out = result.mutable_data_ptr();
  a.type = type_of(x);
  a.batch = sizes.batch;
  a.branches = std::min<int64_t>(sizes.branches - first, kMaxBranches);
  a.channels = sizes.channels;
  a.height = sizes.height;
  a.width = sizes.width;
  a.kernel_size = static_cast<int>(sizes.kernel_size);
  a.concat_input = concat_input && first == 0;
  a.output_channel = (first + (concat_input ? 1 : 0)) * sizes.channels;
  std::copy_n(x.strides().begin(), 4, a.x_stride);
  std::copy_n(kernels.strides().begin(), 6, a.kernel_stride);
  std::copy_n(result.strides().begin(), 4, a.out_stride);
  std::copy_n(dilations.begin() + first, a.branches, a.dilation);
  return a;
}

}  // namespace hdfnet::ops::cuda
