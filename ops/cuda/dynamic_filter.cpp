// dynamic_filter on CUDA: turns tensors into FilterArguments and picks the kernel.
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "common/output.h"
#include "cuda/arguments_from_tensors.h"
#include "cuda/check_launch.h"
#include "cuda/filter_choice.h"
#include "registration.h"

namespace hdfnet::ops {
namespace {

at::Tensor dynamic_filter_cuda(const at::Tensor& x, const at::Tensor& kernels,
                               at::IntArrayRef dilations, bool concat_input) {
  const auto sizes = check_dynamic_filter<int64_t>("hdfnet::dynamic_filter", x, kernels, dilations);
  const c10::cuda::CUDAGuard guard(x.device());
  at::Tensor result = empty_filter_result(x, sizes, concat_input);
  if (result.numel() == 0) return result;
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
  for (int64_t first = 0; first < sizes.branches; first += cuda::kMaxBranches) {
    const cuda::FilterArguments arguments =
        cuda::filter_arguments(x, kernels, result, sizes, dilations, concat_input, first);
    cuda::check_launch(
        "hdfnet::dynamic_filter",
        cuda::launch_filter(cuda::choose_filter(arguments, nullptr), arguments, stream));
  }
  return result;
}

}  // namespace

void register_cuda_dynamic_filter(Registration& registration) {
  registration.under(c10::DispatchKey::CUDA).impl("dynamic_filter", &dynamic_filter_cuda);
}

}  // namespace hdfnet::ops
