// dynamic_filter where channels are innermost (channels_last).
//
// Layout: x (N, H, W, C); kernels (N, H, W, B, C, K*K), as the channels_last result of a
// convolution is when viewed as (N, B, C, K*K, H, W); out (N, H, W, channels). All dense in that
// order except for x. A unit is K*K 4-byte words of kernels: the taps of one channel (float) or of
// two (two-byte types). Units follow one another in memory whatever the pixel or branch, so kernels
// are read as one long run: 16 bytes at a time into shared memory (cp.async, the next chunk while
// this one is used). Mapping: one thread a unit. K*K is odd, so the threads of a warp find their
// words in separate banks. x and out: neighbouring threads have neighbouring channels; x comes
// through the L1. Bytes: (B*K*K + 1 + B) elements a pixel and channel. FLOPs: 2 a tap, nothing
// beside the bytes. Figures against the copy ceiling: ops/README.md.
#include <algorithm>

#include "cuda/filter_words.cuh"
#include "cuda/shared_limit.h"
#include "cuda/tensor_core.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kMostChunksOfBlock = 8;
constexpr int kWantedBlocks = 1024;  // several for each multiprocessor, before blocks get longer

template <int kK>
inline constexpr int kThreads = kK == 3 ? 256 : 128;

struct Splitters {
  Splitter words_of_channels, branches, width, height;
};

/// The taps and values that a 4-byte word holds.
template <typename T>
struct Pack {
  static constexpr int kSize = 4 / static_cast<int>(sizeof(T));
};

template <typename T>
__device__ __forceinline__ void unpack(unsigned bits, float (&values)[Pack<T>::kSize]) {
  if constexpr (sizeof(T) == 4) {
    values[0] = __uint_as_float(bits);
  } else {
    const T* const pair = reinterpret_cast<const T*>(&bits);
    values[0] = to_sum(pair[0]);
    values[1] = to_sum(pair[1]);
  }
}

template <typename T>
__device__ __forceinline__ unsigned pack(const float (&values)[Pack<T>::kSize]) {
  T result[Pack<T>::kSize];
#pragma unroll
  for (int v = 0; v < Pack<T>::kSize; ++v) result[v] = from_sum<T>(values[v]);
  return *reinterpret_cast<const unsigned*>(result);
}

template <int kK>
__device__ __forceinline__ void copy_chunk(unsigned* to, const unsigned* from, int64_t words_left) {
  constexpr int kWords = kThreads<kK> * kK * kK;
#if HDFNET_ASYNCHRONOUS_COPIES
  for (int i = 4 * static_cast<int>(threadIdx.x); i < kWords; i += 4 * kThreads<kK>) {
    const int64_t left = words_left - i;
    const int bytes = left >= 4 ? 16 : left > 0 ? static_cast<int>(left) * 4 : 0;
    copy_async_first(to + i, bytes > 0 ? from + i : from, bytes);
  }
  end_copy_group();
#else
  for (int i = threadIdx.x; i < kWords; i += kThreads<kK>) to[i] = i < words_left ? from[i] : 0;
#endif
}

template <typename T, int kK>
__global__ void __launch_bounds__(kThreads<kK>)
    filter_pixels(const __grid_constant__ FilterArguments a, const __grid_constant__ Splitters by,
                  unsigned units, int chunks) {
  constexpr int kSize = Pack<T>::kSize;
  constexpr int kTaps = kK * kK;
  constexpr int kChunkUnits = kThreads<kK>;
  extern __shared__ __align__(16) unsigned shared[];  // two chunks
  const unsigned first_unit = blockIdx.x * static_cast<unsigned>(chunks * kChunkUnits);
  const unsigned* const kernels = static_cast<const unsigned*>(a.kernels);
  const int width = static_cast<int>(a.width);
  const int height = static_cast<int>(a.height);

  const auto request = [&](int chunk) {
    const unsigned unit = first_unit + chunk * kChunkUnits;
    const int64_t left = unit < units ? static_cast<int64_t>(units - unit) * kTaps : 0;
    copy_chunk<kK>(shared + chunk % 2 * (kChunkUnits * kTaps),
                   left > 0 ? kernels + static_cast<int64_t>(unit) * kTaps : kernels, left);
  };

  request(0);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const unsigned first = first_unit + chunk * kChunkUnits;
    if (first >= units) break;
    if (chunk + 1 < chunks) request(chunk + 1);

    // x is asked for before the taps are waited for, so that both latencies overlap.
    const unsigned unit = first + threadIdx.x;
    int c = 0, b = 0;
    int64_t pixel = 0;
    unsigned values[kTaps];
    const auto read_x = [&] {
      unsigned rest = unit;
      c = by.words_of_channels.split(rest) * kSize;
      b = by.branches.split(rest);
      pixel = rest;
      const int w = by.width.split(rest);
      const int h = by.height.split(rest);
      const T* const plane = static_cast<const T*>(a.x) + rest * a.x_stride[0] + c;
      const int dilation = a.dilation[b];
      // Offsets within an image fit in 32 bits.
      const int step_h = static_cast<int>(a.x_stride[2]) * dilation;
      const int step_w = static_cast<int>(a.x_stride[3]) * dilation;
      int from_row = h * static_cast<int>(a.x_stride[2]) + w * static_cast<int>(a.x_stride[3]) -
                     kK / 2 * (step_h + step_w);
      int row = h - kK / 2 * dilation;
#pragma unroll
      for (int i = 0; i < kK; ++i, row += dilation, from_row += step_h) {
        const bool row_inside = row >= 0 && row < height;
#pragma unroll
        for (int j = 0; j < kK; ++j) {
          const int column = w + (j - kK / 2) * dilation;
          values[i * kK + j] = 0;
          if (row_inside && column >= 0 && column < width) {
            values[i * kK + j] =
                __ldg(reinterpret_cast<const unsigned*>(plane + (from_row + j * step_w)));
          }
        }
      }
    };
    if (unit < units) read_x();
    if (chunk + 1 < chunks) {
      wait_for_copy_groups<1>();
    } else {
      wait_for_copies();
    }
    __syncthreads();
    if (unit < units) {
      const unsigned* const words =
          shared + chunk % 2 * (kChunkUnits * kTaps) + threadIdx.x * kTaps;

      // Element e of the unit is tap e % K*K of channel e / K*K, two to a word in two-byte types.
      float sum[kSize] = {};
      float row_sum[kSize] = {};
      float tap[kSize][kTaps];
#pragma unroll
      for (int i = 0; i < kTaps; ++i) {
        float elements[kSize];
        unpack<T>(words[i], elements);
#pragma unroll
        for (int v = 0; v < kSize; ++v) {
          const int e = i * kSize + v;
          tap[e / kTaps][e % kTaps] = elements[v];
        }
      }
#pragma unroll
      for (int t = 0; t < kTaps; ++t) {
        float value[kSize];
        unpack<T>(values[t], value);
#pragma unroll
        for (int v = 0; v < kSize; ++v) {
          row_sum[v] = fmaf(value[v], tap[v][t], row_sum[v]);
          if (t % kK == kK - 1) {
            sum[v] += row_sum[v];
            row_sum[v] = 0;
          }
        }
      }
      T* const out = static_cast<T*>(a.out) + pixel * a.out_stride[3] + c;
      *reinterpret_cast<unsigned*>(out + a.output_channel + b * a.channels) = pack<T>(sum);
      if (a.concat_input && b == 0) *reinterpret_cast<unsigned*>(out) = values[kTaps / 2];
    }
    __syncthreads();  // the chunk has been read: the next request overwrites it
  }
}

template <typename T, int kK>
cudaError_t launch(const FilterArguments& a, cudaStream_t stream) {
  constexpr int kBytes = 2 * kThreads<kK> * kK * kK * 4;
  const cudaError_t error = allow_shared_memory(filter_pixels<T, kK>, kBytes);
  if (error != cudaSuccess) return error;
  const int64_t units = words_of_results(a);
  const int64_t all_chunks = (units + kThreads<kK> - 1) / kThreads<kK>;
  const int64_t chunks =
      std::min<int64_t>(kMostChunksOfBlock, (all_chunks + kWantedBlocks - 1) / kWantedBlocks);
  const auto blocks = static_cast<unsigned>((all_chunks + chunks - 1) / chunks);
  const Splitters by{Splitter(a.channels / Pack<T>::kSize), Splitter(a.branches), Splitter(a.width),
                     Splitter(a.height)};
  filter_pixels<T, kK><<<blocks, kThreads<kK>, kBytes, stream>>>(
      a, by, static_cast<unsigned>(units), static_cast<int>(chunks));
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch_kernel_size(const FilterArguments& a, cudaStream_t stream) {
  return a.kernel_size == 3   ? launch<T, 3>(a, stream)
         : a.kernel_size == 5 ? launch<T, 5>(a, stream)
                              : launch<T, 7>(a, stream);
}

}  // namespace

bool can_run_filter_pixels(const FilterArguments& a, std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (a.type == Type::kDouble) return no("float64");
  if (a.kernel_size != 3 && a.kernel_size != 5 && a.kernel_size != 7) {
    return no("kernel size other than 3, 5 and 7");
  }
  if (a.channels * size_of(a.type) % 4 != 0) return no("odd number of channels");
  if (a.channels > (int64_t{1} << 30)) return no("more than 2^30 channels");
  // One channel has any stride, but its branches are several of the result's.
  const bool branches_apart =
      a.output_channel + a.branches * a.channels > 1 && a.out_stride[1] != 1;
  if ((a.channels > 1 && a.x_stride[1] != 1) || branches_apart) {
    return no("channels are not neighbours in memory");
  }
  if (!pixels_aligned(a, 4) || reinterpret_cast<uintptr_t>(a.kernels) % 16 != 0) {
    return no("alignment");
  }
  const int64_t taps = int64_t{1} * a.kernel_size * a.kernel_size;
  const int64_t expected[6] = {a.height * a.width * a.branches * a.channels * taps,
                               a.channels * taps,
                               taps,
                               1,
                               a.width * a.branches * a.channels * taps,
                               a.branches * a.channels * taps};
  const int64_t sizes[6] = {a.batch, a.branches, a.channels, taps, a.height, a.width};
  for (int i = 0; i < 6; ++i) {
    if (sizes[i] > 1 && a.kernel_stride[i] != expected[i]) {
      return no("kernels are not one run of pixels, branches, channels, taps");
    }
  }
  const int64_t out_pixel = a.out_stride[3];
  if ((a.height > 1 && a.out_stride[2] != a.width * out_pixel) ||
      (a.batch > 1 && a.out_stride[0] != a.height * a.width * out_pixel)) {
    return no("pixels of the result do not follow one another");
  }
  int64_t reach = 0;
  for (int64_t b = 0; b < a.branches; ++b) {
    if (a.dilation[b] > (1 << 26)) return no("dilation above 2^26");
    reach = std::max<int64_t>(reach, int64_t{1} * (a.kernel_size / 2 + 1) * a.dilation[b]);
  }
  if (a.height > (1 << 26) || a.width > (1 << 26)) return no("side above 2^26");
  constexpr int64_t kFarthest = 0x7fffffff;
  if (a.x_stride[2] > kFarthest / (a.height + reach) ||
      a.x_stride[3] > kFarthest / (a.width + reach) ||
      (a.height + reach) * a.x_stride[2] + (a.width + reach) * a.x_stride[3] > kFarthest) {
    return no("x reaches farther than 2^31 elements");
  }
  if (words_of_results(a) > (int64_t{1} << 31)) return no("more than 2^31 results");
  return true;
}

cudaError_t launch_filter_pixels(const FilterArguments& a, cudaStream_t stream) {
  switch (a.type) {
    case Type::kFloat:
      return launch_kernel_size<float>(a, stream);
    case Type::kHalf:
      return launch_kernel_size<__half>(a, stream);
    default:
      return launch_kernel_size<__nv_bfloat16>(a, stream);
  }
}

}  // namespace hdfnet::ops::cuda
