#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/filter_arguments.h"

namespace hdfnet::ops::cuda {

/// The type that sums of T are kept in, and the conversions.
template <typename T>
struct Scalar {
  using Sum = float;
};
template <>
struct Scalar<double> {
  using Sum = double;
};
template <typename T>
using SumOf = typename Scalar<T>::Sum;

__device__ __forceinline__ float to_sum(float value) {
  return value;
}
__device__ __forceinline__ double to_sum(double value) {
  return value;
}
__device__ __forceinline__ float to_sum(__half value) {
  return __half2float(value);
}
__device__ __forceinline__ float to_sum(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

template <typename T, typename Sum>
__device__ __forceinline__ T from_sum(Sum value) {
  return static_cast<T>(value);
}
template <>
__device__ __forceinline__ __half from_sum<__half, float>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_sum<__nv_bfloat16, float>(float value) {
  return __float2bfloat16_rn(value);
}

/// Stands for T in an argument.
template <typename T>
struct Tag {
  using type = T;
};

/// Calls f(Tag<T>()) for the type that `type` names.
template <typename Function>
auto with_type(Type type, const Function& f) {
  switch (type) {
    case Type::kFloat:
      return f(Tag<float>());
    case Type::kDouble:
      return f(Tag<double>());
    case Type::kHalf:
      return f(Tag<__half>());
    default:
      return f(Tag<__nv_bfloat16>());
  }
}

}  // namespace hdfnet::ops::cuda
