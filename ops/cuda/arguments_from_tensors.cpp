#include "cuda/arguments_from_tensors.h"

#include <ATen/Context.h>

#include <algorithm>

namespace hdfnet::ops::cuda {
namespace {

// LibTorch throws where the host has set TF32 through switches that its older question cannot put
// into one answer; the products are exact then.
bool tf32_is_allowed() {
  try {
    return at::globalContext().allowTF32CuBLAS();
  } catch (const c10::Error&) {
    return false;
  }
}

}  // namespace

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
  a.out = const_cast<void*>(result.const_data_ptr());
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

GeneratedFilterArguments generated_filter_arguments(const at::Tensor& x, const at::Tensor& y,
                                                    const at::Tensor& weight,
                                                    const std::optional<at::Tensor>& bias,
                                                    const at::Tensor& result,
                                                    const GeneratedFilterSizes<int64_t>& sizes,
                                                    at::IntArrayRef dilations, bool concat_input,
                                                    int64_t first) {
  GeneratedFilterArguments a{};
  const auto element = static_cast<int64_t>(x.element_size());
  const auto from_branch = [&](const at::Tensor& tensor, int64_t axis) {
    return static_cast<const char*>(tensor.const_data_ptr()) +
           first * tensor.stride(axis) * element;
  };
  a.x = x.const_data_ptr();
  a.y = sizes.groups == 1 ? y.const_data_ptr() : from_branch(y, 1);
  a.weight = from_branch(weight, 0);
  if (bias.has_value() && bias->defined()) {
    a.bias = from_branch(*bias, 0);
    std::copy_n(bias->strides().begin(), 2, a.bias_stride);
  }
  a.out = result.mutable_data_ptr();
  a.type = type_of(x);
  a.allow_tf32 = a.type == Type::kFloat && tf32_is_allowed();
  a.batch = sizes.filter.batch;
  a.branches = std::min<int64_t>(sizes.filter.branches - first, kMaxBranches);
  a.groups = sizes.groups;
  a.channels = sizes.filter.channels;
  a.source_channels = sizes.source_channels;
  a.height = sizes.filter.height;
  a.width = sizes.filter.width;
  a.kernel_size = static_cast<int>(sizes.filter.kernel_size);
  a.concat_input = concat_input && first == 0;
  a.output_channel = (first + (concat_input ? 1 : 0)) * sizes.filter.channels;
  std::copy_n(x.strides().begin(), 4, a.x_stride);
  std::copy_n(y.strides().begin(), 5, a.y_stride);
  std::copy_n(weight.strides().begin(), 3, a.weight_stride);
  std::copy_n(result.strides().begin(), 4, a.out_stride);
  std::copy_n(dilations.begin() + first, a.branches, a.dilation);
  return a;
}

}  // namespace hdfnet::ops::cuda
