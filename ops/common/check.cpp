#include "common/check.h"

#include <ATen/core/Formatting.h>

#include <string>

namespace hdfnet::ops {
namespace {

template <typename Int>
c10::ArrayRef<Int> sizes_of(const at::Tensor& tensor);
template <>
at::IntArrayRef sizes_of<int64_t>(const at::Tensor& tensor) {
  return tensor.sizes();
}
template <>
c10::SymIntArrayRef sizes_of<c10::SymInt>(const at::Tensor& tensor) {
  return tensor.sym_sizes();
}

void check_rank(const char* op, const char* name, const at::Tensor& tensor, int64_t rank,
                const char* axes) {
  TORCH_CHECK(tensor.dim() == rank, op, ": expected ", name, " of ", rank, " dimensions ", axes,
              ", but got ", tensor.dim(), " dimensions");
}

void check_match(const char* op, const char* name, const at::Tensor& tensor, const at::Tensor& x) {
  TORCH_CHECK(tensor.scalar_type() == x.scalar_type(), op, ": expected ", name, " of type ",
              x.scalar_type(), " as x has, but got ", tensor.scalar_type());
  TORCH_CHECK(tensor.device() == x.device(), op, ": expected ", name, " on ", x.device(),
              " where x is, but got ", tensor.device());
}

template <typename Int>
void check_size(const char* op, const char* name, int64_t axis, const Int& actual,
                const Int& expected, const char* meaning) {
  TORCH_CHECK(actual == expected, op, ": expected size ", expected, " of ", name, " at dimension ",
              axis, " (", meaning, "), but got ", actual);
}

void check_type(const char* op, const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  TORCH_CHECK(
      type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16, op,
      ": expected x of type Float, Double, Half or BFloat16, but got ", type);
}

void check_dilations(const char* op, at::IntArrayRef dilations) {
  TORCH_CHECK(!dilations.empty(), op, ": expected at least one dilation, but got none");
  for (const int64_t dilation : dilations) {
    TORCH_CHECK(dilation >= 1, op, ": expected dilations >= 1, but got ", dilation, " in ",
                dilations);
  }
}

// K of K*K taps; `taps` alone cannot be symbolic: it fixes the code that runs.
int64_t kernel_size_of(const char* op, const char* name, int64_t taps) {
  int64_t k = 1;
  while (k * k < taps) k += 2;
  TORCH_CHECK(k * k == taps, op, ": expected the taps of ", name,
              " to be the square of an odd number (1, 9, 25, 49, ...), but got ", taps);
  return k;
}

int64_t concrete(int64_t value) {
  return value;
}
int64_t concrete(const c10::SymInt& value) {
  return value.guard_int(__FILE__, __LINE__);
}

// The reach (K/2 * dilation) is added to coordinates, so it has to stay far from overflow.
void check_reach(const char* op, int64_t kernel_size, at::IntArrayRef dilations) {
  constexpr int64_t kLargestReach = int64_t{1} << 30;
  for (const int64_t dilation : dilations) {
    TORCH_CHECK(dilation <= kLargestReach / kernel_size, op,
                ": expected dilations <= ", kLargestReach / kernel_size, " at kernel size ",
                kernel_size, ", but got ", dilation);
  }
}

}  // namespace

template <typename Int>
FilterSizes<Int> check_dynamic_filter(const char* op, const at::Tensor& x,
                                      const at::Tensor& kernels, at::IntArrayRef dilations) {
  check_rank(op, "x", x, 4, "(N, C, H, W)");
  check_rank(op, "kernels", kernels, 6, "(N, B, C, K*K, H, W)");
  check_type(op, x);
  check_match(op, "kernels", kernels, x);
  check_dilations(op, dilations);
  const auto xs = sizes_of<Int>(x);
  const auto ks = sizes_of<Int>(kernels);
  const Int branches(static_cast<int64_t>(dilations.size()));
  check_size(op, "kernels", 0, ks[0], xs[0], "the batch of x");
  check_size(op, "kernels", 1, ks[1], branches, "one branch for each dilation");
  check_size(op, "kernels", 2, ks[2], xs[1], "the channels of x");
  check_size(op, "kernels", 4, ks[4], xs[2], "the height of x");
  check_size(op, "kernels", 5, ks[5], xs[3], "the width of x");
  const int64_t kernel_size = kernel_size_of(op, "kernels (dimension 3)", concrete(ks[3]));
  check_reach(op, kernel_size, dilations);
  return {xs[0], branches, xs[1], xs[2], xs[3], kernel_size};
}

template <typename Int>
GeneratedFilterSizes<Int> check_generated_dynamic_filter(const char* op, const at::Tensor& x,
                                                         const at::Tensor& y,
                                                         const at::Tensor& weight,
                                                         const std::optional<at::Tensor>& bias,
                                                         at::IntArrayRef dilations) {
  check_rank(op, "x", x, 4, "(N, C, H, W)");
  check_rank(op, "y", y, 5, "(N, G, Cy, H, W)");
  check_rank(op, "weight", weight, 3, "(B, C*K*K, Cy)");
  check_type(op, x);
  check_match(op, "y", y, x);
  check_match(op, "weight", weight, x);
  check_dilations(op, dilations);
  const auto xs = sizes_of<Int>(x);
  const auto ys = sizes_of<Int>(y);
  const auto ws = sizes_of<Int>(weight);
  const int64_t branches = static_cast<int64_t>(dilations.size());
  check_size(op, "y", 0, ys[0], xs[0], "the batch of x");
  check_size(op, "y", 3, ys[3], xs[2], "the height of x");
  check_size(op, "y", 4, ys[4], xs[3], "the width of x");
  const int64_t groups = concrete(ys[1]);
  TORCH_CHECK(groups == 1 || groups == branches, op, ": expected size 1 or ", branches,
              " (one group for each dilation) of y at dimension 1, but got ", groups);
  check_size(op, "weight", 0, ws[0], Int(branches), "one branch for each dilation");
  check_size(op, "weight", 2, ws[2], ys[2], "the channels of y");
  const int64_t channels = concrete(xs[1]);
  const int64_t rows = concrete(ws[1]);
  TORCH_CHECK(channels >= 1, op, ": expected at least one channel of x, but got ", channels);
  TORCH_CHECK(rows % channels == 0, op, ": expected a multiple of the ", channels,
              " channels of x for the size of weight at dimension 1 (C*K*K), but got ", rows);
  const int64_t kernel_size = kernel_size_of(op, "weight (dimension 1, over C)", rows / channels);
  check_reach(op, kernel_size, dilations);
  if (bias.has_value() && bias->defined()) {
    check_rank(op, "bias", *bias, 2, "(B, C*K*K)");
    check_match(op, "bias", *bias, x);
    const auto bs = sizes_of<Int>(*bias);
    check_size(op, "bias", 0, bs[0], Int(branches), "one branch for each dilation");
    check_size(op, "bias", 1, bs[1], ws[1], "the rows of weight");
  }
  return {{xs[0], Int(branches), xs[1], xs[2], xs[3], kernel_size}, Int(groups), ys[2]};
}

template <typename Int>
void check_filter_gradient(const char* op, const at::Tensor& grad, const at::Tensor& x,
                           const FilterSizes<Int>& sizes, bool concat_input) {
  check_rank(op, "grad", grad, 4, "(N, (B + concat_input)*C, H, W)");
  check_match(op, "grad", grad, x);
  const auto gs = sizes_of<Int>(grad);
  check_size(op, "grad", 0, gs[0], sizes.batch, "the batch of x");
  check_size(op, "grad", 1, gs[1], Int((sizes.branches + (concat_input ? 1 : 0)) * sizes.channels),
             "the channels of the result");
  check_size(op, "grad", 2, gs[2], sizes.height, "the height of x");
  check_size(op, "grad", 3, gs[3], sizes.width, "the width of x");
}

#define HDFNET_INSTANTIATE_CHECKS(Int)                                                        \
  template FilterSizes<Int> check_dynamic_filter<Int>(const char*, const at::Tensor&,         \
                                                      const at::Tensor&, at::IntArrayRef);    \
  template GeneratedFilterSizes<Int> check_generated_dynamic_filter<Int>(                     \
      const char*, const at::Tensor&, const at::Tensor&, const at::Tensor&,                   \
      const std::optional<at::Tensor>&, at::IntArrayRef);                                     \
  template void check_filter_gradient<Int>(const char*, const at::Tensor&, const at::Tensor&, \
                                           const FilterSizes<Int>&, bool);
HDFNET_INSTANTIATE_CHECKS(int64_t)
HDFNET_INSTANTIATE_CHECKS(c10::SymInt)
#undef HDFNET_INSTANTIATE_CHECKS

}  // namespace hdfnet::ops
