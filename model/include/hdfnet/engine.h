#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <string_view>

#include "hdfnet/architecture.h"
#include "hdfnet/error.h"
#include "hdfnet/module_observer.h"
#include "hdfnet/parameters.h"
#include "hdfnet/precision.h"

namespace hdfnet {

/// How the dynamic dilated pyramid modules run: on hdfnet::dynamic_filter, or on unfold as in the
/// original code.
enum class DdpmMode { fused, reference };
std::string_view name(DdpmMode mode);

struct EngineOptions {
  at::Device device = at::kCPU;
  Precision precision = Precision::automatic;
  DdpmMode ddpm = DdpmMode::fused;
  /// CUDA: a shape that comes a second time is captured as a graph, and replayed from then on.
  bool graphs = true;
};

/// The network, ready to run: parameters checked, BatchNorm folded, moved to the device.
///
/// Immutable after construction: forward() may be called from several threads at once.
class Engine {
 public:
  /// Throws Error(weights) as inspect() does, Error(device) when the device does not exist, this
  /// build has no kernels for it, or the precision does not exist there, Error(library) when the
  /// LibTorch that is loaded is not of the version that this library was built with.
  Engine(const Parameters& parameters, const EngineOptions& options);
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  /// rgb (N,3,H,W): ImageNet-normalised; depth (N,1,H,W) in 0..1; both float32, any device.
  /// Returns the saliency (N,1,H,W) in 0..1 as float32 on the engine's device, queued on its
  /// current stream. ResNet-50 returns 2*ceil(H/2) x 2*ceil(W/2). Throws Error(invalid_argument) on
  /// shapes or types that do not fit, Error(out_of_memory).
  at::Tensor forward(const at::Tensor& rgb, const at::Tensor& depth,
                     ModuleObserver* observer = nullptr) const;

  const Architecture& architecture() const;
  at::Device device() const;
  Precision precision() const;  ///< never `automatic`
  DdpmMode ddpm() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The archive's own forward, for checking an engine against it. This compiles and runs the code in
/// the archive: only for archives that are trusted.
class ArchiveNetwork {
 public:
  ArchiveNetwork(const std::filesystem::path& archive, at::Device device);
  ~ArchiveNetwork();
  /// As Engine::forward, in float32 without TF32.
  at::Tensor forward(const at::Tensor& rgb, const at::Tensor& depth) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hdfnet
