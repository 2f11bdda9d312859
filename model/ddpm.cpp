#include "ddpm.h"

#include <ATen/ATen.h>

#include "hdfnet/ops/dynamic_filter.h"
#include "hdfnet/ops/generated_dynamic_filter.h"
#include "layout.h"
#include "transport.h"

namespace hdfnet {
namespace {

std::string branch_name(const std::string& prefix, int64_t dilation) {
  return prefix + "branch_" + std::to_string(dilation);
}

// The filter multiplies and adds each tap once; it reads x and `read` further elements, and writes
// y.
void count_filter(const at::Tensor& x, int64_t taps, int64_t read, const at::Tensor& y,
                  ModuleCost* cost) {
  if (cost == nullptr) return;
  cost->flop += 2.0 * static_cast<double>(taps);
  cost->bytes +=
      static_cast<double>(x.numel() + read + y.numel()) * static_cast<double>(x.element_size());
}

// Outputs in full blocks of the kernel that joins run on; the added ones are zero and used by no
// one.
Affine pad_outputs(const Affine& affine) {
  constexpr int64_t kBlock = 64;
  const int64_t missing = (kBlock - affine.weight.size(0) % kBlock) % kBlock;
  if (missing == 0) return affine;
  std::vector<int64_t> sizes = affine.weight.sizes().vec();
  sizes[0] = missing;
  return concatenate(
      {affine,
       {at::zeros(sizes, affine.weight.options()), at::zeros({missing}, affine.bias.options())}});
}

// All branches run together. Channels of every intermediate are grouped by branch (branch-major),
// so that one grouped convolution serves the three branches; cats keep each branch's maps together.
class FusedDdpm final : public Ddpm {
 public:
  FusedDdpm(const Parameters& parameters, const std::string& prefix,
            const Architecture& architecture, const Backend& backend)
      : dilations_(architecture.dilations),
        kernel_size_(architecture.ddpm_kernel_size),
        fuse_(basic_conv(parameters, prefix + "fuse", backend)) {
    std::vector<Affine> features;
    std::vector<Affine> reduced;
    std::vector<Affine> generators;
    std::vector<Affine> outputs;
    std::vector<std::vector<Affine>> dense(kDenseConvolutions);
    std::vector<Affine> merged;
    for (const int64_t dilation : dilations_) {
      const std::string branch = branch_name(prefix, dilation);
      const std::string layer = branch + ".gernerate_kernel.1";
      features.push_back(read_affine(parameters, branch + ".gernerate_kernel.0"));
      // `down` follows the first convolution with no activation between, so the two compose.
      reduced.push_back(
          compose_pointwise(features.back(), read_affine(parameters, layer + ".down")));
      for (int64_t i = 0; i < kDenseConvolutions; ++i) {
        dense[i].push_back(read_basic_conv(parameters, layer + ".denseblock." + std::to_string(i)));
      }
      merged.push_back(read_basic_conv(parameters, layer + ".fuse"));
      generators.push_back(read_affine(parameters, branch + ".gernerate_kernel.2"));
      outputs.push_back(read_affine(parameters, branch + ".fuse"));
    }
    feature_channels_ = features.front().weight.size(0);
    mid_ = reduced.front().weight.size(0);
    std::vector<Affine> first = features;
    first.insert(first.end(), reduced.begin(), reduced.end());
    read_in_place_ = backend.read_in_place;
    const Affine down_input = read_affine(parameters, prefix + "down_input");
    if (read_in_place_) {
      joined_down_input_ = {down_input, {}, backend};
      joined_first_ = {pad_outputs(concatenate(first)), {}, backend};
    } else {
      down_input_ = {down_input, {}, backend};
      first_ = {concatenate(first), {}, backend};
    }
    set_generator(concatenate(generators), backend);
    if (read_in_place_) {
      for (const auto& step : dense) {
        joined_dense_.emplace_back(concatenate(step), grouped(true), backend);
      }
      joined_merge_ = {concatenate(merged), grouped(true), backend};
      joined_output_ = {concatenate(outputs), grouped(false), backend};
      joined_fuse_ = joined_basic_conv(parameters, prefix + "fuse", backend);
      return;
    }
    for (const auto& step : dense) dense_.emplace_back(concatenate(step), grouped(true), backend);
    merge_ = {concatenate(merged), grouped(true), backend};
    output_ = {concatenate(outputs), grouped(false), backend};
  }

  // y (N,64,H,W) -> (N, branches*64, H, W): what each branch makes its taps from
  at::Tensor prepare(const at::Tensor& y, ModuleCost* cost) const override {
    const at::Tensor first = read_in_place_ ? joined_first_({y}, cost) : first_(y, cost);
    const at::Tensor feature = first.narrow(1, 0, branches() * feature_channels_);
    const at::Tensor reduced = first.narrow(1, branches() * feature_channels_, branches() * mid_);
    std::vector<at::Tensor> maps = {reduced};
    at::Tensor newest;
    for (const JoinedConvolution& convolution : joined_dense_) {
      newest = convolution(maps, cost);
      maps.insert(maps.end() - 1, newest);
    }
    if (read_in_place_) return joined_merge_({feature, newest}, cost);
    for (const Convolution& convolution : dense_) {
      newest = convolution(join(maps), cost);
      maps.insert(maps.end() - 1, newest);
    }
    return merge_(join({feature, newest}), cost);
  }

  at::Tensor filter(const at::Tensor& input, const at::Tensor& features,
                    ModuleCost* cost) const override {
    const at::Tensor x =
        read_in_place_ ? joined_down_input_({input}, cost) : down_input_(input, cost);
    const at::Tensor filtered = taps_on_chip_ ? filter_on_chip(x, features, cost)
                                              : filter_with_stored_taps(x, features, cost);
    if (read_in_place_) return joined_fuse_({x, joined_output_({filtered}, cost)}, cost);
    return fuse_(at::cat({x, output_(filtered, cost)}, 1), cost);
  }

 private:
  ConvolutionOptions grouped(bool relu) const {
    ConvolutionOptions options;
    options.groups = branches();
    options.relu = relu;
    return options;
  }

  int64_t branches() const { return static_cast<int64_t>(dilations_.size()); }

  // maps[i] is (N, branches*c_i, H, W), branch-major; so is the result.
  at::Tensor join(const std::vector<at::Tensor>& maps) const {
    std::vector<at::Tensor> slices;
    for (int64_t b = 0; b < branches(); ++b) {
      for (const at::Tensor& map : maps) {
        const int64_t width = map.size(1) / branches();
        slices.push_back(map.narrow(1, b * width, width));
      }
    }
    return at::cat(slices, 1);
  }

  // The last 1x1 of the generators, whose outputs are the taps. In half precision on CUDA the
  // operator makes and uses them on the chip; elsewhere a convolution of the vendor's library is
  // faster.
  void set_generator(const Affine& taps, const Backend& backend) {
    taps_on_chip_ = backend.half_on_cuda();
    if (!taps_on_chip_) {
      generate_ = {taps, grouped(false), backend};
      return;
    }
    const int64_t rows = taps.weight.size(0) / branches();
    const auto prepare = [&](const at::Tensor& tensor, at::IntArrayRef sizes) {
      return tensor.reshape(sizes).to(backend.dtype).to(backend.device).contiguous();
    };
    tap_weight_ = prepare(taps.weight, {branches(), rows, taps.weight.size(1)});
    tap_bias_ = prepare(taps.bias, {branches(), rows});
  }

  at::Tensor filter_with_stored_taps(const at::Tensor& x, const at::Tensor& features,
                                     ModuleCost* cost) const {
    const at::Tensor kernels =
        generate_(features, cost)
            .view({x.size(0), branches(), mid_, kernel_size_ * kernel_size_, x.size(2), x.size(3)});
    at::Tensor filtered = ops::dynamic_filter(x, kernels, dilations_);
    count_filter(x, kernels.numel(), kernels.numel(), filtered, cost);
    return filtered;
  }

  at::Tensor filter_on_chip(const at::Tensor& x, const at::Tensor& features,
                            ModuleCost* cost) const {
    const at::Tensor y =
        features.view({x.size(0), branches(), features.size(1) / branches(), x.size(2), x.size(3)});
    at::Tensor filtered = ops::generated_dynamic_filter(x, y, tap_weight_, tap_bias_, dilations_);
    const int64_t taps = filtered.numel() * kernel_size_ * kernel_size_;
    count_filter(x, taps, features.numel() + tap_weight_.numel(), filtered, cost);
    if (cost != nullptr) {
      cost->flop += 2.0 * static_cast<double>(taps) * static_cast<double>(y.size(2));
    }
    return filtered;
  }

  std::vector<int64_t> dilations_;
  int64_t kernel_size_;
  int64_t feature_channels_ = 0;
  int64_t mid_ = 0;
  Convolution down_input_;
  Convolution first_;
  JoinedConvolution joined_down_input_;  ///< this and the next where read_in_place_
  JoinedConvolution joined_first_;
  std::vector<Convolution> dense_;
  Convolution merge_;
  bool taps_on_chip_ = false;
  Convolution generate_;   ///< where the taps are stored
  at::Tensor tap_weight_;  ///< (branches, mid*K*K, 64), where they are not
  at::Tensor tap_bias_;    ///< (branches, mid*K*K)
  Convolution output_;
  Convolution fuse_;
  bool read_in_place_ = false;  ///< these take the places of dense_, merge_, output_ and fuse_
  std::vector<JoinedConvolution> joined_dense_;
  JoinedConvolution joined_merge_;
  JoinedConvolution joined_output_;
  JoinedConvolution joined_fuse_;
};

class ReferenceDdpm final : public Ddpm {
 public:
  ReferenceDdpm(const Parameters& parameters, const std::string& prefix,
                const Architecture& architecture, const Backend& backend)
      : kernel_size_(architecture.ddpm_kernel_size),
        down_input_(read_affine(parameters, prefix + "down_input"), {}, backend),
        fuse_(basic_conv(parameters, prefix + "fuse", backend)) {
    for (const int64_t dilation : architecture.dilations) {
      const std::string branch = branch_name(prefix, dilation);
      const auto conv = [&](const std::string& name) {
        return Convolution(read_affine(parameters, branch + name), {}, backend);
      };
      branches_.push_back({dilation, conv(".gernerate_kernel.0"),
                           DenseLayer(parameters, branch + ".gernerate_kernel.1", backend),
                           conv(".gernerate_kernel.2"), conv(".fuse")});
    }
  }

  at::Tensor prepare(const at::Tensor& y, ModuleCost* /*cost*/) const override { return y; }

  at::Tensor filter(const at::Tensor& input, const at::Tensor& y, ModuleCost* cost) const override {
    const at::Tensor x = down_input_(input, cost);
    std::vector<at::Tensor> maps = {x};
    for (const Branch& branch : branches_) {
      const at::Tensor features = branch.features(y, cost);
      const at::Tensor taps = branch.taps(branch.dense.forward(features, cost), cost);
      maps.push_back(branch.fuse(filter_one(x, taps, branch.dilation, cost), cost));
    }
    return fuse_(at::cat(maps, 1), cost);
  }

 private:
  struct Branch {
    int64_t dilation;
    Convolution features;
    DenseLayer dense;
    Convolution taps;
    Convolution fuse;
  };

  at::Tensor filter_one(const at::Tensor& x, const at::Tensor& taps, int64_t dilation,
                        ModuleCost* cost) const {
    const int64_t k = kernel_size_;
    const std::vector<int64_t> sizes = {x.size(0), x.size(1), k * k, x.size(2), x.size(3)};
    const int64_t padding = dilation * (k / 2);
    const at::Tensor columns =
        at::im2col(x.contiguous(), {k, k}, {dilation, dilation}, {padding, padding}, {1, 1});
    at::Tensor y = (columns.view(sizes) * taps.reshape(sizes)).sum(2);
    count_filter(x, taps.numel(), taps.numel(), y, cost);
    return y.contiguous(x.suggest_memory_format());
  }

  int64_t kernel_size_;
  Convolution down_input_;
  std::vector<Branch> branches_;
  Convolution fuse_;
};

}  // namespace

std::unique_ptr<Ddpm> make_fused_ddpm(const Parameters& parameters, const std::string& prefix,
                                      const Architecture& architecture, const Backend& backend) {
  return std::make_unique<FusedDdpm>(parameters, prefix, architecture, backend);
}

std::unique_ptr<Ddpm> make_reference_ddpm(const Parameters& parameters, const std::string& prefix,
                                          const Architecture& architecture,
                                          const Backend& backend) {
  return std::make_unique<ReferenceDdpm>(parameters, prefix, architecture, backend);
}

}  // namespace hdfnet
