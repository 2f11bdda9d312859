// [y +] bilinear(x): a thread makes 16 bytes of channels (channels_last), or one, of four pixels
// below each other, so that what depends on the column alone is worked out once. Bytes: y and the
// result once; x from the L2.
#include "cuda/device_facts.h"
#include "cuda/scalar.cuh"
#include "cuda/upsample_arguments.h"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRows = 4;  // of a thread
constexpr int kMostBlocks = 65535;

/// The two source positions of a result's row or column, and the share of the second.
struct Between {
  int first;
  int second;
  float share;
};

/// Sizes of x over those of the result, as ATen computes them.
struct Scales {
  float down;
  float across;
};

/// As ATen: centres of pixels correspond and positions before the first are the first, or (aligned
/// corners) the outermost centres correspond.
__device__ __forceinline__ Between between(int position, float scale, bool corners, int size) {
  const float place = static_cast<float>(position);
  const float source = corners ? place * scale : fmaxf((place + 0.5f) * scale - 0.5f, 0.0f);
  const int first = min(static_cast<int>(source), size - 1);
  return {first, first + (first < size - 1 ? 1 : 0), source - static_cast<float>(first)};
}

__device__ __forceinline__ float mix(float a, float b, float c, float d, float across, float down) {
  return (1 - down) * ((1 - across) * a + across * b) + down * ((1 - across) * c + across * d);
}

/// Grid: fours of the result's rows in y, images in z; a row's pixels and channels in x.
template <typename T, int kVector, bool kAdd>
__global__ void __launch_bounds__(kThreads)
    upsample(const __grid_constant__ UpsampleArguments a, const Scales scales) {
  struct __align__(sizeof(T) * kVector) Vector {
    T value[kVector];
  };
  const int vectors = static_cast<int>(a.channels) / kVector;
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  const int width = static_cast<int>(a.width);
  const int height = static_cast<int>(a.height);
  if (i >= width * vectors) return;
  const int x_width = static_cast<int>(a.x_width);
  const int x_height = static_cast<int>(a.x_height);
  const Between across = between(i / vectors, scales.across, a.align_corners, x_width);
  const int channel = i % vectors;
  const int left = across.first * vectors + channel;
  const int right = across.second * vectors + channel;
  for (int64_t n = blockIdx.z; n < a.batch; n += gridDim.z) {
    const auto* const x = static_cast<const Vector*>(a.x) + n * x_height * x_width * vectors;
    for (int top = static_cast<int>(blockIdx.y) * kRows; top < height;
         top += static_cast<int>(gridDim.y) * kRows) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int h = top + r;
        if (h >= height) break;
        const Between down = between(h, scales.down, a.align_corners, x_height);
        const Vector* const upper = x + static_cast<int64_t>(down.first) * x_width * vectors;
        const Vector* const lower = x + static_cast<int64_t>(down.second) * x_width * vectors;
        const Vector tl = upper[left];
        const Vector tr = upper[right];
        const Vector bl = lower[left];
        const Vector br = lower[right];
        const int64_t at = (n * height + h) * width * vectors + i;
        Vector y{};
        if constexpr (kAdd) y = static_cast<const Vector*>(a.y)[at];
        Vector out;
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          const float up = mix(to_sum(tl.value[v]), to_sum(tr.value[v]), to_sum(bl.value[v]),
                               to_sum(br.value[v]), across.share, down.share);
          out.value[v] = from_sum<T>(kAdd ? to_sum(y.value[v]) + up : up);
        }
        static_cast<Vector*>(a.out)[at] = out;
      }
    }
  }
}

float scale_of(int64_t from, int64_t to, bool align_corners) {
  if (!align_corners) return static_cast<float>(from) / static_cast<float>(to);
  return to > 1 ? static_cast<float>(from - 1) / static_cast<float>(to - 1) : 0.0f;
}

template <typename T, int kVector, bool kAdd>
cudaError_t launch(const UpsampleArguments& a, cudaStream_t stream) {
  const auto most = [](int64_t n) {
    return static_cast<unsigned>(n < kMostBlocks ? n : kMostBlocks);
  };
  const int64_t blocks = (a.width * (a.channels / kVector) + kThreads - 1) / kThreads;
  const dim3 grid(static_cast<unsigned>(blocks), most((a.height + kRows - 1) / kRows),
                  most(a.batch));
  const Scales scales = {scale_of(a.x_height, a.height, a.align_corners),
                         scale_of(a.x_width, a.width, a.align_corners)};
  upsample<T, kVector, kAdd><<<grid, kThreads, 0, stream>>>(a, scales);
  return cudaGetLastError();
}

template <typename T, bool kAdd>
cudaError_t choose_vector(const UpsampleArguments& a, cudaStream_t stream) {
  constexpr int kVector = 16 / sizeof(T);
  const bool vectors = a.channels % kVector == 0 && aligned(a.x) && aligned(a.y) && aligned(a.out);
  return vectors ? launch<T, kVector, kAdd>(a, stream) : launch<T, 1, kAdd>(a, stream);
}

template <typename T>
cudaError_t choose(const UpsampleArguments& a, cudaStream_t stream) {
  return a.y != nullptr ? choose_vector<T, true>(a, stream) : choose_vector<T, false>(a, stream);
}

}  // namespace

cudaError_t launch_upsample(const UpsampleArguments& a, cudaStream_t stream) {
  if (a.type == Type::kFloat) return choose<float>(a, stream);
  return a.type == Type::kHalf ? choose<__half>(a, stream) : choose<__nv_bfloat16>(a, stream);
}

}  // namespace hdfnet::ops::cuda
