#pragma once

#include <optional>

#include "layers.h"

namespace hdfnet {

/// DenseLayer: p = down(x); o_i = conv(cat(o_1..o_{i-1}, p)); fuse(cat(x, o_last)).
class DenseLayer {
 public:
  DenseLayer() = default;
  DenseLayer(const Parameters& parameters, const std::string& name, const Backend& backend);
  at::Tensor forward(const at::Tensor& x, ModuleCost* cost) const;

 private:
  Convolution down_;
  std::optional<JoinedConvolution> joined_down_;  ///< in the place of down_ where joins_pointwise
  std::vector<Convolution> dense_;
  std::vector<JoinedConvolution> joined_dense_;  ///< the same, for large maps
  Convolution fuse_;
};

/// DenseTransLayer: fuses one stage of both streams into 64 channels.
class DenseTransport {
 public:
  DenseTransport(const Parameters& parameters, const std::string& name, const Backend& backend);
  /// rgb, depth (N,C,H,W) -> (N,64,H,W)
  at::Tensor forward(const at::Tensor& rgb, const at::Tensor& depth, ModuleCost* cost) const;

 private:
  Convolution fuse_down_;
  DenseLayer residual_;
  Convolution fuse_main_;
};

}  // namespace hdfnet
