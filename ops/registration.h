#pragma once

#include <torch/library.h>

#include <deque>

namespace hdfnet::ops {

/// What has been added to the dispatcher under the namespace hdfnet; removed again at its end.
class Registration {
 public:
  /// Where the schemas go.
  torch::Library& schemas();
  /// Where the implementations for a dispatch key go.
  torch::Library& under(c10::DispatchKey key);

 private:
  std::deque<torch::Library> libraries_;
};

// Each file that implements operators has one of these, and registration.cpp calls them all. Not
// TORCH_LIBRARY_IMPL: of a static library, the linker takes only the objects that others refer to.
void register_schemas(Registration& registration);
void register_meta_dynamic_filter(Registration& registration);
void register_meta_generated_dynamic_filter(Registration& registration);
void register_autograd_dynamic_filter(Registration& registration);
void register_autograd_generated_dynamic_filter(Registration& registration);
void register_autocast_dynamic_filter(Registration& registration);
void register_autocast_generated_dynamic_filter(Registration& registration);
void register_composite_generated_dynamic_filter_backward(Registration& registration);
void register_cpu_dynamic_filter(Registration& registration);
void register_cpu_dynamic_filter_backward(Registration& registration);
void register_cpu_generated_dynamic_filter(Registration& registration);
void register_composite_convolution(Registration& registration);
void register_cuda_convolution(Registration& registration);
void register_cuda_dynamic_filter(Registration& registration);
void register_cuda_dynamic_filter_backward(Registration& registration);
void register_cuda_generated_dynamic_filter(Registration& registration);
void register_cuda_generated_dynamic_filter_backward(Registration& registration);
void register_refusals_of_cuda(Registration& registration);  // in a build without it

}  // namespace hdfnet::ops
