#pragma once

/// Arithmetic that gives the same bits on the host and on a CUDA device. This header and those that
/// use it are compiled by nvcc, too: C++17, and no std functions that a device lacks.
#ifdef __CUDACC__
#define HDFNET_HOST_DEVICE __host__ __device__
#else
#define HDFNET_HOST_DEVICE
#endif

namespace hdfnet::app::exact {

// nvcc would join a product and a sum into one operation that rounds once; the host rounds twice.

HDFNET_HOST_DEVICE inline double product(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

HDFNET_HOST_DEVICE inline double sum(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dadd_rn(a, b);
#else
  return a + b;
#endif
}

HDFNET_HOST_DEVICE inline float product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

HDFNET_HOST_DEVICE inline float sum(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

HDFNET_HOST_DEVICE inline double quotient(double a, double b) {
#ifdef __CUDA_ARCH__
  return __ddiv_rn(a, b);
#else
  return a / b;
#endif
}

HDFNET_HOST_DEVICE inline float quotient(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

}  // namespace hdfnet::app::exact
