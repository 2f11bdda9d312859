#pragma once

#include <map>
#include <memory>
#include <vector>

#include "backbone.h"
#include "ddpm.h"
#include "hdfnet/engine.h"
#include "hdfnet/module_observer.h"
#include "transport.h"

namespace hdfnet {

/// The whole network on one device: two encoders, transport, DDPMs, decoder, head.
class Network {
 public:
  Network(const Parameters& parameters, const Architecture& architecture, DdpmMode ddpm,
          const Backend& backend);

  /// rgb (N,3,H,W), depth (N,1,H,W) in the backend's type, layout and device -> (N,1,H',W')
  /// float32.
  at::Tensor forward(const at::Tensor& rgb, const at::Tensor& depth,
                     ModuleObserver* observer) const;

 private:
  struct Features {
    std::map<int, at::Tensor> rgb;    ///< t*: the plain 1x1 transport of the RGB encoder's stages
    std::map<int, at::Tensor> fused;  ///< a*: RGB and depth fused, at the fusion strides
  };

  Features encode(const at::Tensor& rgb, const at::Tensor& depth, ModuleObserver* observer) const;
  at::Tensor decode(const Features& features, ModuleObserver* observer) const;
  at::Tensor classify(const at::Tensor& finest, ModuleObserver* observer) const;

  Architecture architecture_;
  Backend backend_;
  std::vector<std::unique_ptr<EncoderStage>> encoder_;
  std::vector<std::unique_ptr<EncoderStage>> depth_encoder_;
  std::map<int, Convolution> transport_;
  std::map<int, DenseTransport> fusion_;
  std::map<int, std::unique_ptr<Ddpm>> ddpm_;
  std::map<int, Convolution> upconv_;
  Convolution classifier_;
};

}  // namespace hdfnet
