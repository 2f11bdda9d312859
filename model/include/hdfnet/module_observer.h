#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace hdfnet {

/// Arithmetic and traffic of one call of a module, counted from its layers' shapes.
struct ModuleCost {
  /// Floating-point operations (a multiply-add is two), of a convolution as many as in its
  /// definition, also where an algorithm with fewer runs.
  double flop = 0;
  double bytes = 0;  ///< each layer's input, weights and output once, in the stored precision
};

/// Told of each named module of the network as the engine runs it (encoder1, depth_encoder1,
/// depth_trans4, trans16, selfdc_16, upconv16, classifier, ...).
///
/// With an observer the engine runs module by module, so that each has a begin and an end; without
/// one it is free to overlap and merge them.
class ModuleObserver {
 public:
  virtual ~ModuleObserver() = default;
  virtual void begin(std::string_view module) = 0;
  /// `output` is the module's result in the engine's precision; it must not be changed.
  virtual void end(std::string_view module, const at::Tensor& output, const ModuleCost& cost) = 0;
};

}  // namespace hdfnet
