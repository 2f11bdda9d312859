#pragma once

#include <memory>
#include <vector>

#include "hdfnet/architecture.h"
#include "layers.h"

namespace hdfnet {

/// One slice of an encoder stream (encoder1, depth_encoder4, ...).
class EncoderStage {
 public:
  virtual ~EncoderStage() = default;
  at::Tensor forward(const at::Tensor& x, ModuleCost* cost) const {
    return convolve(pool(x, cost), cost);
  }
  /// The stage in two parts: its pooling, if any, and the rest.
  virtual at::Tensor pool(const at::Tensor& x, ModuleCost* cost) const = 0;
  virtual at::Tensor convolve(const at::Tensor& pooled, ModuleCost* cost) const = 0;
};

/// The stages of one stream; `prefix` is "encoder" or "depth_encoder".
std::vector<std::unique_ptr<EncoderStage>> build_encoder(const Parameters& parameters,
                                                         const Architecture& architecture,
                                                         const std::string& prefix,
                                                         const Backend& backend);

}  // namespace hdfnet
