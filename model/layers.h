#pragma once

// Convolutions with everything that inference can fold into them, prepared for one device.

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "hdfnet/module_observer.h"
#include "hdfnet/parameters.h"

namespace hdfnet {

/// Where and in which arithmetic the layers run.
struct Backend {
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  bool allow_tf32 = false;
  at::MemoryFormat memory_format = at::MemoryFormat::ChannelsLast;
  /// Longest chain of float32 additions in a convolution's reduction, 0 for no limit (CPU only).
  int64_t longest_chain = 0;
  /// Convolutions run as hdfnet::ops::packed_conv2d where that pays (CPU, float32).
  bool packed = false;
  /// Concatenated maps are read where they lie (hdfnet::concat_conv2d) instead of being copied
  /// together.
  bool read_in_place = false;
  bool transport_in_place = false;  ///< also in the dense layers of the transport
  bool decoder_in_place = false;    ///< and the decoder's convolutions
  bool joined_transport = false;    ///< and 1x1s of up to 256 channels, which memory bounds
  /// The encoders' first convolutions read the float32 inputs (hdfnet::stem_conv2d), which are then
  /// not brought to `dtype` and `memory_format` before.
  bool stem_in_place = false;
  bool pool_values_only = false;    ///< maxima without the indices that ATen stores beside them
  bool stage_end_in_place = false;  ///< stages at strides 1 and 2 end pooled (hdfnet::conv2d_pool)
  /// Largest batch whose encoders run side by side, on two streams.
  int64_t encoders_beside_up_to = 0;
  /// Largest batch whose fusions run beside the encoders' later stages, on streams of their own.
  int64_t fusions_beside_up_to = 0;

  /// fp16 or bf16 on a card, where cuDNN's fused kernels and the on-chip operator are at their
  /// best.
  bool half_on_cuda() const {
    return device.is_cuda() && (dtype == at::kHalf || dtype == at::kBFloat16);
  }
};

/// A convolution's weight (O,I,K,K) and bias (O) in float64, so that folding and composing cost no
/// accuracy; `bias` is always defined.
struct Affine {
  at::Tensor weight;
  at::Tensor bias;
};

/// `name.weight` and, if there, `name.bias`, of parameters as stored.
Affine read_affine(const Parameters& parameters, const std::string& name);

/// The same followed by the BatchNorm `norm` in eval mode, folded.
Affine read_affine_norm(const Parameters& parameters, const std::string& conv,
                        const std::string& norm);

/// BasicConv2d: `name.basicconv.0` and its BatchNorm `name.basicconv.1`.
Affine read_basic_conv(const Parameters& parameters, const std::string& name);

/// The convolution that equals `second`, a 1x1, after `first` with no activation between.
Affine compose_pointwise(const Affine& first, const Affine& second);

/// Several convolutions of the same input as one, outputs in the given order.
Affine concatenate(const std::vector<Affine>& parts);

struct ConvolutionOptions {
  int64_t stride = 1;
  int64_t groups = 1;
  bool relu = false;
};

/// y = [relu](conv(x) + bias), padding K/2.
class Convolution {
 public:
  Convolution() = default;
  Convolution(const Affine& affine, const ConvolutionOptions& options, const Backend& backend);

  /// Adds the call's arithmetic and traffic to `cost`, where given.
  at::Tensor operator()(const at::Tensor& x, ModuleCost* cost) const;

  /// [relu](conv(x) + bias + other); `other` has the result's shape.
  at::Tensor add(const at::Tensor& x, const at::Tensor& other, ModuleCost* cost) const;

 private:
  void count(const at::Tensor& x, const at::Tensor& y, ModuleCost* cost) const;
  at::Tensor run_cpu(const at::Tensor& x, const std::optional<at::Tensor>& other) const;
  at::Tensor run_split(const at::Tensor& x, const std::optional<at::Tensor>& other) const;
  at::Tensor run_cuda(const at::Tensor& x, const std::optional<at::Tensor>& other) const;
  bool is_exact_product(const at::Tensor& x) const;

  Backend backend_;
  ConvolutionOptions options_;
  at::Tensor weight_;  ///< on the CPU in oneDNN's own blocked layout, or packed_conv2d's
  at::Tensor bias_;
  bool has_bias_ = true;  ///< whether any bias is other than zero
  bool packed_ = false;
  int64_t splits_ = 1;  ///< partial sums that the reduction is made of
  std::vector<int64_t> weight_sizes_;
  std::vector<int64_t> padding_;
  std::vector<int64_t> stride_;
};

/// The first convolution of an encoder, which reads the network's input in float32. Padding K/2.
class StemConvolution {
 public:
  StemConvolution() = default;
  StemConvolution(const Affine& affine, const ConvolutionOptions& options, const Backend& backend);

  /// x (N,C,H,W) of any floating type and layout -> (N,O,H',W') in the backend's type,
  /// channels_last.
  at::Tensor operator()(const at::Tensor& x, ModuleCost* cost) const;

 private:
  ConvolutionOptions options_;
  at::Tensor weight_;
  at::Tensor bias_;
};

/// Whether this 1x1 runs as a JoinedConvolution: with more channels, cuDNN's is faster.
bool joins_pointwise(const Affine& affine, const Backend& backend);

/// A convolution of concatenated maps, which are read where they lie. Padding K/2, stride 1.
class JoinedConvolution {
 public:
  JoinedConvolution() = default;
  JoinedConvolution(const Affine& affine, const ConvolutionOptions& options,
                    const Backend& backend);

  /// Groups are concatenated each by itself, as in hdfnet::concat_conv2d.
  at::Tensor operator()(const std::vector<at::Tensor>& maps, ModuleCost* cost) const;

  /// max_pool(relu(conv(x)), 2) and, unless `side` is null, its 1x1 `side` of relu(conv(x)).
  std::pair<at::Tensor, at::Tensor> pooled(const at::Tensor& x,
                                           const JoinedConvolution* side) const;

  /// Whether these maps get hdfnet::concat_conv2d's kernel for large products.
  bool is_wide(const std::vector<at::Tensor>& maps) const;

  /// sigmoid(head(relu(conv(x)))) in float32; `head` is a 1x1 to one channel.
  at::Tensor with_head(const at::Tensor& x, const JoinedConvolution& head) const;

 private:
  ConvolutionOptions options_;
  at::Tensor weight_;
  at::Tensor bias_;
};

/// BasicConv2d with its BatchNorm folded: 3x3, ReLU.
Convolution basic_conv(const Parameters& parameters, const std::string& name,
                       const Backend& backend);

/// The same as a JoinedConvolution.
JoinedConvolution joined_basic_conv(const Parameters& parameters, const std::string& name,
                                    const Backend& backend);

}  // namespace hdfnet
