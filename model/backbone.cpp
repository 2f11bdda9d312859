#include "backbone.h"

#include <ATen/ATen.h>

#include <utility>

#include "hdfnet/ops/convolution.h"
#include "layout.h"

namespace hdfnet {
namespace {

at::Tensor max_pool(const at::Tensor& x, int64_t kernel, int64_t padding, bool values_only,
                    ModuleCost* cost) {
  at::Tensor y = values_only ? ops::max_pool2d(x, kernel, /*stride=*/2, padding)
                             : at::max_pool2d(x, {kernel, kernel}, {2, 2}, {padding, padding});
  if (cost != nullptr) {
    cost->bytes +=
        static_cast<double>(x.numel() + y.numel()) * static_cast<double>(x.element_size());
  }
  return y;
}

class VggEncoderStage final : public EncoderStage {
 public:
  VggEncoderStage(const Parameters& parameters, const std::string& name, const VggStage& stage,
                  const Backend& backend)
      : pool_(stage.pool), pool_values_only_(backend.pool_values_only) {
    ConvolutionOptions options;
    options.relu = true;
    for (const int index : stage.convolutions) {
      const Affine affine = read_affine_norm(parameters, name + "." + std::to_string(index),
                                             name + "." + std::to_string(index + 1));
      // The stage without a pool is the first one, which reads the network's input.
      if (backend.stem_in_place && !pool_ && !stem_) {
        stem_.emplace(affine, options, backend);
      } else if (backend.stage_end_in_place && index == stage.convolutions.back() &&
                 affine.weight.size(0) <= kMostChannelsOfAnEnd) {
        last_.emplace(affine, options, backend);
      } else {
        convolutions_.emplace_back(affine, options, backend);
      }
    }
  }

  at::Tensor pool(const at::Tensor& x, ModuleCost* cost) const override {
    return pool_ ? max_pool(x, 2, 0, pool_values_only_, cost) : x;
  }

  at::Tensor convolve(const at::Tensor& pooled, ModuleCost* cost) const override {
    const at::Tensor x = before_last(pooled, cost);
    return last_ ? (*last_)({x}, cost) : x;
  }

  bool ends_pooled() const override { return last_.has_value(); }

  std::pair<at::Tensor, at::Tensor> end_pooled(const at::Tensor& pooled,
                                               const JoinedConvolution* side) const override {
    return last_->pooled(before_last(pooled, nullptr), side);
  }

 private:
  /// All convolutions but last_.
  at::Tensor before_last(const at::Tensor& pooled, ModuleCost* cost) const {
    at::Tensor x = stem_ ? (*stem_)(pooled, cost) : pooled;
    for (const Convolution& convolution : convolutions_) x = convolution(x, cost);
    return x;
  }

  static constexpr int64_t kMostChannelsOfAnEnd = 128;  // of hdfnet::conv2d_pool's kernel

  bool pool_;
  bool pool_values_only_;
  std::optional<StemConvolution> stem_;  ///< in the place of the first of the convolutions
  std::vector<Convolution> convolutions_;
  std::optional<JoinedConvolution> last_;  ///< in the place of the last
};

class ResnetStem final : public EncoderStage {
 public:
  ResnetStem(const Parameters& parameters, const std::string& name, const Backend& backend) {
    ConvolutionOptions options;
    options.relu = true;
    options.stride = 2;
    const Affine affine = read_affine_norm(parameters, name + ".0", name + ".1");
    if (backend.stem_in_place) {
      stem_.emplace(affine, options, backend);
    } else {
      convolution_ = {affine, options, backend};
    }
  }

  at::Tensor pool(const at::Tensor& x, ModuleCost* /*cost*/) const override { return x; }

  at::Tensor convolve(const at::Tensor& pooled, ModuleCost* cost) const override {
    return stem_ ? (*stem_)(pooled, cost) : convolution_(pooled, cost);
  }

 private:
  std::optional<StemConvolution> stem_;  ///< in the place of convolution_
  Convolution convolution_;
};

class Bottleneck {
 public:
  Bottleneck(const Parameters& parameters, const std::string& prefix, int64_t stride,
             bool downsample, const Backend& backend)
      : downsample_(downsample) {
    const auto read = [&](const std::string& name, const std::string& norm) {
      return read_affine_norm(parameters, prefix + name, prefix + norm);
    };
    const auto conv = [&](const Affine& affine, int64_t step, bool relu) {
      ConvolutionOptions options;
      options.relu = relu;
      options.stride = step;
      return Convolution(affine, options, backend);
    };
    reduce_ = conv(read("conv1", "bn1"), 1, true);
    spatial_ = conv(read("conv2", "bn2"), stride, true);
    Affine expand = read("conv3", "bn3");
    if (downsample) {
      Affine shortcut = read("downsample.0", "downsample.1");
      // Both are added up, so one bias does for both, and costs the shortcut no pass of its own.
      expand.bias = expand.bias + std::exchange(shortcut.bias, at::zeros_like(shortcut.bias));
      shortcut_ = conv(shortcut, stride, false);
    }
    expand_ = conv(expand, 1, true);
  }

  at::Tensor forward(const at::Tensor& x, ModuleCost* cost) const {
    const at::Tensor residual = downsample_ ? shortcut_(x, cost) : x;
    return expand_.add(spatial_(reduce_(x, cost), cost), residual, cost);
  }

 private:
  bool downsample_;
  Convolution reduce_;
  Convolution spatial_;
  Convolution expand_;
  Convolution shortcut_;
};

class ResnetEncoderStage final : public EncoderStage {
 public:
  ResnetEncoderStage(const Parameters& parameters, const std::string& name,
                     const ResnetStage& stage, bool pool, const Backend& backend)
      : pool_(pool), pool_values_only_(backend.pool_values_only) {
    for (int block = 0; block < stage.blocks; ++block) {
      blocks_.emplace_back(parameters, name + "." + std::to_string(block) + ".",
                           block == 0 ? stage.stride : 1, /*downsample=*/block == 0, backend);
    }
  }

  at::Tensor pool(const at::Tensor& x, ModuleCost* cost) const override {
    return pool_ ? max_pool(x, 3, 1, pool_values_only_, cost) : x;
  }

  at::Tensor convolve(const at::Tensor& pooled, ModuleCost* cost) const override {
    at::Tensor x = pooled;
    for (const Bottleneck& block : blocks_) x = block.forward(x, cost);
    return x;
  }

 private:
  bool pool_;
  bool pool_values_only_;
  std::vector<Bottleneck> blocks_;
};

}  // namespace

std::pair<at::Tensor, at::Tensor> EncoderStage::end_pooled(const at::Tensor&,
                                                           const JoinedConvolution*) const {
  TORCH_INTERNAL_ASSERT(false, "this stage does not end pooled");
}

std::vector<std::unique_ptr<EncoderStage>> build_encoder(const Parameters& parameters,
                                                         const Architecture& architecture,
                                                         const std::string& prefix,
                                                         const Backend& backend) {
  std::vector<std::unique_ptr<EncoderStage>> stages;
  for (size_t i = 0; i < architecture.strides.size(); ++i) {
    const std::string name = prefix + std::to_string(architecture.strides[i]);
    if (architecture.variant != Variant::resnet50) {
      stages.push_back(std::make_unique<VggEncoderStage>(
          parameters, name, vgg_stages(architecture.variant)[i], backend));
    } else if (i == 0) {
      stages.push_back(std::make_unique<ResnetStem>(parameters, name, backend));
    } else {
      const bool first = i == 1;  // encoder4 is [maxpool, layer1]
      stages.push_back(std::make_unique<ResnetEncoderStage>(
          parameters, first ? name + ".1" : name, resnet_stages()[i - 1], first, backend));
    }
  }
  return stages;
}

}  // namespace hdfnet
