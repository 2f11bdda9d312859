#pragma once

// Descriptions of tensors for the tensor copy engine of compute capability 9.0.

#include <cudaTypedefs.h>

#include "cuda/device_facts.h"
#include "cuda/filter_arguments.h"

namespace hdfnet::ops::cuda {

/// The driver's function, null where it has none.
inline PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder() {
  static const auto function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
    const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
                                                               12000, cudaEnableDefault, &result);
#else
    const cudaError_t error =
        cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result);
#endif
    return error == cudaSuccess && result == cudaDriverEntryPointSuccess
               ? reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found)
               : nullptr;
  }();
  return function;
}

/// Why a kernel of compute capability 9.0 that reads through tensor maps, with so many tiles for
/// its blocks, is not to run on the current device; null where it is.
inline const char* why_not_by_tensor_maps(int64_t tiles) {
  const DeviceFacts device = current_device();
  if (!device.is_hopper()) return "compute capability other than 9.0";
  if (tiles * 4 < device.processors * 3) return "tiles for fewer than 3/4 of the card";
  return tensor_map_encoder() == nullptr ? "a driver without tensor maps" : nullptr;
}

/// How boxes lie in shared memory, and how much of the tensor comes to the L2 at a time.
struct TensorMapForm {
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  CUtensorMapL2promotion fetched = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
};

/// For boxes whose rows are up to 128 bytes: of 256 at a time much came for nothing.
inline TensorMapForm short_rows(CUtensorMapSwizzle swizzle) {
  return {swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B};
}

/// A tensor of two-byte elements or floats, innermost dimension first; strides in elements, of all
/// but that one. False where the copy engine does not take it so.
template <int kRank>
bool encode_tensor_map(CUtensorMap* map, Type type, const void* data, const int64_t (&sizes)[kRank],
                       const int64_t (&strides)[kRank - 1], const int (&box)[kRank],
                       TensorMapForm form = {}) {
  cuuint64_t extent[kRank];
  cuuint64_t bytes[kRank - 1];
  cuuint32_t box_extent[kRank];
  cuuint32_t steps[kRank];
  for (int i = 0; i < kRank; ++i) {
    extent[i] = static_cast<cuuint64_t>(sizes[i]);
    box_extent[i] = static_cast<cuuint32_t>(box[i]);
    steps[i] = 1;
    if (i > 0) bytes[i - 1] = static_cast<cuuint64_t>(strides[i - 1] * size_of(type));
  }
  const auto encode = [&] {
    return tensor_map_encoder()(map,
                                type == Type::kFloat  ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                : type == Type::kHalf ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                      : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                                kRank, const_cast<void*>(data), extent, bytes, box_extent, steps,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, form.swizzle, form.fetched,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  CUresult result = encode();
  if (result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_NOT_INITIALIZED) {
    // A thread's first call: nothing has bound the device's context to it yet.
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess || cudaSetDevice(device) != cudaSuccess) return false;
    result = encode();
  }
  return result == CUDA_SUCCESS;
}

}  // namespace hdfnet::ops::cuda
