#pragma once

#include <memory>
#include <utility>
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

  /// Whether the stage can end in the next one's pooling, its own map being stored nowhere.
  virtual bool ends_pooled() const { return false; }
  /// max_pool(convolve(pooled)) and `side`, a 1x1, of convolve(pooled); nothing where `side` is
  /// null.
  virtual std::pair<at::Tensor, at::Tensor> end_pooled(const at::Tensor& pooled,
                                                       const JoinedConvolution* side) const;
};

/// The stages of one stream; `prefix` is "encoder" or "depth_encoder".
std::vector<std::unique_ptr<EncoderStage>> build_encoder(const Parameters& parameters,
                                                         const Architecture& architecture,
                                                         const std::string& prefix,
                                                         const Backend& backend);

}  // namespace hdfnet
