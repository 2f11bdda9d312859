#include "registration.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <stdexcept>

#include "common/torch_version.h"
#include "hdfnet/register_ops.h"

namespace hdfnet {
namespace ops {

torch::Library& Registration::schemas() {
  return libraries_.emplace_back(torch::Library::DEF, "hdfnet", std::nullopt, "libhdfnet_ops", 0);
}

torch::Library& Registration::under(c10::DispatchKey key) {
  return libraries_.emplace_back(torch::Library::IMPL, "hdfnet", key, "libhdfnet_ops", 0);
}

namespace {

// Another copy of the library in this process, linked statically or loaded from another path.
bool registered_by_another_copy() {
  return c10::Dispatcher::singleton().findSchema({"hdfnet::dynamic_filter", ""}).has_value();
}

Registration register_all() {
  Registration registration;
  if (registered_by_another_copy()) return registration;
  register_schemas(registration);
  register_meta_dynamic_filter(registration);
  register_meta_generated_dynamic_filter(registration);
  register_autograd_dynamic_filter(registration);
  register_autograd_generated_dynamic_filter(registration);
  register_autocast_dynamic_filter(registration);
  register_autocast_generated_dynamic_filter(registration);
  register_composite_generated_dynamic_filter_backward(registration);
  register_composite_convolution(registration);
  register_cpu_dynamic_filter(registration);
  register_cpu_dynamic_filter_backward(registration);
  register_cpu_generated_dynamic_filter(registration);
#ifdef HDFNET_WITH_CUDA
  register_cuda_convolution(registration);
  register_cuda_dynamic_filter(registration);
  register_cuda_dynamic_filter_backward(registration);
  register_cuda_generated_dynamic_filter(registration);
  register_cuda_generated_dynamic_filter_backward(registration);
#else
  register_refusals_of_cuda(registration);
#endif
  return registration;
}

}  // namespace
}  // namespace ops

void register_ops() {
  // Before anything else is called in LibTorch, whose layouts another version may have changed.
  static const std::string fault =
      ops::torch_version_fault(ops::torch_compiled_for(), ops::torch_running());
  if (!fault.empty()) throw std::runtime_error(fault);
  static const ops::Registration registration = ops::register_all();
}

}  // namespace hdfnet
