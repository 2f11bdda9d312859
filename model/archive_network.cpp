// The archive's own forward: compiles and runs the archive's code, so only where the user asks.

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include "hdfnet/engine.h"
#include "hdfnet/error.h"

namespace hdfnet {

struct ArchiveNetwork::Impl {
  torch::jit::Module module;
  at::Device device;
};

ArchiveNetwork::ArchiveNetwork(const std::filesystem::path& archive, at::Device device) {
  try {
    impl_ = std::make_unique<Impl>(Impl{torch::jit::load(archive.string(), device), device});
    impl_->module.eval();
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::weights,
                "weights file " + archive.string() +
                    ": its own code cannot be loaded: " + error.what_without_backtrace());
  }
}

ArchiveNetwork::~ArchiveNetwork() = default;

at::Tensor ArchiveNetwork::forward(const at::Tensor& rgb, const at::Tensor& depth) const {
  const c10::InferenceMode inference;
  // Exact float32, whatever the process has set, for the length of this call.
  const bool convolutions = at::globalContext().allowTF32CuDNN();
  at::globalContext().setAllowTF32CuDNN(false);
  at::Tensor output;
  try {
    output = impl_->module.forward({rgb.to(impl_->device), depth.to(impl_->device)}).toTensor();
  } catch (const std::exception& error) {
    at::globalContext().setAllowTF32CuDNN(convolutions);
    throw Error(ErrorCode::weights,
                "the archive's own forward failed: " + std::string(error.what()));
  }
  at::globalContext().setAllowTF32CuDNN(convolutions);
  return output.to(at::kFloat);
}

}  // namespace hdfnet
