#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

namespace hdfnet::test {

/// Skips the running test, visibly, unless `device` can be used here.
#define HDFNET_REQUIRE_DEVICE(device)                                 \
  if (device == at::kCUDA && !at::hasCUDA()) {                        \
    GTEST_SKIP() << "needs a CUDA device, and none can be used here"; \
  }

/// Memory layouts that inputs come in.
enum class Layout {
  kContiguous,
  kChannelsLast,  // for taps: what a channels_last convolution's result looks like when viewed
  kSliced,        // a part of a larger tensor: storage offset and gaps
  kExpanded,      // a batch of one, expanded (stride 0)
  kReversed,      // axes stored in the opposite order
};
inline constexpr Layout kLayouts[] = {Layout::kContiguous, Layout::kChannelsLast, Layout::kSliced,
                                      Layout::kExpanded, Layout::kReversed};
const char* name(Layout layout);

/// Random normal values of this shape, (N, C, H, W), in this layout.
at::Tensor random_map(at::IntArrayRef shape, const at::TensorOptions& options, Layout layout);
/// Random normal taps of shape (N, B, C, K*K, H, W).
at::Tensor random_taps(at::IntArrayRef shape, const at::TensorOptions& options, Layout layout);

/// dynamic_filter as people write it: padding and unfold, product, sum; in the arguments' own type.
at::Tensor filter_by_unfold(const at::Tensor& x, const at::Tensor& kernels,
                            at::IntArrayRef dilations, bool concat_input);

/// How far `value` is from `exact` (float64): the largest and the mean absolute difference.
struct Error {
  double largest;
  double mean;
};
Error error_of(const at::Tensor& value, const at::Tensor& exact);

/// The acceptance rule: at most twice what PyTorch's own result `peer` loses in the same type.
/// Counts `value`'s last-place rounding (one half of an eps of the largest value) as allowed.
testing::AssertionResult as_good_as(const at::Tensor& value, const at::Tensor& peer,
                                    const at::Tensor& exact);

/// HDFNET_TEST_SCALE, 1 by default.
int64_t test_scale();

/// One random call of dynamic_filter.
struct FilterCase {
  int64_t batch, channels, height, width, kernel_size;
  std::vector<int64_t> dilations;
  bool concat_input;
  Layout x_layout, kernel_layout;

  std::string describe() const;
  at::Tensor make_x(const at::TensorOptions& options) const;
  at::Tensor make_kernels(const at::TensorOptions& options) const;
};
FilterCase random_case(std::mt19937& random);

/// One call of generated_dynamic_filter.
struct GeneratedCase {
  int64_t batch, channels, source_channels, groups, height, width, kernel_size;
  std::vector<int64_t> dilations;
  bool concat_input, has_bias;
  Layout x_layout, y_layout;

  std::string describe() const;
  int64_t branches() const { return static_cast<int64_t>(dilations.size()); }
  int64_t rows() const { return channels * kernel_size * kernel_size; }
  int64_t result_channels() const { return (branches() + (concat_input ? 1 : 0)) * channels; }
};
struct GeneratedInputs {
  at::Tensor x, y, weight;
  std::optional<at::Tensor> bias;
};
/// Random normal x, y and bias, and weights so that taps are of the order of one, as a generator's.
GeneratedInputs make_inputs(const GeneratedCase& c, const at::TensorOptions& options);

inline constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};

}  // namespace hdfnet::test
