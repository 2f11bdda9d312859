#include "network.h"

#include <ATen/ATen.h>

#include <list>
#include <string>
#include <tuple>

#include "hdfnet/ops/convolution.h"
#include "layout.h"
#include "side_stream.h"

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

constexpr int kFinestCoarseStride = 4;  // strides below are fine

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
    const Affine affine = read_affine(parameters, at_stride("trans", stride));
    if (joins_pointwise(affine, backend)) {
      joined_transport_.emplace(stride, JoinedConvolution(affine, {}, backend));
    } else {
      transport_.emplace(stride, Convolution(affine, {}, exact(backend)));
    }
  }
  for (const int stride : architecture.fusion_strides) {
    fusion_.emplace(stride, DenseTransport(parameters, at_stride("depth_trans", stride), backend));
    const std::string prefix = at_stride("selfdc_", stride) + ".";
    ddpm_.emplace(stride, ddpm == DdpmMode::fused
                              ? make_fused_ddpm(parameters, prefix, architecture, backend)
                              : make_reference_ddpm(parameters, prefix, architecture, backend));
  }
  for (const int stride : decoder_strides(architecture)) {
    const std::string name = at_stride("upconv", stride);
    // The two finest stages, whose rounding reaches the map undamped, are exact as well; they are
    // 3 % of the arithmetic.
    const bool fine = stride < kFinestCoarseStride;
    upconv_.emplace(stride, basic_conv(parameters, name, fine ? exact(backend) : backend));
    if (!backend.decoder_in_place) continue;
    joined_upconv_.emplace(stride, joined_basic_conv(parameters, name, backend));
  }
  if (backend.decoder_in_place) {
    joined_classifier_ = {read_affine(parameters, "classifier"), {}, backend};
  }
}

at::Tensor Network::transport(int stride, const at::Tensor& x, ModuleObserver* observer) const {
  // Each stage's maps are reduced to 64 channels at once, so that the wide ones can be freed.
  return run(observer, at_stride("trans", stride), [&](ModuleCost* cost) {
    const auto joined = joined_transport_.find(stride);
    return joined != joined_transport_.end() ? joined->second({x}, cost)
                                             : transport_.at(stride)(x, cost);
  });
}

Network::Features Network::encode(const at::Tensor& rgb, const at::Tensor& depth,
                                  ModuleObserver* observer) const {
  Features features;
  // Small maps leave most of a card idle, so whatever can runs side by side: the depth encoder, and
  // at every fusion stride all that leads from both encoders to the DDPM's taps.
  const auto beside_up_to = [&](int64_t largest) {
    return observer == nullptr && rgb.size(0) <= largest;
  };
  SideStream side(backend_.device, beside_up_to(backend_.encoders_beside_up_to));
  std::list<SideStream> fusions;
  // What one stream reads of another's lives until all have met: it may not be reused before.
  std::vector<at::Tensor> crossing;
  at::Tensor r = rgb;
  at::Tensor d = depth;
  bool pooled = true;  // the maps are what the stage's convolutions read
  for (size_t i = 0; i < architecture_.strides.size(); ++i) {
    const int stride = architecture_.strides[i];
    const auto fusion = fusion_.find(stride);
    // An observer sees whole modules.
    const bool end_pooled =
        observer == nullptr && fusion == fusion_.end() && encoder_[i]->ends_pooled();
    const auto advance = [&](const EncoderStage& stage, const at::Tensor& x, ModuleCost* cost) {
      const at::Tensor in = pooled ? x : stage.pool(x, cost);
      return end_pooled ? stage.end_pooled(in, nullptr).first : stage.convolve(in, cost);
    };
    d = run(observer, at_stride("depth_encoder", stride), [&](ModuleCost* cost) {
      return side.run([&] { return advance(*depth_encoder_[i], d, cost); });
    });
    if (side.active()) crossing.push_back(d);
    if (end_pooled) {
      const at::Tensor in = pooled ? r : encoder_[i]->pool(r, nullptr);
      std::tie(r, features.rgb[stride]) =
          encoder_[i]->end_pooled(in, &joined_transport_.at(stride));
    } else {
      r = run(observer, at_stride("encoder", stride),
              [&](ModuleCost* cost) { return advance(*encoder_[i], r, cost); });
      features.rgb[stride] = transport(stride, r, observer);
    }
    pooled = end_pooled;
    if (fusion == fusion_.end()) continue;
    SideStream& beside =
        fusions.emplace_back(backend_.device, beside_up_to(backend_.fusions_beside_up_to),
                             /*number=*/static_cast<int>(fusions.size()) + 1);
    const auto fuse = [&](ModuleCost* cost) { return fusion->second.forward(r, d, cost); };
    if (!beside.active()) {
      side.join();
      features.fused[stride] = run(observer, at_stride("depth_trans", stride), fuse);
      continue;
    }
    beside.follow(side);
    beside.use(r);
    beside.use(d);
    features.taps[stride] =
        beside.run([&] { return ddpm_.at(stride)->prepare(fuse(nullptr), nullptr); });
    beside.share(features.taps[stride]);
    crossing.insert(crossing.end(), {r, d});
  }
  side.join();
  for (SideStream& beside : fusions) beside.join();
  return features;
}

at::Tensor Network::join(const at::Tensor& previous, const at::Tensor* lateral) const {
  if (lateral == nullptr) {
    // ResNet-50 has no features at stride 1: its last merge is a plain x2.
    return ops::upsample_bilinear2d(previous, previous.size(2) * 2, previous.size(3) * 2,
                                    /*align_corners=*/true);
  }
  return ops::upsample_add(previous, *lateral);
}

at::Tensor Network::merge(int stride, const at::Tensor& previous, const at::Tensor* lateral,
                          ModuleObserver* observer) const {
  return run(observer, at_stride("upconv", stride), [&](ModuleCost* cost) {
    const at::Tensor joined = join(previous, lateral);
    const auto in_place = joined_upconv_.find(stride);
    // At the coarse strides small maps are faster with the vendor's library.
    const bool pays = in_place != joined_upconv_.end() &&
                      (stride < kFinestCoarseStride || in_place->second.is_wide({joined}));
    return pays ? in_place->second({joined}, cost) : upconv_.at(stride)(joined, cost);
  });
}

at::Tensor Network::decode(const Features& features, ModuleObserver* observer) const {
  int from = architecture_.strides.back();
  at::Tensor previous = run(observer, at_stride("upconv", from), [&](ModuleCost* cost) {
    return upconv_.at(from)(features.rgb.at(from), cost);
  });
  for (const int stride : decoder_strides(architecture_)) {
    if (stride == from) continue;
    const auto fused = features.fused.find(from);
    const auto taps = features.taps.find(from);
    if (taps != features.taps.end()) {
      previous = ddpm_.at(from)->filter(previous, taps->second, nullptr);
    } else if (fused != features.fused.end()) {
      previous = run(observer, at_stride("selfdc_", from), [&](ModuleCost* cost) {
        return ddpm_.at(from)->forward(previous, fused->second, cost);
      });
    }
    const auto found = features.rgb.find(stride);
    const at::Tensor* lateral = found == features.rgb.end() ? nullptr : &found->second;
    if (stride == 1 && observer == nullptr && backend_.decoder_in_place) {
      return joined_upconv_.at(1).with_head(join(previous, lateral), joined_classifier_);
    }
    previous = merge(stride, previous, lateral, observer);
    from = stride;
  }
  return classify(previous, observer);
}

at::Tensor Network::classify(const at::Tensor& finest, ModuleObserver* observer) const {
  const at::Tensor logits =
      run(observer, "classifier", [&](ModuleCost* cost) { return classifier_(finest, cost); });
  return logits.to(at::kFloat).contiguous().sigmoid_();
}

at::Tensor Network::forward(const at::Tensor& rgb, const at::Tensor& depth,
                            ModuleObserver* observer) const {
  return decode(encode(rgb, depth, observer), observer);
}

}  // namespace hdfnet
