#include "hdfnet/engine.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

#include <limits>
#include <string>

#include "hdfnet/error.h"
#include "hdfnet/libtorch_version.h"
#include "hdfnet/ops/dynamic_filter.h"
#include "network.h"
#ifdef HDFNET_WITH_CUDA
#include <ATen/cuda/CUDAContext.h>

#include "graph_cache.h"
#endif

namespace hdfnet {
namespace {

Precision resolve(Precision asked, at::Device device) {
  const bool cuda = device.is_cuda();
  if (asked == Precision::automatic) return cuda ? Precision::fp16 : Precision::fp32;
  if (!cuda && (asked == Precision::tf32 || asked == Precision::fp16)) {
    throw Error(ErrorCode::device,
                "precision " + std::string(name(asked)) +
                    " exists on CUDA devices only; on the CPU choose fp32 or bf16.");
  }
  return asked;
}

at::ScalarType scalar_type(Precision precision) {
  if (precision == Precision::fp16) return at::kHalf;
  if (precision == Precision::bf16) return at::kBFloat16;
  return at::kFloat;
}

at::Device check_device(at::Device device) {
  if (device.is_cpu()) return device;
  if (!device.is_cuda()) {
    throw Error(ErrorCode::device, "device " + device.str() + ": only cpu and cuda are supported.");
  }
  if (!ops::built_with_cuda()) {
    throw Error(ErrorCode::device, "device " + device.str() +
                                       ": this build has no CUDA kernels. Build it where nvcc is "
                                       "found, or choose the device cpu.");
  }
  if (!at::hasCUDA()) {
    throw Error(ErrorCode::device, "device " + device.str() +
                                       ": LibTorch sees no CUDA device. Check the driver with "
                                       "nvidia-smi, or choose the device cpu.");
  }
  const auto count = at::detail::getCUDAHooks().deviceCount();
  const int index = device.has_index() ? device.index() : 0;
  if (index >= count) {
    throw Error(ErrorCode::device, "device cuda:" + std::to_string(index) + " does not exist: " +
                                       std::to_string(count) + " CUDA device(s) found.");
  }
  return {at::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

struct ComputeCapability {
  int major = 0;
  int minor = 0;
};

ComputeCapability compute_capability([[maybe_unused]] at::Device device) {
#ifdef HDFNET_WITH_CUDA
  const cudaDeviceProp* const card = at::cuda::getDeviceProperties(device.index());
  return {card->major, card->minor};
#else
  return {};
#endif
}

Backend make_backend(at::Device device, Precision precision, Variant variant) {
  Backend backend;
  backend.device = device;
  backend.dtype = scalar_type(precision);
  backend.allow_tf32 = precision == Precision::tf32;
  // cuDNN's exact float32 kernels are planar.
  const bool planar = device.is_cuda() && precision == Precision::fp32;
  backend.memory_format = planar ? at::MemoryFormat::Contiguous : at::MemoryFormat::ChannelsLast;
  // oneDNN's channels-last kernels add a reduction up in one float32 chain. ResNet-50's longest, of
  // 2048 x 3 x 3 terms, then lose more than twice what the original network does; VGG's do not.
  if (device.is_cpu() && precision == Precision::fp32 && variant == Variant::resnet50) {
    backend.longest_chain = 1152;
  }
  backend.packed = device.is_cpu() && precision == Precision::fp32;
  backend.pool_values_only = device.is_cuda();
  // In float32 hdfnet::stem_conv2d has a kernel for VGG's first convolution.
  backend.stem_in_place =
      device.is_cuda() && precision == Precision::tf32 && variant != Variant::resnet50;
  if (backend.half_on_cuda()) {
    const ComputeCapability card = compute_capability(device);
    // Their kernels are for tensor cores of Ampere and later; below, cuDNN's fused forms are
    // faster.
    backend.read_in_place = backend.transport_in_place = backend.decoder_in_place =
        backend.joined_transport = backend.stem_in_place = card.major >= 8;
    backend.stage_end_in_place = card.major == 9 && card.minor == 0;  // has a kernel there alone
    backend.fusions_beside_up_to = std::numeric_limits<int64_t>::max();
    // VGG's first maps are so large that two of them at once cost memory, and fill the card.
    constexpr int64_t kVggEncodersBesideUpTo = 8;
    backend.encoders_beside_up_to =
        variant == Variant::resnet50 ? backend.fusions_beside_up_to : kVggEncodersBesideUpTo;
  }
  return backend;
}

void check_input(const at::Tensor& tensor, const char* what, int64_t channels) {
  if (tensor.dim() != 4 || tensor.size(1) != channels) {
    throw Error(ErrorCode::invalid_argument, std::string(what) + ": expected shape (N, " +
                                                 std::to_string(channels) + ", H, W), found " +
                                                 c10::str(tensor.sizes()) + ".");
  }
  if (tensor.scalar_type() != at::kFloat) {
    throw Error(ErrorCode::invalid_argument, std::string(what) + ": expected float32, found " +
                                                 c10::toString(tensor.scalar_type()) + ".");
  }
}

// Five stages halve the size five times with a floor, so smaller maps would vanish.
constexpr int64_t kMinimumSide = 16;

void check_inputs(const at::Tensor& rgb, const at::Tensor& depth) {
  check_input(rgb, "rgb", 3);
  check_input(depth, "depth", 1);
  if (rgb.size(0) != depth.size(0) || rgb.size(2) != depth.size(2) ||
      rgb.size(3) != depth.size(3)) {
    throw Error(ErrorCode::invalid_argument,
                "rgb and depth: expected the same batch and size, found " + c10::str(rgb.sizes()) +
                    " and " + c10::str(depth.sizes()) + ".");
  }
  if (rgb.size(0) < 1 || rgb.size(2) < kMinimumSide || rgb.size(3) < kMinimumSide) {
    throw Error(ErrorCode::invalid_argument,
                "rgb: expected at least one image of at least 16 x 16, found " +
                    c10::str(rgb.sizes()) + ".");
  }
}

}  // namespace

std::string_view name(Precision precision) {
  switch (precision) {
    case Precision::automatic:
      return "auto";
    case Precision::fp32:
      return "fp32";
    case Precision::tf32:
      return "tf32";
    case Precision::fp16:
      return "fp16";
    case Precision::bf16:
      return "bf16";
  }
  return "?";
}

std::string_view name(DdpmMode mode) {
  return mode == DdpmMode::fused ? "fused" : "reference";
}

struct Engine::Impl {
  Impl(const Parameters& parameters, const EngineOptions& options)
      : device(check_device(options.device)),
        precision(resolve(options.precision, device)),
        ddpm(options.ddpm),
        architecture(inspect(parameters)),
        backend(make_backend(device, precision, architecture.variant)),
        // Each layer turns its own parameters into float32, so that they never exist all at once
        // beside the layers' copies.
        network(parameters, architecture, ddpm, backend) {
#ifdef HDFNET_WITH_CUDA
    if (device.is_cuda() && options.graphs) {
      graphs = std::make_unique<GraphCache>(
          device, [this](const at::Tensor& rgb, const at::Tensor& depth) {
            return network.forward(prepare(rgb), prepare(depth), nullptr);
          });
    }
#endif
  }

  at::Tensor prepare(const at::Tensor& tensor) const {
    if (backend.stem_in_place) return tensor.to(backend.device, /*non_blocking=*/true);
    return tensor.to(backend.device, backend.dtype, /*non_blocking=*/true)
        .contiguous(backend.memory_format);
  }

  at::Tensor forward(const at::Tensor& rgb, const at::Tensor& depth,
                     ModuleObserver* observer) const {
#ifdef HDFNET_WITH_CUDA
    if (graphs != nullptr && observer == nullptr) return graphs->forward(rgb, depth);
#endif
    return network.forward(prepare(rgb), prepare(depth), observer);
  }

  at::Device device;
  Precision precision;
  DdpmMode ddpm;
  Architecture architecture;
  Backend backend;
  Network network;
#ifdef HDFNET_WITH_CUDA
  std::unique_ptr<GraphCache> graphs;
#endif
};

Engine::Engine(const Parameters& parameters, const EngineOptions& options) {
  check_libtorch();
  const c10::InferenceMode inference;
  ops::register_ops();
  impl_ = std::make_unique<Impl>(parameters, options);
}

Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

at::Tensor Engine::forward(const at::Tensor& rgb, const at::Tensor& depth,
                           ModuleObserver* observer) const {
  check_inputs(rgb, depth);
  const c10::InferenceMode inference;
  const c10::OptionalDeviceGuard guard(
      impl_->device.is_cuda() ? std::optional<at::Device>(impl_->device) : std::nullopt);
  try {
    return impl_->forward(rgb, depth, observer);
  } catch (const c10::OutOfMemoryError& error) {
    throw Error(ErrorCode::out_of_memory, "not enough memory on " + impl_->device.str() +
                                              " for a batch of " + std::to_string(rgb.size(0)) +
                                              ": " + error.what_without_backtrace());
  }
}

const Architecture& Engine::architecture() const {
  return impl_->architecture;
}
at::Device Engine::device() const {
  return impl_->device;
}
Precision Engine::precision() const {
  return impl_->precision;
}
DdpmMode Engine::ddpm() const {
  return impl_->ddpm;
}

}  // namespace hdfnet
