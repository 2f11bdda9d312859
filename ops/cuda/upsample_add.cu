// y + bilinear(x), align_corners = false: one thread makes 8 channels (channels_last, 16-byte
// accesses) or one element of the result. Bytes: y and the result once; x from the L2.
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

template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads)
    upsample_add(const __grid_constant__ UpsampleAddArguments a) {
  struct __align__(sizeof(T) * kVector) Vector {
    T value[kVector];
  };
  const int64_t vectors = a.channels / kVector;
  const int64_t count = a.batch * a.height * a.width * vectors;
  const float scale_h = static_cast<float>(a.x_height) / static_cast<float>(a.height);
  const float scale_w = static_cast<float>(a.x_width) / static_cast<float>(a.width);
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * kThreads) {
    const int64_t channel = i % vectors * kVector;
    const int64_t pixel = i / vectors;
    const int w = static_cast<int>(pixel % a.width);
    const int h = static_cast<int>(pixel / a.width % a.height);
    const int64_t n = pixel / a.width / a.height;
    const Between down = between(h, scale_h, static_cast<int>(a.x_height));
    const Between across = between(w, scale_w, static_cast<int>(a.x_width));
    const T* const x =
        static_cast<const T*>(a.x) + n * a.x_height * a.x_width * a.channels + channel;
    const auto read = [&](int row, int column) {
      return *reinterpret_cast<const Vector*>(x + (static_cast<int64_t>(row) * a.x_width + column) *
                                                      a.channels);
    };
    const Vector tl = read(down.first, across.first);
    const Vector tr = read(down.first, across.second);
    const Vector bl = read(down.second, across.first);
    const Vector br = read(down.second, across.second);
    const Vector y = *reinterpret_cast<const Vector*>(static_cast<const T*>(a.y) + i * kVector);
    Vector out;
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      out.value[v] = from_sum<T>(to_sum(y.value[v]) + mix(to_sum(tl.value[v]), to_sum(tr.value[v]),
                                                          to_sum(bl.value[v]), to_sum(br.value[v]),
                                                          across.share, down.share));
    }
    *reinterpret_cast<Vector*>(static_cast<T*>(a.out) + i * kVector) = out;
  }
}

template <typename T, int kVector>
cudaError_t launch(const UpsampleAddArguments& a, cudaStream_t stream) {
  const int64_t count = a.batch * a.height * a.width * (a.channels / kVector);
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  upsample_add<T, kVector>
      <<<static_cast<unsigned>(blocks < (1 << 30) ? blocks : (1 << 30)), kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_upsample_add(const UpsampleAddArguments& a, cudaStream_t stream) {
  const auto aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  const bool vectors = a.channels % 8 == 0 && aligned(a.x) && aligned(a.y) && aligned(a.out);
  if (a.type == Type::kHalf) {
    return vectors ? launch<__half, 8>(a, stream) : launch<__half, 1>(a, stream);
  }
  return vectors ? launch<__nv_bfloat16, 8>(a, stream) : launch<__nv_bfloat16, 1>(a, stream);
}

}  // namespace hdfnet::ops::cuda
