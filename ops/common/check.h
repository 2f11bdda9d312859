#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

namespace hdfnet::ops {

/// Sizes of a dynamic_filter call; Int is int64_t, or c10::SymInt while a compiler traces shapes.
template <typename Int>
struct FilterSizes {
  Int batch;
  Int branches;
  Int channels;
  Int height;
  Int width;
  int64_t kernel_size;
};

/// Sizes of a generated_dynamic_filter call.
template <typename Int>
struct GeneratedFilterSizes {
  FilterSizes<Int> filter;
  Int groups;           // 1: one y for all branches; else one for each
  Int source_channels;  // channels of y
};

/// Both raise c10::Error, naming `op`, the expected and the actual value, unless the arguments fit.
template <typename Int>
FilterSizes<Int> check_dynamic_filter(const char* op, const at::Tensor& x,
                                      const at::Tensor& kernels, at::IntArrayRef dilations);
template <typename Int>
GeneratedFilterSizes<Int> check_generated_dynamic_filter(const char* op, const at::Tensor& x,
                                                         const at::Tensor& y,
                                                         const at::Tensor& weight,
                                                         const std::optional<at::Tensor>& bias,
                                                         at::IntArrayRef dilations);

/// Raises unless `grad` has the shape, type and device of the result of a filter of `sizes` on `x`.
template <typename Int>
void check_filter_gradient(const char* op, const at::Tensor& grad, const at::Tensor& x,
                           const FilterSizes<Int>& sizes, bool concat_input);

}  // namespace hdfnet::ops
