// Tells the variant from the parameters and checks each of them against the network's definition.

#include "hdfnet/architecture.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

#include "hdfnet/error.h"
#include "layout.h"
#include "quantization.h"

namespace hdfnet {
namespace {

using Shape = std::vector<int64_t>;
using Specification = std::map<std::string, Shape>;

std::string text(at::IntArrayRef shape) {
  std::ostringstream out;
  out << '(';
  for (size_t i = 0; i < shape.size(); ++i) out << (i ? ", " : "") << shape[i];
  out << ')';
  return out.str();
}

// Adds the parameters of one layer or block to the specification of a whole network.
class SpecificationWriter {
 public:
  explicit SpecificationWriter(Specification& out) : out_(out) {}

  void conv(const std::string& name, int64_t out, int64_t in, int64_t kernel, bool bias) {
    out_[name + ".weight"] = {out, in, kernel, kernel};
    if (bias) out_[name + ".bias"] = {out};
  }

  void batch_norm(const std::string& name, int64_t channels) {
    for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"}) {
      out_[name + part] = {channels};
    }
    out_[name + ".num_batches_tracked"] = {};
  }

  void basic_conv(const std::string& name, int64_t out, int64_t in) {
    conv(name + ".basicconv.0", out, in, 3, /*bias=*/false);
    batch_norm(name + ".basicconv.1", out);
  }

  void dense_layer(const std::string& name, int64_t channels, int64_t mid) {
    conv(name + ".down", mid, channels, 1, true);
    for (int64_t i = 0; i < kDenseConvolutions; ++i) {
      basic_conv(name + ".denseblock." + std::to_string(i), mid, mid * (i + 1));
    }
    basic_conv(name + ".fuse", channels, channels + mid);
  }

  void dense_transport(const std::string& name, int64_t channels) {
    basic_conv(name + ".fuse_down_mul", channels, channels);
    dense_layer(name + ".res_main", channels, kTransportChannels);
    basic_conv(name + ".fuse_main", kTransportChannels, channels);
  }

  void ddpm(const std::string& name, const Architecture& architecture, int64_t mid) {
    const int64_t taps = int64_t{architecture.ddpm_kernel_size} * architecture.ddpm_kernel_size;
    conv(name + ".down_input", mid, kTransportChannels, 1, true);
    for (const int64_t dilation : architecture.dilations) {
      const std::string branch = name + ".branch_" + std::to_string(dilation);
      const std::string generator = branch + ".gernerate_kernel.";
      conv(branch + ".fuse", mid, mid, 3, true);
      conv(generator + "0", kTransportChannels, kTransportChannels, 3, true);
      dense_layer(generator + "1", kTransportChannels, mid);
      conv(generator + "2", mid * taps, kTransportChannels, 1, true);
    }
    const int64_t branches = static_cast<int64_t>(architecture.dilations.size());
    basic_conv(name + ".fuse", kTransportChannels, mid * (branches + 1));
  }

  void vgg_stage(const std::string& name, const VggStage& stage, int64_t first_in) {
    int64_t in = first_in;
    for (const int index : stage.convolutions) {
      conv(name + "." + std::to_string(index), stage.channels, in, 3, true);
      batch_norm(name + "." + std::to_string(index + 1), stage.channels);
      in = stage.channels;
    }
  }

  void resnet_stem(const std::string& name, int64_t in) {
    conv(name + ".0", 64, in, 7, /*bias=*/false);
    batch_norm(name + ".1", 64);
  }

  void resnet_stage(const std::string& name, const ResnetStage& stage) {
    int64_t in = stage.in_channels;
    for (int block = 0; block < stage.blocks; ++block) {
      const std::string prefix = name + "." + std::to_string(block) + ".";
      const int64_t width = stage.width;
      conv(prefix + "conv1", width, in, 1, false);
      batch_norm(prefix + "bn1", width);
      conv(prefix + "conv2", width, width, 3, false);
      batch_norm(prefix + "bn2", width);
      conv(prefix + "conv3", width * kBottleneckExpansion, width, 1, false);
      batch_norm(prefix + "bn3", width * kBottleneckExpansion);
      if (block == 0) {
        conv(prefix + "downsample.0", width * kBottleneckExpansion, in, 1, false);
        batch_norm(prefix + "downsample.1", width * kBottleneckExpansion);
      }
      in = width * kBottleneckExpansion;
    }
  }

 private:
  Specification& out_;
};

void write_encoders(SpecificationWriter& writer, const Architecture& architecture) {
  for (const std::string stream : {"encoder", "depth_encoder"}) {
    const int64_t input = stream == "encoder" ? 3 : 1;
    for (size_t i = 0; i < architecture.strides.size(); ++i) {
      const std::string name = stream + std::to_string(architecture.strides[i]);
      if (architecture.variant != Variant::resnet50) {
        const auto& stages = vgg_stages(architecture.variant);
        writer.vgg_stage(name, stages[i], i == 0 ? input : stages[i - 1].channels);
      } else if (i == 0) {
        writer.resnet_stem(name, input);
      } else {
        // encoder4 is [maxpool, layer1]: its blocks sit one level deeper, at index 1.
        writer.resnet_stage(i == 1 ? name + ".1" : name, resnet_stages()[i - 1]);
      }
    }
  }
}

Specification specification(const Architecture& architecture, int64_t ddpm_mid) {
  Specification result;
  SpecificationWriter writer(result);
  write_encoders(writer, architecture);
  for (const int stride : architecture.strides) {
    const int64_t channels = stage_channels(architecture, stride);
    writer.conv("trans" + std::to_string(stride), stride == 1 ? kHeadChannels : kTransportChannels,
                channels, 1, true);
  }
  for (const int stride : architecture.fusion_strides) {
    writer.dense_transport("depth_trans" + std::to_string(stride),
                           stage_channels(architecture, stride));
    writer.ddpm("selfdc_" + std::to_string(stride), architecture, ddpm_mid);
  }
  for (const int stride : decoder_strides(architecture)) {
    const int64_t in = stride == 1 ? kHeadChannels : kTransportChannels;
    const int64_t out = stride <= 2 ? kHeadChannels : kTransportChannels;
    writer.basic_conv("upconv" + std::to_string(stride), out, in);
  }
  writer.conv("classifier", 1, kHeadChannels, 1, true);
  return result;
}

std::optional<Variant> find_variant(const Parameters& parameters) {
  const auto has = [&](const char* key) { return parameters.count(key) != 0; };
  if (has("encoder32.0.conv1.weight")) return Variant::resnet50;
  if (has("encoder4.10.weight")) return Variant::vgg19;
  if (has("encoder1.0.weight") && has("encoder16.1.weight")) return Variant::vgg16;
  return std::nullopt;
}

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::weights, message);
}

std::string first_names(const Parameters& parameters) {
  std::string names;
  int shown = 0;
  for (const auto& entry : parameters) {
    if (shown++ == 4) break;
    names += (shown > 1 ? ", " : "") + entry.first;
  }
  return names;
}

// branch_1, branch_3, branch_5 -> 1 3 5, in rising order.
std::vector<int64_t> find_dilations(const Parameters& parameters, const std::string& ddpm) {
  const std::string prefix = ddpm + ".branch_";
  std::set<int64_t> found;
  for (auto it = parameters.lower_bound(prefix); it != parameters.end(); ++it) {
    if (it->first.compare(0, prefix.size(), prefix) != 0) break;
    const std::string digits =
        it->first.substr(prefix.size(), it->first.find('.', prefix.size()) - prefix.size());
    const bool number =
        !digits.empty() && digits.size() < 5 &&
        std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!number || std::stoll(digits) < 1) {
      fail("parameter " + it->first + ": branch_" + digits +
           " is not a branch of a DDPM; the name must end in its dilation, 1 or more.");
    }
    found.insert(std::stoll(digits));
  }
  if (found.empty())
    fail("parameter " + prefix + "D...: no branch of the DDPM was found, expected at least one.");
  return {found.begin(), found.end()};
}

int64_t size_of(const Parameters& parameters, const std::string& name, int64_t dimension) {
  const auto it = parameters.find(name);
  if (it == parameters.end()) fail("parameter " + name + " is missing.");
  if (it->second.dim() <= dimension) {
    fail("parameter " + name + ": expected a convolution weight of 4 dimensions, found shape " +
         text(it->second.sizes()) + ".");
  }
  return it->second.size(dimension);
}

int kernel_size(int64_t rows, int64_t mid, const std::string& name) {
  for (int k = 1; mid > 0 && k <= 31; k += 2) {
    if (rows == mid * k * k) return k;
  }
  fail("parameter " + name + ": its " + std::to_string(rows) +
       " output channels are not channels x K x K for " + std::to_string(mid) +
       " channels and an odd K.");
}

void check_shape(const std::string& name, const at::Tensor& tensor, const Shape& expected) {
  if (tensor.sizes() != at::IntArrayRef(expected)) {
    fail("parameter " + name + ": expected shape " + text(expected) + ", found " +
         text(tensor.sizes()) + ".");
  }
}

bool optional_entry(const std::string& name) {
  return name.find(".num_batches_tracked") != std::string::npos;
}

void check_finite(const std::string& name, const at::Tensor& tensor) {
  if (at::isfinite(tensor).all().item<bool>()) return;
  const int64_t bad = at::isfinite(tensor).logical_not().sum().item<int64_t>();
  fail("parameter " + name + ": " + std::to_string(bad) + " of its " +
       std::to_string(tensor.numel()) + " values are NaN, infinite or too large for float32.");
}

void check_values(const Parameters& stored, const std::string& name, const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kChar) {
    // What an int8 stands for is finite if 128 times its scale is.
    check_finite(name + "_scale", scale_of(stored, name, tensor) * 128);
    return;
  }
  if (!at::isFloatingType(tensor.scalar_type())) {
    if (optional_entry(name)) return;
    fail("parameter " + name + ": expected floating-point values, found " +
         std::string(c10::toString(tensor.scalar_type())) + ".");
  }
  const at::ScalarType type = tensor.scalar_type();
  const bool as_it_is = type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
  check_finite(name, as_it_is ? tensor : tensor.to(at::kFloat));  // float64 may not fit
}

// The first few of a list of names, and how many more there are.
std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < 3; ++i) out += (i ? ", " : "") + names[i];
  if (names.size() > 3) out += " and " + std::to_string(names.size() - 3) + " more";
  return out;
}

void check_all(const Parameters& parameters, const Specification& expected, Variant variant) {
  const std::string network = " of HDFNet " + std::string(name(variant));
  std::vector<std::string> missing;
  for (const auto& [key, shape] : expected) {
    if (parameters.count(key) == 0 && !optional_entry(key))
      missing.push_back(key + " " + text(shape));
  }
  std::vector<std::string> unexpected;
  for (const auto& [key, tensor] : parameters) {
    if (expected.count(key) == 0 && !is_scale(parameters, key))
      unexpected.push_back(key + " " + text(tensor.sizes()));
  }
  if (!missing.empty()) {
    std::string message = "missing parameter" + network + ", expected: " + listed(missing) + ".";
    if (!unexpected.empty()) message += " Unexpected in its place: " + listed(unexpected) + ".";
    fail(message);
  }
  if (!unexpected.empty())
    fail("unexpected parameter, not" + network + ": " + listed(unexpected) + ".");
  for (const auto& [key, shape] : expected) {
    const auto entry = parameters.find(key);
    if (entry == parameters.end()) continue;  // it is optional
    check_shape(key, entry->second, shape);
    check_values(parameters, key, entry->second);
  }
}

}  // namespace

std::string_view name(Variant variant) {
  switch (variant) {
    case Variant::vgg16:
      return "VGG16";
    case Variant::vgg19:
      return "VGG19";
    case Variant::resnet50:
      return "ResNet-50";
  }
  return "?";
}

Architecture inspect(const Parameters& parameters) {
  const std::optional<Variant> variant = find_variant(parameters);
  if (!variant) {
    fail(
        "the parameters are not those of HDFNet VGG16, VGG19 or ResNet-50: none of "
        "encoder1.0.weight "
        "and encoder32.0.conv1.weight is there; the first names found are " +
        first_names(parameters) + ".");
  }
  Architecture result;
  result.variant = *variant;
  const bool resnet = *variant == Variant::resnet50;
  result.strides = resnet ? std::vector<int>{2, 4, 8, 16, 32} : std::vector<int>{1, 2, 4, 8, 16};
  result.fusion_strides = resnet ? std::vector<int>{32, 16, 8} : std::vector<int>{16, 8, 4};

  const std::string ddpm = "selfdc_" + std::to_string(result.fusion_strides.front());
  result.dilations = find_dilations(parameters, ddpm);
  const int64_t mid = size_of(parameters, ddpm + ".down_input.weight", 0);
  const std::string generator =
      ddpm + ".branch_" + std::to_string(result.dilations.front()) + ".gernerate_kernel.2.weight";
  result.ddpm_kernel_size = kernel_size(size_of(parameters, generator, 0), mid, generator);

  check_all(parameters, specification(result, mid), *variant);
  return result;
}

}  // namespace hdfnet
