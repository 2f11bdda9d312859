// dynamic_filter for calls that take no longer than a few trips to memory (NCHW, K 3).
//
// Layout: as dynamic_filter_planes.cu. Mapping: one thread a result (two-byte types: a pair). All
// its taps and all its values of x are asked for at once, straight to registers, so that a result
// takes one latency; with a tile in shared memory it takes two, and a barrier between them. Each
// value of x is read 9 times from the L1, which large calls cannot afford. Bytes and FLOPs: as
// there. Figures: ops/README.md.
#include "cuda/filter_words.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kK = 3;
/// Results up to which it was measured to be faster: 1.4 times at the most of them.
constexpr int64_t kMostResults = 400 * 1024;

template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads)
    filter_small(const __grid_constant__ FilterArguments a, const Divisor by_words) {
  using W = Word<T, kVector>;
  using Bits = typename W::Bits;
  const int height = static_cast<int>(a.height);
  const int width = static_cast<int>(a.width);
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  const int row = by_words.quotient(i);
  const int column = (i - row * static_cast<int>(by_words.value)) * kVector;
  if (row >= height) return;
  const int b = blockIdx.y;
  const int c = blockIdx.z % static_cast<unsigned>(a.channels);
  const int64_t n = blockIdx.z / static_cast<unsigned>(a.channels);
  const int pixel = row * width + column;
  const int dilation = a.dilation[b];

  const T* address = static_cast<const T*>(a.kernels) + n * a.kernel_stride[0] +
                     b * a.kernel_stride[1] + c * a.kernel_stride[2] + pixel;
  Bits taps[kK * kK];
#pragma unroll
  for (int t = 0; t < kK * kK; ++t, address += a.kernel_stride[3]) {
    taps[t] = load_once(reinterpret_cast<const Bits*>(address));
  }
  const T* const x = static_cast<const T*>(a.x) + n * a.x_stride[0] + c * a.x_stride[1];
  const int pitch = static_cast<int>(a.x_stride[2]);
  T values[kK * kK][kVector];
#pragma unroll
  for (int r = 0; r < kK; ++r) {
    const int from_row = row + (r - kK / 2) * dilation;
    const bool row_inside = from_row >= 0 && from_row < height;
#pragma unroll
    for (int q = 0; q < kK; ++q) {
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        const int from_column = column + (q - kK / 2) * dilation + v;
        values[r * kK + q][v] = from_sum<T>(0.f);
        if (row_inside && from_column >= 0 && from_column < width) {
          values[r * kK + q][v] = __ldg(x + from_row * pitch + from_column);
        }
      }
    }
  }
  float sum[kVector] = {};
#pragma unroll
  for (int r = 0; r < kK; ++r) {
    float row_sum[kVector] = {};
#pragma unroll
    for (int q = 0; q < kK; ++q) {
      float tap[kVector];
      W::unpack(taps[r * kK + q], tap);
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        row_sum[v] = fmaf(to_sum(values[r * kK + q][v]), tap[v], row_sum[v]);
      }
    }
#pragma unroll
    for (int v = 0; v < kVector; ++v) sum[v] += row_sum[v];
  }
  T* const out = static_cast<T*>(a.out) + n * a.out_stride[0] +
                 (a.output_channel + static_cast<int64_t>(b) * a.channels + c) * a.out_stride[1];
  *reinterpret_cast<Bits*>(out + pixel) = W::pack(sum);
  if (a.concat_input && b == 0) {
    T* const copy = static_cast<T*>(a.out) + n * a.out_stride[0] + c * a.out_stride[1] + pixel;
#pragma unroll
    for (int v = 0; v < kVector; ++v) copy[v] = values[kK * kK / 2][v];
  }
}

template <typename T, int kVector>
cudaError_t launch(const FilterArguments& a, cudaStream_t stream) {
  const auto words = static_cast<int>(a.width) / kVector;
  const auto count = static_cast<unsigned>(words * static_cast<int>(a.height));
  filter_small<T, kVector>
      <<<dim3((count + kThreads - 1) / kThreads, static_cast<unsigned>(a.branches),
              static_cast<unsigned>(a.batch * a.channels)),
         kThreads, 0, stream>>>(a, Divisor(words));
  return cudaGetLastError();
}

}  // namespace

bool can_run_filter_small(const FilterArguments& a, std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (!can_run_filter_planes(a, why)) return false;
  if (a.kernel_size != kK) return no("kernel size other than 3");
  if (a.batch * a.channels * a.branches * a.height * a.width > kMostResults) {
    return no("more than 409600 results");
  }
  if (a.height * a.width > 60000) return no("plane of more than 60000 pixels");
  if (a.batch * a.channels > 65535) return no("more planes than a grid holds");
  if ((a.height + 2 * 1024) * a.x_stride[2] > (int64_t{1} << 30)) return no("row stride of x");
  return true;
}

cudaError_t launch_filter_small(const FilterArguments& a, cudaStream_t stream) {
  switch (a.type) {
    case Type::kFloat:
      return launch<float, 1>(a, stream);
    case Type::kHalf:
      return vector_of(a) == 2 ? launch<__half, 2>(a, stream) : launch<__half, 1>(a, stream);
    default:
      return vector_of(a) == 2 ? launch<__nv_bfloat16, 2>(a, stream)
                               : launch<__nv_bfloat16, 1>(a, stream);
  }
}

}  // namespace hdfnet::ops::cuda
