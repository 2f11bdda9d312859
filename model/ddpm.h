#pragma once

#include <memory>
#include <string>

#include "hdfnet/architecture.h"
#include "layers.h"

namespace hdfnet {

/// Dynamic dilated pyramid module: filters x with taps generated from y, once a dilation.
class Ddpm {
 public:
  virtual ~Ddpm() = default;
  /// What depends on y (N,64,H,W) alone.
  virtual at::Tensor prepare(const at::Tensor& y, ModuleCost* cost) const = 0;
  /// x (N,64,H,W) and what was prepared from y -> (N,64,H,W)
  virtual at::Tensor filter(const at::Tensor& x, const at::Tensor& prepared,
                            ModuleCost* cost) const = 0;
  /// x, y (N,64,H,W) -> (N,64,H,W)
  at::Tensor forward(const at::Tensor& x, const at::Tensor& y, ModuleCost* cost) const {
    return filter(x, prepare(y, cost), cost);
  }
};

/// On hdfnet::dynamic_filter; the branches' generators run together as grouped convolutions.
/// `prefix` is the module's name with its dot ("selfdc_16."), empty for a DDPM on its own.
std::unique_ptr<Ddpm> make_fused_ddpm(const Parameters& parameters, const std::string& prefix,
                                      const Architecture& architecture, const Backend& backend);

/// As the original code: branch by branch, on unfold.
std::unique_ptr<Ddpm> make_reference_ddpm(const Parameters& parameters, const std::string& prefix,
                                          const Architecture& architecture, const Backend& backend);

}  // namespace hdfnet
