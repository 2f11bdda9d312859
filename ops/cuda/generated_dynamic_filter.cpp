// generated_dynamic_filter on CUDA: turns tensors into arguments and picks the kernel.
#include <ATen/Context.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "common/output.h"
#include "cuda/arguments_from_tensors.h"
#include "cuda/check_launch.h"
#include "cuda/generated_filter_arguments.h"
#include "registration.h"

namespace hdfnet::ops {
namespace {

at::Tensor generated_dynamic_filter_cuda(const at::Tensor& x, const at::Tensor& y,
                                         const at::Tensor& weight,
                                         const std::optional<at::Tensor>& bias,
                                         at::IntArrayRef dilations, bool concat_input) {
  const auto sizes = check_generated_dynamic_filter<int64_t>("hdfnet::generated_dynamic_filter", x,
                                                             y, weight, bias, dilations);
  const c10::cuda::CUDAGuard guard(x.device());
  at::Tensor result = empty_filter_result(x, sizes.filter, concat_input);
  if (result.numel() == 0) return result;
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
  for (int64_t first = 0; first < sizes.filter.branches; first += cuda::kMaxBranches) {
    const cuda::GeneratedFilterArguments arguments = cuda::generated_filter_arguments(
        x, y, weight, bias, result, sizes, dilations, concat_input, first);
    cuda::check_launch("hdfnet::generated_dynamic_filter",
                       cuda::can_run_generated_filter_wgmma_runs(arguments, nullptr) &&
                               cuda::generated_filter_runs_pay(arguments, nullptr)
                           ? cuda::launch_generated_filter_wgmma_runs(arguments, stream)
                       : cuda::can_run_generated_filter_wgmma(arguments, nullptr)
                           ? cuda::launch_generated_filter_wgmma(arguments, stream)
                       : cuda::can_run_generated_filter_wgmma_tf32(arguments, nullptr)
                           ? cuda::launch_generated_filter_wgmma_tf32(arguments, stream)
                       : cuda::generated_filter_simt_pays(arguments, nullptr) &&
                               cuda::can_run_generated_filter_simt(arguments, nullptr)
                           ? cuda::launch_generated_filter_simt(arguments, stream)
                       : cuda::can_run_generated_filter_mma(arguments, nullptr)
                           ? cuda::launch_generated_filter_mma(arguments, stream)
                       : cuda::can_run_generated_filter_simt(arguments, nullptr)
                           ? cuda::launch_generated_filter_simt(arguments, stream)
                           : cuda::launch_generated_filter_scalar(arguments, stream));
  }
  return result;
}

}  // namespace

void register_cuda_generated_dynamic_filter(Registration& registration) {
  registration.under(c10::DispatchKey::CUDA)
      .impl("generated_dynamic_filter", &generated_dynamic_filter_cuda);
}

}  // namespace hdfnet::ops
