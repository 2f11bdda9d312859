#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "hdfnet/module_observer.h"

namespace hdfnet {

/// Times of one module over several passes of the network.
struct ModuleTiming {
  std::string name;
  std::vector<double> milliseconds;  ///< one value a pass, in order; the first may be cold
  ModuleCost cost;                   ///< of one call
};

/// Measures every module: CUDA events on the current stream for a CUDA device (read after the pass,
/// so that nothing synchronises in between), the steady clock for the CPU. Each module is also an
/// NVTX range of the same name.
class ModuleClock final : public ModuleObserver {
 public:
  explicit ModuleClock(at::Device device);
  ~ModuleClock() override;

  void begin(std::string_view module) override;
  void end(std::string_view module, const at::Tensor& output, const ModuleCost& cost) override;

  /// Ends one pass of the network: waits for the device and adds its times to the totals.
  void finish_pass();

  /// The modules in the order in which they ran.
  const std::vector<ModuleTiming>& timings() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hdfnet
