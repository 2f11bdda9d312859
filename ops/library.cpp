#include "hdfnet/ops/library.h"

#include <torch/library.h>

// The schemas; every key's file adds its implementation with TORCH_LIBRARY_IMPL.
TORCH_LIBRARY(hdfnet, library) {
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag};
  library.def(
      "dynamic_filter(Tensor x, Tensor kernels, int[] dilations, bool concat_input=False) -> "
      "Tensor",
      tags);
  library.def(
      "dynamic_filter_backward(Tensor grad, Tensor x, Tensor kernels, int[] dilations, "
      "bool concat_input, bool[2] needs) -> (Tensor, Tensor)",
      tags);
  library.def(
      "generated_dynamic_filter(Tensor x, Tensor y, Tensor weight, Tensor? bias, int[] dilations, "
      "bool concat_input=False) -> Tensor",
      tags);
  library.def(
      "generated_dynamic_filter_backward(Tensor grad, Tensor x, Tensor y, Tensor weight, "
      "Tensor? bias, int[] dilations, bool concat_input, bool[4] needs) "
      "-> (Tensor, Tensor, Tensor, Tensor)",
      tags);
}

namespace hdfnet::ops {

void register_ops() {}

bool built_with_cuda() {
#ifdef HDFNET_WITH_CUDA
  return true;
#else
  return false;
#endif
}

}  // namespace hdfnet::ops
