// dynamic_filter for calls that take no longer than a few trips to memory (NCHW, K 3).
//
// Layout: as dynamic_filter_planes.cu. Mapping: one thread a result (two-byte types: a pair). All
// its taps and all its values of x are asked for at once, straight to registers, so that a result
// takes one latency; with a tile in shared memory it takes two, and a barrier between them. Each
// value of x is read 9 times from the L1, which large calls cannot afford. What comes before the
// first read runs while the launch before ends. Bytes and FLOPs: as there. Figures: ops/README.md.
#include "cuda/early_launch.cuh"
#include "cuda/filter_words.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kK = 3;
/// Results up to which it was measured to be faster, 1.6 times at a quarter of them.
constexpr int64_t kMostBytes = 5'000'000;

template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads)
    filter_small(const __grid_constant__ FilterArguments a, const Divisor by_words,
                 const Divisor by_channels) {
  using W = Word<T, kVector>;
  using Bits = typename W::Bits;
  using One = typename Word<T, 1>::Bits;
  const int height = static_cast<int>(a.height);
  const int width = static_cast<int>(a.width);
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  const int row = by_words.quotient(i);
  const int column = (i - row * static_cast<int>(by_words.value)) * kVector;
  const int b = static_cast<int>(blockIdx.y);
  const int n = by_channels.quotient(static_cast<int>(blockIdx.z));
  const int c = static_cast<int>(blockIdx.z) - n * static_cast<int>(by_channels.value);
  const int pixel = row * width + column;
  const int dilation = a.dilation[b];
  const T* address = static_cast<const T*>(a.kernels) + n * a.kernel_stride[0] +
                     b * a.kernel_stride[1] + c * a.kernel_stride[2] + pixel;
  const int pitch = static_cast<int>(a.x_stride[2]);
  const T* const x = static_cast<const T*>(a.x) + n * a.x_stride[0] + c * a.x_stride[1];
  T* const image = static_cast<T*>(a.out) + n * a.out_stride[0];
  T* const out = image + (a.output_channel + b * a.channels + c) * a.out_stride[1] + pixel;

  let_next_launch_begin();
  wait_for_launch_before();
  if (row >= height) return;
  Bits taps[kK * kK];
#pragma unroll
  for (int t = 0; t < kK * kK; ++t, address += a.kernel_stride[3]) {
    taps[t] = load_inside(reinterpret_cast<const Bits*>(address), true);
  }
  bool inside[kK][kVector];
#pragma unroll
  for (int q = 0; q < kK; ++q) {
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      inside[q][v] = static_cast<unsigned>(column + (q - kK / 2) * dilation + v) <
                     static_cast<unsigned>(width);
    }
  }
  One values[kK][kK][kVector];
#pragma unroll
  for (int r = 0; r < kK; ++r) {
    const int from_row = row + (r - kK / 2) * dilation;
    const bool row_inside = static_cast<unsigned>(from_row) < static_cast<unsigned>(height);
    const One* const from = reinterpret_cast<const One*>(x) + (from_row * pitch + column);
#pragma unroll
    for (int q = 0; q < kK; ++q) {
      if (kVector == 2 && q == kK / 2) {  // a whole word
        const auto word = load_inside(reinterpret_cast<const unsigned*>(from), row_inside);
        values[r][q][0] = static_cast<One>(word);
        values[r][q][kVector - 1] = static_cast<One>(word >> 16);
        continue;
      }
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        values[r][q][v] =
            load_inside(from + (q - kK / 2) * dilation + v, row_inside && inside[q][v]);
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
        float value[1];
        Word<T, 1>::unpack(values[r][q][v], value);
        row_sum[v] = fmaf(value[0], tap[v], row_sum[v]);
      }
    }
#pragma unroll
    for (int v = 0; v < kVector; ++v) sum[v] += row_sum[v];
  }
  *reinterpret_cast<Bits*>(out) = W::pack(sum);
  if (a.concat_input && b == 0) {
    One* const copy = reinterpret_cast<One*>(image + c * a.out_stride[1] + pixel);
#pragma unroll
    for (int v = 0; v < kVector; ++v) copy[v] = values[kK / 2][kK / 2][v];
  }
}

template <typename T, int kVector>
cudaError_t launch(const FilterArguments& a, cudaStream_t stream) {
  const auto words = static_cast<int>(a.width) / kVector;
  const auto count = static_cast<unsigned>(words * static_cast<int>(a.height));
  const dim3 grid((count + kThreads - 1) / kThreads, static_cast<unsigned>(a.branches),
                  static_cast<unsigned>(a.batch * a.channels));
  return launch_early(filter_small<T, kVector>, grid, kThreads, 0, stream, a, Divisor(words),
                      Divisor(static_cast<int>(a.channels)));
}

}  // namespace

bool can_run_filter_small(const FilterArguments& a, std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (!can_run_filter_planes(a, why)) return false;
  if (a.kernel_size != kK) return no("kernel size other than 3");
  const int64_t size = size_of(a.type);
  if (a.batch * a.channels * a.branches * a.height * a.width * size > kMostBytes) {
    return no("more than 5 MB of results");
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
