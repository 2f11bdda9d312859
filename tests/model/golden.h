#pragma once

// The rule that makes weights and inputs, and the values that the original network gives on them
// (tests/data/golden/README.md).

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hdfnet/architecture.h"
#include "hdfnet/parameters.h"

namespace hdfnet::golden {

/// n values in [-1, 1) that depend on the name alone, as a float64 tensor.
at::Tensor uniform(const std::string& name, int64_t count);

/// A parameter or buffer of that name and shape, float32.
at::Tensor parameter(const std::string& name, const std::vector<int64_t>& shape);

/// Every parameter's shape of a variant ("vgg16", "vgg19", "res50").
std::map<std::string, std::vector<int64_t>> shapes(const std::string& variant);

/// All parameters of a variant.
Parameters parameters(const std::string& variant);

/// rgb (N,3,H,W) and depth (N,1,H,W) of an input set ("even", "odd", "full").
std::pair<at::Tensor, at::Tensor> inputs(const std::string& tag);

/// A stored array: tests/data/golden/NAME.npy (float32).
at::Tensor array(const std::string& name);

struct Moments {
  double mean;
  double deviation;
};

/// Each module's mean and deviation, by name.
std::map<std::string, Moments> modules(const std::string& variant, const std::string& tag);

/// A DDPM on its own: parameters without prefix, for tag "a" or "b".
Parameters ddpm_parameters();

/// What the original loses in a precision (largest, mean absolute difference from float64):
/// column is "cpu", "fp32", "tf32", "fp16" or "bf16".
struct Loss {
  double largest;
  double mean;
};
Loss original_loss(const std::string& variant, const std::string& tag, const std::string& column);

}  // namespace hdfnet::golden
