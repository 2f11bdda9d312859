// y = [relu](y + bias [+ other]), in place, summed in float32: what a convolution that cannot do it
// itself leaves. 16 bytes a thread where such accesses are possible. Bytes: y twice, other once.
#include "cuda/bias_relu_arguments.h"
#include "cuda/device_facts.h"
#include "cuda/scalar.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxGridY = 65535;

template <typename T, int kVector>
struct __align__(sizeof(T) * kVector) Values {
  T v[kVector];
};

/// Rows of `length` values; a row has one bias (planar), or a value's bias is its place modulo
/// channels.
template <typename T, int kVector, bool kPlanar>
__global__ void __launch_bounds__(kThreads)
    bias_relu(const __grid_constant__ BiasReluArguments a, int64_t rows, int64_t length) {
  using V = Values<T, kVector>;
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kVector;
  if (i >= length) return;
  const T* const biases = static_cast<const T*>(a.bias);
  V bias{};
  if constexpr (!kPlanar) bias = *reinterpret_cast<const V*>(biases + i % a.channels);
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    V* const at = reinterpret_cast<V*>(static_cast<T*>(a.y) + row * length + i);
    V value = *at;
    V other{};
    if (a.other != nullptr) {
      other = *reinterpret_cast<const V*>(static_cast<const T*>(a.other) + row * length + i);
    }
    const float of_row = kPlanar ? to_sum(biases[row % a.channels]) : 0.0f;
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      float sum = to_sum(value.v[v]) + (kPlanar ? of_row : to_sum(bias.v[v]));
      if (a.other != nullptr) sum += to_sum(other.v[v]);
      if (a.relu && sum < 0) sum = 0;  // NaN stays
      value.v[v] = from_sum<T>(sum);
    }
    *at = value;
  }
}

template <typename T, int kVector, bool kPlanar>
cudaError_t launch(const BiasReluArguments& a, int64_t rows, int64_t length, cudaStream_t stream) {
  const int64_t blocks = (length / kVector + kThreads - 1) / kThreads;
  const dim3 grid(static_cast<unsigned>(blocks),
                  static_cast<unsigned>(rows < kMaxGridY ? rows : kMaxGridY));
  bias_relu<T, kVector, kPlanar><<<grid, kThreads, 0, stream>>>(a, rows, length);
  return cudaGetLastError();
}

template <typename T>
cudaError_t choose(const BiasReluArguments& a, cudaStream_t stream) {
  constexpr int kVector = 16 / sizeof(T);
  const bool vectors = aligned(a.y) && aligned(a.other) && aligned(a.bias);
  if (a.planar) {
    const int64_t rows = a.batch * a.channels;
    return vectors && a.pixels % kVector == 0 ? launch<T, kVector, true>(a, rows, a.pixels, stream)
                                              : launch<T, 1, true>(a, rows, a.pixels, stream);
  }
  const int64_t length = a.pixels * a.channels;
  return vectors && a.channels % kVector == 0
             ? launch<T, kVector, false>(a, a.batch, length, stream)
             : launch<T, 1, false>(a, a.batch, length, stream);
}

}  // namespace

cudaError_t launch_bias_relu(const BiasReluArguments& a, cudaStream_t stream) {
  if (a.type == Type::kFloat) return choose<float>(a, stream);
  return a.type == Type::kHalf ? choose<__half>(a, stream) : choose<__nv_bfloat16>(a, stream);
}

}  // namespace hdfnet::ops::cuda
