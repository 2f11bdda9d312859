// Stored parameters (fp16, bf16, int8 with per-channel scales) as float32.

#include "quantization.h"

#include <ATen/ATen.h>

#include <string_view>
#include <vector>

#include "hdfnet/error.h"

namespace hdfnet {
namespace {

constexpr std::string_view kScale = "_scale";

bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

std::string shape_text(const at::Tensor& tensor) {
  return c10::str(tensor.sizes());
}

}  // namespace

at::Tensor scale_of(const Parameters& stored, const std::string& name, const at::Tensor& values) {
  const auto entry = stored.find(name + std::string(kScale));
  if (entry == stored.end()) {
    throw Error(ErrorCode::weights, "parameter " + name + " is int8 but " + name +
                                        "_scale, its scale for each output channel, is missing.");
  }
  const at::Tensor scale = entry->second.to(at::kFloat).flatten();
  if (values.dim() == 0 || scale.numel() != values.size(0)) {
    throw Error(ErrorCode::weights,
                "parameter " + name + "_scale: expected one value for each of the " +
                    std::to_string(values.dim() ? values.size(0) : 0) +
                    " output channels, found shape " + shape_text(entry->second) + ".");
  }
  return scale;
}

bool is_scale(const Parameters& stored, const std::string& name) {
  if (!ends_with(name, kScale)) return false;
  const auto owner = stored.find(name.substr(0, name.size() - kScale.size()));
  return owner != stored.end() && owner->second.scalar_type() == at::kChar;
}

at::Tensor dequantized(const Parameters& stored, const std::string& name) {
  const auto entry = stored.find(name);
  if (entry == stored.end()) {
    throw Error(ErrorCode::weights, "missing parameter " + name + ".");
  }
  const at::Tensor& tensor = entry->second;
  if (tensor.scalar_type() == at::kChar) {
    const at::Tensor scale = scale_of(stored, name, tensor);
    std::vector<int64_t> each_channel(tensor.dim(), 1);
    each_channel[0] = scale.numel();
    return tensor.to(at::kFloat).mul_(scale.view(each_channel));
  }
  return at::isFloatingType(tensor.scalar_type()) ? tensor.to(at::kFloat) : tensor;
}

Parameters dequantize(const Parameters& stored) {
  Parameters result;
  for (const auto& [name, tensor] : stored) {
    if (!is_scale(stored, name)) result.emplace(name, dequantized(stored, name));
  }
  return result;
}

}  // namespace hdfnet
