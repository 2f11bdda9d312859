#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "hdfnet/parameters.h"

namespace hdfnet {

/// Whether this entry is the `_scale` of an int8 parameter.
bool is_scale(const Parameters& stored, const std::string& name);

/// The scales (O) in float32 of the int8 parameter `name`, whose values (O,...) are given;
/// Error(weights) when there are none, or not one for each output channel.
at::Tensor scale_of(const Parameters& stored, const std::string& name, const at::Tensor& values);

}  // namespace hdfnet
