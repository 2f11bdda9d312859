#include "hdfnet/ops/library.h"

#include "registration.h"

namespace hdfnet::ops {

// The schemas; every key's file adds its implementation.
void register_schemas(Registration& registration) {
  torch::Library& library = registration.schemas();
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
  library.def(
      "concat_conv2d(Tensor[] inputs, Tensor weight, Tensor? bias=None, int groups=1, "
      "bool relu=False) -> Tensor",
      tags);
  library.def(
      "conv2d_pool(Tensor[] inputs, Tensor weight, Tensor? bias=None, Tensor? side_weight=None, "
      "Tensor? side_bias=None) -> (Tensor, Tensor)",
      tags);
  library.def(
      "conv2d_head(Tensor x, Tensor weight, Tensor bias, Tensor head_weight, Tensor head_bias) -> "
      "Tensor",
      tags);
  library.def("bias_relu_(Tensor(a!) y, Tensor bias, Tensor? other=None, bool relu=True) -> ()",
              tags);
  library.def(
      "conv2d_add(Tensor x, Tensor weight, Tensor? bias, Tensor other, bool relu=True) -> Tensor",
      tags);
  library.def("upsample_add(Tensor x, Tensor y) -> Tensor", tags);
  library.def(
      "upsample_bilinear2d(Tensor x, int height, int width, bool align_corners=False) -> Tensor",
      tags);
  library.def(
      "stem_conv2d(Tensor x, Tensor weight, Tensor? bias=None, int stride=1, bool relu=False) -> "
      "Tensor",
      tags);
  library.def("max_pool2d(Tensor x, int kernel_size, int stride, int padding=0) -> Tensor", tags);
}

bool built_with_cuda() {
#ifdef HDFNET_WITH_CUDA
  return true;
#else
  return false;
#endif
}

}  // namespace hdfnet::ops
