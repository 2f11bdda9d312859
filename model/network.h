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
///
/// Stages that no fusion reads can end in the next one's pooling and their transport
/// (Backend::stage_end_in_place): the largest maps are then stored nowhere.
class Network {
 public:
  Network(const Parameters& parameters, const Architecture& architecture, DdpmMode ddpm,
          const Backend& backend);

  /// rgb (N,3,H,W), depth (N,1,H,W) on the backend's device, in its type and layout or, with
  /// Backend::stem_in_place, in float32 and any layout -> (N,1,H',W') float32.
  at::Tensor forward(const at::Tensor& rgb, const at::Tensor& depth,
                     ModuleObserver* observer) const;

 private:
  struct Features {
    std::map<int, at::Tensor> rgb;    ///< t*: the plain 1x1 transport of the RGB encoder's stages
    std::map<int, at::Tensor> fused;  ///< a*: RGB and depth fused, at the fusion strides
    std::map<int, at::Tensor> taps;   ///< or what the DDPMs prepare from these alone
  };

  Features encode(const at::Tensor& rgb, const at::Tensor& depth, ModuleObserver* observer) const;
  at::Tensor decode(const Features& features, ModuleObserver* observer) const;
  at::Tensor transport(int stride, const at::Tensor& x, ModuleObserver* observer) const;
  at::Tensor merge(int stride, const at::Tensor& previous, const at::Tensor* lateral,
                   ModuleObserver* observer) const;
  at::Tensor join(const at::Tensor& previous, const at::Tensor* lateral) const;
  at::Tensor classify(const at::Tensor& finest, ModuleObserver* observer) const;

  Architecture architecture_;
  Backend backend_;
  std::vector<std::unique_ptr<EncoderStage>> encoder_;
  std::vector<std::unique_ptr<EncoderStage>> depth_encoder_;
  std::map<int, Convolution> transport_;
  std::map<int, JoinedConvolution> joined_transport_;  ///< or this, where joins_pointwise
  std::map<int, DenseTransport> fusion_;
  std::map<int, std::unique_ptr<Ddpm>> ddpm_;
  std::map<int, Convolution> upconv_;
  Convolution classifier_;
  std::map<int, JoinedConvolution> joined_upconv_;  ///< where Backend::decoder_in_place
  JoinedConvolution joined_classifier_;
};

}  // namespace hdfnet
