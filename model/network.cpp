#include "network.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>

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
    transport_.emplace(stride, Convolution(read_affine(parameters, at_stride("trans", stride)), {},
                                           exact(backend)));
    if (!backend.joined_transport) continue;
    joined_transport_.emplace(
        stride,
        JoinedConvolution(read_affine(parameters, at_stride("trans", stride)), {}, backend));
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
    ConvolutionOptions relu;
    relu.relu = true;
    joined_upconv_.emplace(stride,
                           JoinedConvolution(read_basic_conv(parameters, name), relu, backend));
  }
  if (backend.decoder_in_place) {
    joined_classifier_ = {read_affine(parameters, "classifier"), {}, backend};
  }
}

size_t Network::fine_stages() const {
  size_t count = 0;
  while (architecture_.strides[count] < kFinestCoarseStride) ++count;
  return count;
}

at::Tensor Network::transport(int stride, const at::Tensor& x, ModuleObserver* observer) const {
  // Each stage's maps are reduced to 64 channels at once, so that the wide ones can be freed.
  return run(observer, at_stride("trans", stride), [&](ModuleCost* cost) {
    return backend_.joined_transport ? joined_transport_.at(stride)({x}, cost)
                                     : transport_.at(stride)(x, cost);
  });
}

void Network::encode_fine(Streams& streams, int64_t block, Features& features, SideStream& side,
                          ModuleObserver* observer) const {
  const size_t stages = fine_stages();
  const int64_t images = streams.rgb.size(0);
  std::vector<at::Tensor> rgb;
  std::vector<at::Tensor> depth;
  for (int64_t first = 0; first < images; first += block) {
    const int64_t count = std::min(block, images - first);
    at::Tensor r = streams.rgb.narrow(0, first, count);
    at::Tensor d = streams.depth.narrow(0, first, count);
    for (size_t i = 0; i < stages; ++i) {
      const int stride = architecture_.strides[i];
      // What is made on the side stream is read only there until encode_coarse shares it; the first
      // map that it reads, of the main stream, is the caller's, which waits for encode_coarse.
      d = run(observer, at_stride("depth_encoder", stride), [&](ModuleCost* cost) {
        const auto work = [&] { return depth_encoder_[i]->forward(d, cost); };
        return backend_.fine_streams ? side.run(work) : work();
      });
      r = run(observer, at_stride("encoder", stride),
              [&](ModuleCost* cost) { return encoder_[i]->forward(r, cost); });
      features.rgb[stride].push_back(transport(stride, r, observer));
    }
    if (block >= images) {
      streams = {r, d};
      return;
    }
    // Pooled before they are put together: a quarter of the bytes.
    rgb.push_back(encoder_[stages]->pool(r, nullptr));
    depth.push_back(depth_encoder_[stages]->pool(d, nullptr));
  }
  streams = {at::cat(rgb), at::cat(depth)};
  rgb.clear();
  depth.clear();
  streams = {encoder_[stages]->convolve(streams.rgb, nullptr),
             depth_encoder_[stages]->convolve(streams.depth, nullptr)};
}

void Network::encode_coarse(Streams streams, Features& features, SideStream& side,
                            ModuleObserver* observer) const {
  const bool begun = features.rgb.begin()->second.size() > 1;  // in blocks: see encode_fine
  std::vector<at::Tensor> of_side;  // live until the end: the side stream may not reuse them before
  at::Tensor r = std::move(streams.rgb);
  at::Tensor d = std::move(streams.depth);
  if (side.active()) of_side.push_back(d);  // may be of the main stream, read on the other
  for (size_t i = fine_stages(); i < architecture_.strides.size(); ++i) {
    const int stride = architecture_.strides[i];
    const bool done = begun && i == fine_stages();
    if (!done) {
      d = run(observer, at_stride("depth_encoder", stride), [&](ModuleCost* cost) {
        return side.run([&] { return depth_encoder_[i]->forward(d, cost); });
      });
      if (side.active()) {
        side.share(d);
        of_side.push_back(d);
      }
      r = run(observer, at_stride("encoder", stride),
              [&](ModuleCost* cost) { return encoder_[i]->forward(r, cost); });
    }
    features.rgb[stride].push_back(transport(stride, r, observer));
    const auto fusion = fusion_.find(stride);
    if (fusion == fusion_.end()) continue;
    side.join();
    features.fused[stride] = run(observer, at_stride("depth_trans", stride), [&](ModuleCost* cost) {
      return fusion->second.forward(r, d, cost);
    });
  }
  side.join();
}

at::Tensor Network::join(const at::Tensor& previous, const at::Tensor* lateral) const {
  if (lateral == nullptr) {
    // ResNet-50 has no features at stride 1: its last merge is a plain x2.
    return at::upsample_bilinear2d(previous, {previous.size(2) * 2, previous.size(3) * 2},
                                   /*align_corners=*/true);
  }
  if (backend_.read_in_place) return ops::upsample_add(previous, *lateral);
  return *lateral + upsample_to(previous, lateral->size(2), lateral->size(3));
}

at::Tensor Network::merge(int stride, const at::Tensor& previous, const at::Tensor* lateral,
                          ModuleObserver* observer) const {
  return run(observer, at_stride("upconv", stride), [&](ModuleCost* cost) {
    const at::Tensor joined = join(previous, lateral);
    return backend_.decoder_in_place ? joined_upconv_.at(stride)({joined}, cost)
                                     : upconv_.at(stride)(joined, cost);
  });
}

at::Tensor Network::decode_coarse(const Features& features, ModuleObserver* observer) const {
  const int deepest = architecture_.strides.back();
  at::Tensor previous = run(observer, at_stride("upconv", deepest), [&](ModuleCost* cost) {
    return upconv_.at(deepest)(features.rgb.at(deepest).front(), cost);
  });
  int from = deepest;
  const auto filter = [&] {
    const auto fused = features.fused.find(from);
    if (fused == features.fused.end()) return;
    previous = run(observer, at_stride("selfdc_", from), [&](ModuleCost* cost) {
      return ddpm_.at(from)->forward(previous, fused->second, cost);
    });
  };
  for (const int stride : decoder_strides(architecture_)) {
    if (stride == deepest || stride < kFinestCoarseStride) continue;
    filter();
    previous = merge(stride, previous, &features.rgb.at(stride).front(), observer);
    from = stride;
  }
  filter();
  return previous;
}

at::Tensor Network::decode_fine(const at::Tensor& coarse, const Features& features, size_t block,
                                ModuleObserver* observer) const {
  at::Tensor previous = coarse;
  for (const int stride : decoder_strides(architecture_)) {
    if (stride >= kFinestCoarseStride) continue;
    const auto found = features.rgb.find(stride);
    const at::Tensor* lateral = found == features.rgb.end() ? nullptr : &found->second[block];
    if (stride == 1 && observer == nullptr && backend_.decoder_in_place) {
      return joined_upconv_.at(1).with_head(join(previous, lateral), joined_classifier_);
    }
    previous = merge(stride, previous, lateral, observer);
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
  const int64_t images = rgb.size(0);
  // An observer sees whole modules.
  const bool in_blocks =
      observer == nullptr && backend_.fine_block > 0 && backend_.fine_block < images;
  Features features;
  {
    SideStream side(backend_.device,
                    observer == nullptr && images <= backend_.two_streams_up_to && !in_blocks);
    Streams streams = {rgb, depth};
    encode_fine(streams, in_blocks ? backend_.fine_block : images, features, side, observer);
    encode_coarse(std::move(streams), features, side, observer);
  }
  const at::Tensor coarse = decode_coarse(features, observer);
  if (!in_blocks) return decode_fine(coarse, features, 0, observer);
  std::vector<at::Tensor> maps;
  for (int64_t first = 0; first < images; first += backend_.fine_block) {
    const int64_t count = std::min(backend_.fine_block, images - first);
    maps.push_back(decode_fine(coarse.narrow(0, first, count), features, maps.size(), observer));
  }
  return at::cat(maps);
}

}  // namespace hdfnet
