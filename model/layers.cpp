#include "layers.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "hdfnet/ops/convolution.h"
#include "hdfnet/ops/packed_conv2d.h"

namespace hdfnet {
namespace {

constexpr double kBatchNormEpsilon = 1e-5;  // PyTorch's default, which the network keeps

// oneDNN's convolution with a fused activation or addition, which LibTorch registers as operators.
using PointwiseSignature = at::Tensor(const at::Tensor&, const at::Tensor&,
                                      const std::optional<at::Tensor>&, at::IntArrayRef,
                                      at::IntArrayRef, at::IntArrayRef, int64_t, std::string_view,
                                      c10::List<std::optional<at::Scalar>>,
                                      std::optional<std::string_view>);
using BinarySignature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                   const std::optional<at::Tensor>&, at::IntArrayRef,
                                   at::IntArrayRef, at::IntArrayRef, int64_t, std::string_view,
                                   std::optional<at::Scalar>, std::optional<std::string_view>,
                                   c10::List<std::optional<at::Scalar>>,
                                   std::optional<std::string_view>);

const c10::TypedOperatorHandle<PointwiseSignature>& onednn_convolution() {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("mkldnn::_convolution_pointwise", "")
                                 .typed<PointwiseSignature>();
  return handle;
}

const c10::TypedOperatorHandle<BinarySignature>& onednn_convolution_add() {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("mkldnn::_convolution_pointwise", "binary")
                                 .typed<BinarySignature>();
  return handle;
}

// Weights in the blocked layout that oneDNN's kernels read, so that no call reorders them again.
at::Tensor pack_for_onednn(const at::Tensor& weight, at::IntArrayRef padding,
                           at::IntArrayRef stride, int64_t groups) {
  const std::vector<int64_t> dilation = {1, 1};
  return at::mkldnn_reorder_conv2d_weight(weight.to_mkldnn(), padding, stride, dilation, groups);
}

// A grouped convolution's weight as a plain one's, zero between groups. At this network's 16 to 80
// channels a group, cuDNN pads so much on tensor cores that the zeros cost nothing, while its
// grouped kernels are several times slower.
at::Tensor ungroup(const at::Tensor& weight, int64_t groups) {
  const int64_t out = weight.size(0) / groups;
  const int64_t in = weight.size(1);
  std::vector<int64_t> sizes = weight.sizes().vec();
  sizes[1] = in * groups;
  at::Tensor plain = at::zeros(sizes, weight.options());
  for (int64_t g = 0; g < groups; ++g) {
    plain.narrow(0, g * out, out).narrow(1, g * in, in).copy_(weight.narrow(0, g * out, out));
  }
  return plain;
}

// How many partial sums a convolution's reduction must be split into for no chain to be longer than
// `longest`, in whole blocks of the channels that the kernels vectorise over.
int64_t reduction_splits(const at::Tensor& weight, int64_t longest) {
  constexpr int64_t kChannelBlock = 32;
  const int64_t channels = weight.size(1);
  const int64_t length = channels * weight.size(2) * weight.size(3);
  int64_t splits = 1;
  while (length / splits > longest && channels % (2 * splits * kChannelBlock) == 0) splits *= 2;
  return splits;
}

// Which convolutions hdfnet::ops::packed_conv2d takes from oneDNN; measured for each shape in
// ops/README.md, "On the CPU".
bool packing_pays(int64_t outputs, int64_t channels, int64_t kernel, int64_t groups) {
  if (kernel == 1) {
    // oneDNN is a tenth faster with small weights. Larger ones it wants in a layout that depends on
    // the map's size, and reorders at each call what was packed for another.
    constexpr int64_t kLargestSafe = 64 * 256;
    return groups == 1 && outputs * channels > kLargestSafe;
  }
  // Winograd's weights take 16/9 of the memory. ResNet-50's two largest would take 240 MB more for
  // a fourth of their time, which their reading decides.
  constexpr int64_t kLargestWinograd = 1024 * 1088;
  constexpr int64_t kFewestOutputs = 32;  // of a group: a panel of the kernels
  return outputs / groups >= kFewestOutputs && outputs * channels <= kLargestWinograd;
}

bool runs_packed(const at::Tensor& weight, const ConvolutionOptions& options,
                 const Backend& backend) {
  return backend.packed && backend.device.is_cpu() && backend.dtype == at::kFloat &&
         packing_pays(weight.size(0), weight.size(1), weight.size(2), options.groups) &&
         ops::can_run_packed_conv2d(weight.sizes(), options.stride, options.groups);
}

// Whether LibTorch's global state, which is the host's, has TF32 on. It throws where the host has
// set some of it through the newer switches: then nothing is taken for granted.
bool tf32_in_convolutions() {
  try {
    return at::globalContext().allowTF32CuDNN();
  } catch (const c10::Error&) {
    return false;
  }
}

bool tf32_in_products() {
  try {
    return at::globalContext().allowTF32CuBLAS();
  } catch (const c10::Error&) {
    return true;
  }
}

}  // namespace

Affine read_affine(const Parameters& parameters, const std::string& name) {
  Affine result;
  result.weight = dequantized(parameters, name + ".weight").to(at::kDouble);
  result.bias = parameters.count(name + ".bias") > 0
                    ? dequantized(parameters, name + ".bias").to(at::kDouble)
                    : at::zeros({result.weight.size(0)}, result.weight.options());
  return result;
}

Affine read_affine_norm(const Parameters& parameters, const std::string& conv,
                        const std::string& norm) {
  const Affine plain = read_affine(parameters, conv);
  const auto part = [&](const char* suffix) {
    return dequantized(parameters, norm + suffix).to(at::kDouble);
  };
  const at::Tensor scale = part(".weight") / (part(".running_var") + kBatchNormEpsilon).sqrt();
  return {plain.weight * scale.view({-1, 1, 1, 1}),
          (plain.bias - part(".running_mean")) * scale + part(".bias")};
}

Affine read_basic_conv(const Parameters& parameters, const std::string& name) {
  return read_affine_norm(parameters, name + ".basicconv.0", name + ".basicconv.1");
}

Affine compose_pointwise(const Affine& first, const Affine& second) {
  const at::Tensor matrix = second.weight.flatten(1);
  const at::Tensor weight = matrix.matmul(first.weight.flatten(1));
  std::vector<int64_t> sizes = first.weight.sizes().vec();
  sizes[0] = matrix.size(0);
  return {weight.view(sizes), matrix.matmul(first.bias) + second.bias};
}

Affine concatenate(const std::vector<Affine>& parts) {
  std::vector<at::Tensor> weights;
  std::vector<at::Tensor> biases;
  for (const Affine& part : parts) {
    weights.push_back(part.weight);
    biases.push_back(part.bias);
  }
  return {at::cat(weights, 0), at::cat(biases, 0)};
}

Convolution::Convolution(const Affine& affine, const ConvolutionOptions& options,
                         const Backend& backend)
    : backend_(backend),
      options_(options),
      weight_sizes_(affine.weight.sizes().vec()),
      padding_(2, affine.weight.size(2) / 2),
      stride_(2, options.stride) {
  bias_ = affine.bias.to(backend.device, backend.dtype);
  has_bias_ = affine.bias.any().item<bool>();
  packed_ = runs_packed(affine.weight, options, backend);
  if (packed_) {
    weight_ = ops::pack_conv2d_weight(affine.weight, options.groups);
    return;
  }
  weight_ = affine.weight.to(backend.dtype).to(backend.device);
  const bool on_tensor_cores =
      backend.half_on_cuda() || (backend.device.is_cuda() && backend.allow_tf32);
  if (on_tensor_cores && options_.groups > 1) {
    weight_ = ungroup(weight_, options_.groups);
    options_.groups = 1;
  }
  if (backend.longest_chain > 0 && options.groups == 1) {
    splits_ = reduction_splits(weight_, backend.longest_chain);
    if (splits_ > 1) {
      // Each split becomes a group with outputs of its own, which are added up afterwards.
      weight_ = at::cat(weight_.chunk(splits_, 1), 0);
      options_.groups = splits_;
    }
  }
  if (backend.device.is_cpu() && at::hasMKLDNN() && backend.dtype != at::kDouble) {
    weight_ = pack_for_onednn(weight_.contiguous(), padding_, stride_, options_.groups);
  } else {
    weight_ = weight_.contiguous(backend.memory_format);
  }
}

void Convolution::count(const at::Tensor& x, const at::Tensor& y, ModuleCost* cost) const {
  if (cost == nullptr) return;
  double taps = 1;
  for (size_t i = 1; i < weight_sizes_.size(); ++i) taps *= static_cast<double>(weight_sizes_[i]);
  cost->flop += 2.0 * taps * static_cast<double>(y.numel());
  const double elements =
      static_cast<double>(x.numel() + y.numel()) + taps * static_cast<double>(weight_sizes_[0]);
  cost->bytes += elements * static_cast<double>(y.element_size());
}

at::Tensor Convolution::run_cpu(const at::Tensor& x, const std::optional<at::Tensor>& other) const {
  if (packed_) {
    return ops::packed_conv2d(x, weight_, bias_, other, {options_.stride, options_.relu, {}});
  }
  if (splits_ > 1) return run_split(x, other);
  const std::vector<int64_t> dilation = {1, 1};
  if (!weight_.is_mkldnn()) {
    at::Tensor y = at::conv2d(x, weight_, bias_, stride_, padding_, dilation, options_.groups);
    if (other) y.add_(*other);
    return options_.relu ? y.relu_() : y;
  }
  const c10::List<std::optional<at::Scalar>> no_scalars;
  if (other) {
    const auto unary = options_.relu ? std::optional<std::string_view>("relu") : std::nullopt;
    return onednn_convolution_add().call(x, *other, weight_, bias_, padding_, stride_, dilation,
                                         options_.groups, "add", at::Scalar(1.0), unary, no_scalars,
                                         std::nullopt);
  }
  return onednn_convolution().call(x, weight_, bias_, padding_, stride_, dilation, options_.groups,
                                   options_.relu ? "relu" : "none", no_scalars, std::nullopt);
}

at::Tensor Convolution::run_split(const at::Tensor& x,
                                  const std::optional<at::Tensor>& other) const {
  const c10::List<std::optional<at::Scalar>> no_scalars;
  const at::Tensor parts =
      weight_.is_mkldnn()
          ? onednn_convolution().call(x, weight_, std::nullopt, padding_, stride_, {1, 1},
                                      options_.groups, "none", no_scalars, std::nullopt)
          : at::conv2d(x, weight_, /*bias=*/{}, stride_, padding_, {1, 1}, options_.groups);
  const std::vector<at::Tensor> sums = parts.chunk(splits_, 1);
  at::Tensor y = sums[0] + bias_.view({1, -1, 1, 1});
  for (int64_t i = 1; i < splits_; ++i) y.add_(sums[i]);
  if (other) y.add_(*other);
  return options_.relu ? y.relu_() : y;
}

// cuBLAS is several times faster than cuDNN at exact float32 1x1s of channels_last maps, but takes
// its TF32 switch from LibTorch's global state, which is the host's.
bool Convolution::is_exact_product(const at::Tensor& x) const {
  return backend_.dtype == at::kFloat && !backend_.allow_tf32 && options_.groups == 1 &&
         options_.stride == 1 && weight_.size(2) == 1 &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast) && !tf32_in_products();
}

at::Tensor Convolution::run_cuda(const at::Tensor& x,
                                 const std::optional<at::Tensor>& other) const {
  const std::vector<int64_t> dilation = {1, 1};
  // The fused forms take their TF32 switch from LibTorch's global state, which is the host's.
  const bool as_wanted = backend_.half_on_cuda() || (backend_.allow_tf32 && tf32_in_convolutions());
  if (backend_.half_on_cuda() && other && options_.stride == 1) {
    return ops::conv2d_add(x, weight_, bias_, *other, options_.relu);
  }
  if (as_wanted && options_.relu) {  // never grouped: the constructor saw to that
    if (other) {
      return at::cudnn_convolution_add_relu(x, weight_, *other, at::Scalar(1.0), bias_, stride_,
                                            padding_, dilation, options_.groups);
    }
    return at::cudnn_convolution_relu(x, weight_, bias_, stride_, padding_, dilation,
                                      options_.groups);
  }
  if (is_exact_product(x) && !options_.relu && !other) {
    const at::Tensor pixels = x.permute({0, 2, 3, 1});
    return at::addmm(bias_, pixels.flatten(0, 2), weight_.flatten(1).t())
        .view({x.size(0), x.size(2), x.size(3), weight_.size(0)})
        .permute({0, 3, 1, 2});
  }
  // Here TF32 is an argument, so engines of different precisions can run side by side.
  const auto convolve = [&](const at::Tensor& maps, const at::Tensor& weight) {
    return at::cudnn_convolution(maps, weight, padding_, stride_, dilation, /*groups=*/1,
                                 /*benchmark=*/false, /*deterministic=*/false, backend_.allow_tf32);
  };
  at::Tensor y;
  if (options_.groups == 1) {
    y = convolve(x, weight_);
  } else {
    // cuDNN's grouped float32 kernels are several times slower than a call for each group.
    const std::vector<at::Tensor> maps = x.chunk(options_.groups, 1);
    const std::vector<at::Tensor> weights = weight_.chunk(options_.groups, 0);
    std::vector<at::Tensor> parts;
    for (size_t g = 0; g < maps.size(); ++g) parts.push_back(convolve(maps[g], weights[g]));
    y = at::cat(parts, 1);
  }
  if (!has_bias_ && !other && !options_.relu) return y;
  return ops::bias_relu_(y, bias_, other, options_.relu);
}

at::Tensor Convolution::operator()(const at::Tensor& x, ModuleCost* cost) const {
  at::Tensor y = backend_.device.is_cpu() ? run_cpu(x, std::nullopt) : run_cuda(x, std::nullopt);
  count(x, y, cost);
  return y;
}

at::Tensor Convolution::add(const at::Tensor& x, const at::Tensor& other, ModuleCost* cost) const {
  at::Tensor y = backend_.device.is_cpu() ? run_cpu(x, other) : run_cuda(x, other);
  count(x, y, cost);
  if (cost != nullptr) {
    cost->bytes += static_cast<double>(other.numel()) * static_cast<double>(other.element_size());
  }
  return y;
}

StemConvolution::StemConvolution(const Affine& affine, const ConvolutionOptions& options,
                                 const Backend& backend)
    : options_(options),
      weight_(affine.weight.to(backend.dtype).to(backend.device).contiguous()),
      bias_(affine.bias.to(backend.device, backend.dtype)) {}

at::Tensor StemConvolution::operator()(const at::Tensor& x, ModuleCost* cost) const {
  at::Tensor y = ops::stem_conv2d(x, weight_, bias_, options_.stride, options_.relu);
  if (cost != nullptr) {
    const double taps = static_cast<double>(weight_.numel()) / static_cast<double>(weight_.size(0));
    cost->flop += 2.0 * taps * static_cast<double>(y.numel());
    cost->bytes +=
        static_cast<double>(x.numel()) * static_cast<double>(x.element_size()) +
        static_cast<double>(y.numel() + weight_.numel()) * static_cast<double>(y.element_size());
  }
  return y;
}

bool joins_pointwise(const Affine& affine, const Backend& backend) {
  constexpr int64_t kMostChannels = 256;
  return backend.joined_transport && affine.weight.size(1) <= kMostChannels;
}

JoinedConvolution::JoinedConvolution(const Affine& affine, const ConvolutionOptions& options,
                                     const Backend& backend)
    : options_(options),
      weight_(affine.weight.to(backend.dtype)
                  .to(backend.device)
                  .contiguous(at::MemoryFormat::ChannelsLast)),
      bias_(affine.bias.to(backend.device, backend.dtype)) {}

at::Tensor JoinedConvolution::operator()(const std::vector<at::Tensor>& maps,
                                         ModuleCost* cost) const {
  at::Tensor y = ops::concat_conv2d(maps, weight_, bias_, options_.groups, options_.relu);
  if (cost != nullptr) {
    const double taps = static_cast<double>(weight_.numel()) / static_cast<double>(weight_.size(0));
    cost->flop += 2.0 * taps * static_cast<double>(y.numel());
    double elements = static_cast<double>(y.numel() + weight_.numel());
    for (const at::Tensor& map : maps) elements += static_cast<double>(map.numel());
    cost->bytes += elements * static_cast<double>(y.element_size());
  }
  return y;
}

std::pair<at::Tensor, at::Tensor> JoinedConvolution::pooled(const at::Tensor& x,
                                                            const JoinedConvolution* side) const {
  const auto of_side = [side](const at::Tensor JoinedConvolution::*part) {
    return side != nullptr ? std::optional<at::Tensor>(side->*part) : std::nullopt;
  };
  auto [pooled, beside] = ops::conv2d_pool(x, weight_, bias_, of_side(&JoinedConvolution::weight_),
                                           of_side(&JoinedConvolution::bias_));
  return {std::move(pooled), std::move(beside)};
}

bool JoinedConvolution::is_wide(const std::vector<at::Tensor>& maps) const {
  return ops::concat_conv2d_is_wide(maps, weight_, bias_, options_.groups);
}

at::Tensor JoinedConvolution::with_head(const at::Tensor& x, const JoinedConvolution& head) const {
  return ops::conv2d_head(x, weight_, bias_, head.weight_, head.bias_);
}

Convolution basic_conv(const Parameters& parameters, const std::string& name,
                       const Backend& backend) {
  ConvolutionOptions options;
  options.relu = true;
  return {read_basic_conv(parameters, name), options, backend};
}

JoinedConvolution joined_basic_conv(const Parameters& parameters, const std::string& name,
                                    const Backend& backend) {
  ConvolutionOptions options;
  options.relu = true;
  return {read_basic_conv(parameters, name), options, backend};
}

}  // namespace hdfnet
