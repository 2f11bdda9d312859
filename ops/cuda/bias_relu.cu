// y = [relu](y + bias [+ other]), in place, in float32: what a convolution that cannot do it itself
// leaves. 4 values a thread where 16-byte accesses are possible. Bytes: y twice, other once.
#include "cuda/bias_relu_arguments.h"
#include "cuda/device_facts.h"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxGridY = 65535;

template <int kVector>
struct __align__(sizeof(float) * kVector) Values {
  float v[kVector];
};

/// Rows of `length` values; a row has one bias (planar), or a value's bias is its place modulo
/// channels.
template <int kVector, bool kPlanar>
__global__ void __launch_bounds__(kThreads)
    bias_relu(const __grid_constant__ BiasReluArguments a, int64_t rows, int64_t length) {
  using V = Values<kVector>;
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kVector;
  if (i >= length) return;
  V bias{};
  if constexpr (!kPlanar) bias = *reinterpret_cast<const V*>(a.bias + i % a.channels);
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    V* const at = reinterpret_cast<V*>(a.y + row * length + i);
    V value = *at;
    V other{};
    if (a.other != nullptr) {
      other = *reinterpret_cast<const V*>(a.other + row * length + i);
    }
    const float of_row = kPlanar ? a.bias[row % a.channels] : 0.0f;
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      float sum = value.v[v] + (kPlanar ? of_row : bias.v[v]);
      if (a.other != nullptr) sum += other.v[v];
      if (a.relu && sum < 0) sum = 0;  // NaN stays
      value.v[v] = sum;
    }
    *at = value;
  }
}

template <int kVector, bool kPlanar>
cudaError_t launch(const BiasReluArguments& a, int64_t rows, int64_t length, cudaStream_t stream) {
  const int64_t blocks = (length / kVector + kThreads - 1) / kThreads;
  const dim3 grid(static_cast<unsigned>(blocks),
                  static_cast<unsigned>(rows < kMaxGridY ? rows : kMaxGridY));
  bias_relu<kVector, kPlanar><<<grid, kThreads, 0, stream>>>(a, rows, length);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_bias_relu(const BiasReluArguments& a, cudaStream_t stream) {
  const bool vectors = aligned(a.y) && aligned(a.other) && aligned(a.bias);
  if (a.planar) {
    const int64_t rows = a.batch * a.channels;
    return vectors && a.pixels % 4 == 0 ? launch<4, true>(a, rows, a.pixels, stream)
                                        : launch<1, true>(a, rows, a.pixels, stream);
  }
  const int64_t length = a.pixels * a.channels;
  return vectors && a.channels % 4 == 0 ? launch<4, false>(a, a.batch, length, stream)
                                        : launch<1, false>(a, a.batch, length, stream);
}

}  // namespace hdfnet::ops::cuda
