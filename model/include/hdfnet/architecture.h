#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hdfnet/parameters.h"

namespace hdfnet {

enum class Variant { vgg16, vgg19, resnet50 };

std::string_view name(Variant variant);

/// What the parameters' names and shapes say about the network.
struct Architecture {
  Variant variant = Variant::vgg16;
  std::vector<int> strides;         ///< encoder stages, for example 1 2 4 8 16
  std::vector<int> fusion_strides;  ///< where depth is fused and a DDPM runs, deepest first: 16 8 4
  int ddpm_kernel_size = 3;         ///< K
  std::vector<int64_t> dilations;   ///< one DDPM branch each: 1 3 5
};

/// Tells the variant from the parameters, as they are stored or as dequantize() gives them, and
/// checks every one of them: a missing, unexpected, mis-shaped, wrongly typed or non-finite
/// parameter throws Error(weights) that names it with the expected and the actual shape.
Architecture inspect(const Parameters& parameters);

}  // namespace hdfnet
