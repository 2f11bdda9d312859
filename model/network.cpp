#include "network.h"

#include <ATen/ATen.h>

#include <string>

#include "layout.h"

namespace hdfnet {
namespace {

// Runs one named module, with the observer told of it.
template <typename Body>
at::Tensor run(ModuleObserver* observer, const std::string& module, const Body& body) {
  if (observer == nullptr) return body(nullptr);
  ModuleCost cost;
  observer->begin(module);
  at::Tensor output = body(&cost);
  observer->end(module, output, cost);
  return output;
}

// The 1x1 convolutions to and from the decoder, in exact float32 where the rest runs in TF32: they
// are bound by memory, so it costs nothing, and their rounding goes into the map undamped.
Backend exact(Backend backend) {
  backend.allow_tf32 = false;
  return backend;
}

std::string at_stride(const char* module, int stride) {
  return module + std::to_string(stride);
}

}  // namespace

Network::Network(const Parameters& parameters, const Architecture& architecture, DdpmMode ddpm,
                 const Backend& backend)
    : architecture_(architecture),
      backend_(backend),
      encoder_(build_encoder(parameters, architecture, "encoder", backend)),
      depth_encoder_(build_encoder(parameters, architecture, "depth_encoder", backend)),
      classifier_(read_affine(parameters, "classifier"), {}, exact(backend)) {
  for (const int stride : architecture.strides) {
    transport_.emplace(stride, Convolution(read_affine(parameters, at_stride("trans", stride)), {},
                                           exact(backend)));
  }
  for (const int stride : architecture.fusion_strides) {
    fusion_.emplace(stride, DenseTransport(parameters, at_stride("depth_trans", stride), backend));
    const std::string prefix = at_stride("selfdc_", stride) + ".";
    ddpm_.emplace(stride, ddpm == DdpmMode::fused
                              ? make_fused_ddpm(parameters, prefix, architecture, backend)
                              : make_reference_ddpm(parameters, prefix, architecture, backend));
  }
  for (const int stride : decoder_strides(architecture)) {
    upconv_.emplace(stride, basic_conv(parameters, at_stride("upconv", stride), backend));
  }
}

Network::Features Network::encode(const at::Tensor& rgb, const at::Tensor& depth,
                                  ModuleObserver* observer) const {
  Features features;
  at::Tensor r = rgb;
  at::Tensor d = depth;
  for (size_t i = 0; i < architecture_.strides.size(); ++i) {
    const int stride = architecture_.strides[i];
    r = run(observer, at_stride("encoder", stride),
            [&](ModuleCost* cost) { return encoder_[i]->forward(r, cost); });
    d = run(observer, at_stride("depth_encoder", stride),
            [&](ModuleCost* cost) { return depth_encoder_[i]->forward(d, cost); });
    // Each stage's maps are reduced to 64 channels at once, so that the wide ones can be freed.
    features.rgb[stride] = run(observer, at_stride("trans", stride),
                               [&](ModuleCost* cost) { return transport_.at(stride)(r, cost); });
    const auto fusion = fusion_.find(stride);
    if (fusion == fusion_.end()) continue;
    features.fused[stride] = run(observer, at_stride("depth_trans", stride), [&](ModuleCost* cost) {
      return fusion->second.forward(r, d, cost);
    });
  }
  return features;
}

at::Tensor Network::decode(const Features& features, ModuleObserver* observer) const {
  const int deepest = architecture_.strides.back();
  at::Tensor previous = run(observer, at_stride("upconv", deepest), [&](ModuleCost* cost) {
    return upconv_.at(deepest)(features.rgb.at(deepest), cost);
  });
  int from = deepest;
  for (const int stride : decoder_strides(architecture_)) {
    if (stride == deepest) continue;
    const auto fused = features.fused.find(from);
    if (fused != features.fused.end()) {
      previous = run(observer, at_stride("selfdc_", from), [&](ModuleCost* cost) {
        return ddpm_.at(from)->forward(previous, fused->second, cost);
      });
    }
    previous = run(observer, at_stride("upconv", stride), [&](ModuleCost* cost) {
      const auto lateral = features.rgb.find(stride);
      if (lateral == features.rgb.end()) {
        // ResNet-50 has no features at stride 1: its last merge is a plain x2.
        const at::Tensor finer = at::upsample_bilinear2d(
            previous, {previous.size(2) * 2, previous.size(3) * 2}, /*align_corners=*/true);
        return upconv_.at(stride)(finer, cost);
      }
      const at::Tensor& t = lateral->second;
      return upconv_.at(stride)(t + upsample_to(previous, t.size(2), t.size(3)), cost);
    });
    from = stride;
  }
  return previous;
}

at::Tensor Network::classify(const at::Tensor& finest, ModuleObserver* observer) const {
  const at::Tensor logits =
      run(observer, "classifier", [&](ModuleCost* cost) { return classifier_(finest, cost); });
  return logits.to(at::kFloat).contiguous().sigmoid_();
}

at::Tensor Network::forward(const at::Tensor& rgb, const at::Tensor& depth,
                            ModuleObserver* observer) const {
  return classify(decode(encode(rgb, depth, observer), observer), observer);
}

}  // namespace hdfnet
