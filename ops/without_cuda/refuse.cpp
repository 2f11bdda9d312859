// What takes the place of ops/cuda in a build without it: a sentence instead of the dispatcher's
// list of keys.
#include "common/card_support.h"
#include "common/check_convolution.h"
#include "hdfnet/ops/convolution.h"
#include "registration.h"

namespace hdfnet::ops {
namespace {

void refuse(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, no_cuda_message(op.schema().name()));
}

}  // namespace

bool concat_conv2d_is_wide(at::TensorList inputs, const at::Tensor& weight,
                           const std::optional<at::Tensor>& bias, int64_t groups,
                           std::string* why) {
  check_concat_conv2d(inputs, weight, bias, groups);
  if (why != nullptr) *why = "this build has no CUDA kernels";
  return false;
}

void register_refusals_of_cuda(Registration& registration) {
  torch::Library& library = registration.under(c10::DispatchKey::CUDA);
  for (const char* name :
       {"dynamic_filter", "dynamic_filter_backward", "generated_dynamic_filter",
        "generated_dynamic_filter_backward", "concat_conv2d", "conv2d_pool", "conv2d_head",
        "bias_relu_", "upsample_add", "stem_conv2d", "max_pool2d"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse>());
  }
}

}  // namespace hdfnet::ops
