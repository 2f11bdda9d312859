#include "cuda/check_launch.h"

#include <c10/cuda/CUDAException.h>

#include <optional>

#include "common/card_support.h"

namespace hdfnet::ops::cuda {
namespace {

// No code for the card, or code that its driver cannot take.
bool is_missing_kernel(cudaError_t error) {
  return error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction ||
         error == cudaErrorUnsupportedPtxVersion || error == cudaErrorJitCompilerNotFound;
}

std::optional<Card> current_card() {
  int device = 0;
  cudaDeviceProp properties{};
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
    return std::nullopt;
  }
  return Card{properties.name, properties.major, properties.minor};
}

}  // namespace

void check_launch(const char* op, cudaError_t error) {
  const std::optional<Card> card = is_missing_kernel(error) ? current_card() : std::nullopt;
  if (card) {
    (void)cudaGetLastError();  // else the next call would report it again
    TORCH_CHECK(false, no_kernel_message(op, HDFNET_CUDA_ARCHITECTURES, *card), " [",
                cudaGetErrorString(error), "]");
  }
  C10_CUDA_CHECK(error);
}

}  // namespace hdfnet::ops::cuda
