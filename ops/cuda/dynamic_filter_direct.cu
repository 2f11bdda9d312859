// dynamic_filter for K 3 (NCHW).
//
// Layout: as dynamic_filter_planes.cu. Mapping: one thread a result, or where all is so aligned
// two, or four of two-byte types. All its taps and all its values of x are asked for at once,
// straight to registers, so that a result takes one latency; with a tile in shared memory it takes
// two, and a barrier between them. That many threads with 9 words under way each, none of which
// waits for another, also keep the memory busier than the ring does. Each value of x is read 9
// times from the L1. What comes before the first read runs while the launch before ends. Bytes and
// FLOPs: as there. Figures: ops/README.md.
#include "cuda/early_launch.cuh"
#include "cuda/filter_words.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kQuad = 4;
constexpr int kK = 3;
/// Results up to which threads that have less than 8 bytes of them, and so spend twice the loads on
/// each, were measured to be faster than tiles.
constexpr int64_t kMostBytesOfNarrow = 5'000'000;
/// Words of a plane: Divisor is exact below 2^16, and the last block goes beyond.
constexpr int64_t kMostWords = 60000;
/// Blocks of a multiprocessor for which nvcc must keep registers. Left to itself it aims at more,
/// and to keep to 32 or 48 registers puts the last loads behind the first arithmetic: two
/// latencies.
constexpr int kLeastBlocks = 1;

/// Where a thread's results lie, and what they are made of.
template <typename T>
struct Place {
  int height, width, row, column, dilation, pitch;  // pitch: from a row of x to the next
  const T* taps;  // tap 0 of the first result; the next is kernel_stride[3] on
  const T* x;     // the plane
  T* out;
  T* copy;  // of x beside the results, of the first branch; null where none is wanted

  __device__ Place(const FilterArguments& a, int vector, const Divisor& by_words,
                   const Divisor& by_channels)
      : height(static_cast<int>(a.height)),
        width(static_cast<int>(a.width)),
        dilation(a.dilation[blockIdx.y]),
        pitch(static_cast<int>(a.x_stride[2])) {
    const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
    row = by_words.quotient(i);
    column = (i - row * static_cast<int>(by_words.value)) * vector;
    const int b = static_cast<int>(blockIdx.y);
    const int n = by_channels.quotient(static_cast<int>(blockIdx.z));
    const int c = static_cast<int>(blockIdx.z) - n * static_cast<int>(by_channels.value);
    const int pixel = row * width + column;
    taps = static_cast<const T*>(a.kernels) + n * a.kernel_stride[0] + b * a.kernel_stride[1] +
           c * a.kernel_stride[2] + pixel;
    x = static_cast<const T*>(a.x) + n * a.x_stride[0] + c * a.x_stride[1];
    T* const image = static_cast<T*>(a.out) + n * a.out_stride[0];
    out = image + (a.output_channel + b * a.channels + c) * a.out_stride[1] + pixel;
    copy = a.concat_input && b == 0 ? image + c * a.out_stride[1] + pixel : nullptr;
  }
};

/// Asks for all taps of a thread's results, `apart` elements from one to the next.
template <typename T, typename Bits>
__device__ __forceinline__ void load_taps(const T* address, int64_t apart, Bits (&taps)[kK * kK]) {
#pragma unroll
  for (int t = 0; t < kK * kK; ++t, address += apart) {
    taps[t] = load_inside(reinterpret_cast<const Bits*>(address), true);
  }
}

template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads, kLeastBlocks)
    filter_direct(const __grid_constant__ FilterArguments a, const Divisor by_words,
                  const Divisor by_channels) {
  using W = Word<T, kVector>;
  using Bits = typename W::Bits;
  using One = typename Word<T, 1>::Bits;
  const Place<T> place(a, kVector, by_words, by_channels);
  const auto [height, width, row, column, dilation, pitch, first_taps, x, out, copy_to] = place;

  let_next_launch_begin();
  wait_for_launch_before();
  if (row >= height) return;
  Bits taps[kK * kK];
  load_taps(first_taps, a.kernel_stride[3], taps);
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
      if constexpr (kVector == 2) {
        if (q == kK / 2) {
          W::split(load_inside(reinterpret_cast<const Bits*>(from), row_inside), values[r][q]);
          continue;
        }
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
  if (copy_to != nullptr) {
    One* const copy = reinterpret_cast<One*>(copy_to);
#pragma unroll
    for (int v = 0; v < kVector; ++v) copy[v] = values[kK / 2][kK / 2][v];
  }
}

/// Two neighbouring quads, aligned, of a row of `width`, a multiple of four; zero where they lie
/// outside. They hold the four elements from any column on.
struct Quads {
  uint2 low, high;
  int shift;  // of the column, from the first quad's

  template <typename T>
  __device__ __forceinline__ void load(const T* row, int column, int width, bool row_inside) {
    shift = column & (kQuad - 1);
    const int base = column - shift;
    const auto inside = [&](int at) {
      return row_inside && static_cast<unsigned>(at) < static_cast<unsigned>(width);
    };
    const auto* const quads = reinterpret_cast<const uint2*>(row + base);
    low = load_inside(quads, inside(base));
    high = load_inside(quads + 1, shift != 0 && inside(base + kQuad));
  }
  __device__ __forceinline__ uint2 from_column() const {
    const bool upper = (shift & 2) != 0;
    const unsigned word0 = upper ? low.y : low.x;
    const unsigned word1 = upper ? high.x : low.y;
    const unsigned word2 = upper ? high.y : high.x;
    const unsigned bits = (shift & 1) * 16;
    return {__funnelshift_r(word0, word1, bits), __funnelshift_r(word1, word2, bits)};
  }
};

/// Two-byte types, everything aligned to four elements: half the instructions of pairs.
template <typename T>
__global__ void __launch_bounds__(kThreads, kLeastBlocks)
    filter_direct_quads(const __grid_constant__ FilterArguments a, const Divisor by_quads,
                        const Divisor by_channels) {
  using Pair = Word<T, 2>;
  const Place<T> place(a, kQuad, by_quads, by_channels);
  const auto [height, width, row, column, dilation, pitch, first_taps, x, out, copy_to] = place;

  let_next_launch_begin();
  wait_for_launch_before();
  if (row >= height) return;
  uint2 taps[kK * kK];
  load_taps(first_taps, a.kernel_stride[3], taps);
  Quads before[kK], after[kK];
  uint2 centre[kK];
#pragma unroll
  for (int r = 0; r < kK; ++r) {
    const int from_row = row + (r - kK / 2) * dilation;
    const bool row_inside = static_cast<unsigned>(from_row) < static_cast<unsigned>(height);
    const T* const from = x + from_row * pitch;
    before[r].load(from, column - dilation, width, row_inside);
    centre[r] = load_inside(reinterpret_cast<const uint2*>(from + column), row_inside);
    after[r].load(from, column + dilation, width, row_inside);
  }
  float sum[kQuad] = {};
#pragma unroll
  for (int r = 0; r < kK; ++r) {
    float row_sum[kQuad] = {};
#pragma unroll
    for (int q = 0; q < kK; ++q) {
      const uint2 tap = taps[r * kK + q];
      const uint2 value = q == 0   ? before[r].from_column()
                          : q == 1 ? centre[r]
                                   : after[r].from_column();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float tap_pair[2], value_pair[2];
        Pair::unpack(half == 0 ? tap.x : tap.y, tap_pair);
        Pair::unpack(half == 0 ? value.x : value.y, value_pair);
#pragma unroll
        for (int v = 0; v < 2; ++v) {
          float& into = row_sum[2 * half + v];
          into = fmaf(value_pair[v], tap_pair[v], into);
        }
      }
    }
#pragma unroll
    for (int v = 0; v < kQuad; ++v) sum[v] += row_sum[v];
  }
  *reinterpret_cast<uint2*>(out) = {Pair::pack({sum[0], sum[1]}), Pair::pack({sum[2], sum[3]})};
  if (copy_to != nullptr) *reinterpret_cast<uint2*>(copy_to) = centre[kK / 2];
}

/// Results of a thread.
int results_of_thread(const FilterArguments& a) {
  const int size = size_of(a.type);
  if (size == 2 && word_aligned(a, kQuad, size)) return kQuad;
  return word_aligned(a, 2, size) ? 2 : 1;
}

/// Whether its threads have as many results as they can: of 8 bytes.
bool is_wide(const FilterArguments& a) {
  return results_of_thread(a) * size_of(a.type) == 8;
}

cudaError_t launch_with(void (*kernel)(FilterArguments, Divisor, Divisor), int vector,
                        const FilterArguments& a, cudaStream_t stream) {
  const auto words = static_cast<int>(a.width) / vector;
  const int count = words * static_cast<int>(a.height);
  const dim3 grid(static_cast<unsigned>((count + kThreads - 1) / kThreads),
                  static_cast<unsigned>(a.branches), static_cast<unsigned>(a.batch * a.channels));
  return launch_early(kernel, grid, kThreads, 0, stream, a, Divisor(words),
                      Divisor(static_cast<int>(a.channels)));
}

template <typename T>
cudaError_t launch(const FilterArguments& a, cudaStream_t stream) {
  const int results = results_of_thread(a);
  if constexpr (sizeof(T) == 2) {
    if (results == kQuad) return launch_with(&filter_direct_quads<T>, kQuad, a, stream);
  }
  return results == 2 ? launch_with(&filter_direct<T, 2>, 2, a, stream)
                      : launch_with(&filter_direct<T, 1>, 1, a, stream);
}

}  // namespace

bool can_run_filter_direct(const FilterArguments& a, std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (!can_run_filter_planes(a, why)) return false;
  if (a.kernel_size != kK) return no("kernel size other than 3");
  const int64_t bytes = a.batch * a.channels * a.branches * a.height * a.width * size_of(a.type);
  if (bytes > kMostBytesOfNarrow && !is_wide(a)) {
    return no("more than 5 MB of results, not aligned to 8 bytes");
  }
  if (a.height * a.width / results_of_thread(a) > kMostWords) {
    return no("plane of more than 60000 words");
  }
  if (a.batch * a.channels > 65535) return no("more planes than a grid holds");
  if ((a.height + 2 * 1024) * a.x_stride[2] > (int64_t{1} << 30)) return no("row stride of x");
  return true;
}

cudaError_t launch_filter_direct(const FilterArguments& a, cudaStream_t stream) {
  switch (a.type) {
    case Type::kFloat:
      return launch<float>(a, stream);
    case Type::kHalf:
      return launch<__half>(a, stream);
    default:
      return launch<__nv_bfloat16>(a, stream);
  }
}

}  // namespace hdfnet::ops::cuda
