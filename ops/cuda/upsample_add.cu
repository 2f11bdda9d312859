// y + bilinear(x), align_corners = false: one thread makes 8 channels (channels_last, 16-byte
// accesses) or one element of a result's pixel. Bytes: y and the result once; x from the L2.
#include "cuda/device_facts.h"
#include "cuda/scalar.cuh"
#include "cuda/upsample_add_arguments.h"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 256;

/// The two source positions of a result's row or column, and the share of the second.
struct Between {
  int first;
  int second;
  float share;
};

/// As ATen: centres of pixels correspond, positions before the first are the first.
__device__ __forceinline__ Between between(int position, float scale, int size) {
  const float source = fmaxf((static_cast<float>(position) + 0.5f) * scale - 0.5f, 0.0f);
  const int first = min(static_cast<int>(source), size - 1);
  return {first, first + (first < size - 1 ? 1 : 0), source - static_cast<float>(first)};
}

__device__ __forceinline__ float mix(float a, float b, float c, float d, float across, float down) {
  return (1 - down) * ((1 - across) * a + across * b) + down * ((1 - across) * c + across * d);
}

/// Grid: rows of the result in y, images in z; a row's pixels and channels in x.
template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads)
    upsample_add(const __grid_constant__ UpsampleAddArguments a) {
  struct __align__(sizeof(T) * kVector) Vector {
    T value[kVector];
  };
  const int vectors = static_cast<int>(a.channels) / kVector;
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  const int width = static_cast<int>(a.width);
  if (i >= width * vectors) return;
  const int x_width = static_cast<int>(a.x_width);
  const Between across =
      between(i / vectors, static_cast<float>(x_width) / static_cast<float>(width), x_width);
  const float scale_h = static_cast<float>(a.x_height) / static_cast<float>(a.height);
  const int channel = i % vectors;
  for (int64_t n = blockIdx.z; n < a.batch; n += gridDim.z) {
    for (int64_t h = blockIdx.y; h < a.height; h += gridDim.y) {
      const Between down = between(static_cast<int>(h), scale_h, static_cast<int>(a.x_height));
      const auto* const x = static_cast<const Vector*>(a.x) + n * a.x_height * x_width * vectors;
      const auto read = [&](int row, int column) {
        return x[(static_cast<int64_t>(row) * x_width + column) * vectors + channel];
      };
      const Vector tl = read(down.first, across.first);
      const Vector tr = read(down.first, across.second);
      const Vector bl = read(down.second, across.first);
      const Vector br = read(down.second, across.second);
      const int64_t at = (n * a.height + h) * width * vectors + i;
      const Vector y = static_cast<const Vector*>(a.y)[at];
      Vector out;
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        out.value[v] = from_sum<T>(
            to_sum(y.value[v]) + mix(to_sum(tl.value[v]), to_sum(tr.value[v]), to_sum(bl.value[v]),
                                     to_sum(br.value[v]), across.share, down.share));
      }
      static_cast<Vector*>(a.out)[at] = out;
    }
  }
}

template <typename T, int kVector>
cudaError_t launch(const UpsampleAddArguments& a, cudaStream_t stream) {
  const auto at_most_65535 = [](int64_t n) { return static_cast<unsigned>(n < 65535 ? n : 65535); };
  const int64_t blocks = (a.width * (a.channels / kVector) + kThreads - 1) / kThreads;
  const dim3 grid(static_cast<unsigned>(blocks), at_most_65535(a.height), at_most_65535(a.batch));
  upsample_add<T, kVector><<<grid, kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_upsample_add(const UpsampleAddArguments& a, cudaStream_t stream) {
  const bool vectors = a.channels % 8 == 0 && aligned(a.x) && aligned(a.y) && aligned(a.out);
  if (a.type == Type::kHalf) {
    return vectors ? launch<__half, 8>(a, stream) : launch<__half, 1>(a, stream);
  }
  return vectors ? launch<__nv_bfloat16, 8>(a, stream) : launch<__nv_bfloat16, 1>(a, stream);
}

}  // namespace hdfnet::ops::cuda
