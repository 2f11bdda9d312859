// generated_dynamic_filter on tensor cores: the taps are made and used in registers.
//
// The product taps = weight * y is laid out so that no tap moves between threads. One mma takes as
// its 16 rows the SAME tap of 16 channels, and as its 8 columns 8 pixels. Walking over the taps t,
// the accumulator element a thread holds is tap t of the same (channel, pixel) each time: it is
// multiplied by x at that pixel's neighbour t, added to the thread's sum, and forgotten.
//   y       B operand: 64 channels of a warp's pixels stay in registers across taps and channels
//   groups weight  A operand: 16 channels' taps lie in shared memory, row t*16 + m for mma row m
//   bias    the accumulator's start
//   x       a tile with its halo in shared memory, channels innermost, so that any shift is a whole
//           pixel away. mma rows m and m + 8 are channels 2m and 2m + 1: a thread's two channels
//           are one access.
// The order of k (y's channels) within a product is free, so each thread takes 16 neighbouring
// ones: its share of y (channels_last) and of weight are 16-byte accesses and no ldmatrix is
// needed. Block: 8 warps, a tile of 16 columns x 16 rows (8 rows for float) of one branch, looping
// over groups of 16 channels; blocks walk over tiles and reload weights only when the channel group
// changes. FLOPs: 2*Cy*K*K a result on tensor cores, 2*K*K beside them. Bytes: x, y and out once
// (the halo and the weights come from the L2). Bound by: tensor cores and shared memory about
// equally. Figures: ops/README.md.
#include "cuda/generated_filter_arguments.h"
#include "cuda/scalar.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kTileColumns = 16;
constexpr int kGroup = 16;   // channels of one mma
constexpr int kSource = 64;  // channels of y; fewer are filled up with zeros
constexpr int kSharedLimit = 200 * 1024;

/// What differs between types: widths, pitches (in 4-byte words) and the mma itself.
template <typename T>
struct Traits {
  static constexpr int kPixelTiles = 4;             // mma column tiles (8 pixels each) of a warp
  static constexpr int kSourceWords = kSource / 2;  // y channels of a pixel, in words
  static constexpr int kWeightPitch = kSourceWords + 4;
  static constexpr int kChunk = 8;  // elements in 16 bytes
};
template <>
struct Traits<float> {
  static constexpr int kPixelTiles = 2;
  static constexpr int kSourceWords = kSource;
  static constexpr int kWeightPitch = kSourceWords + 16;
  static constexpr int kChunk = 4;
};

/// Words from one pixel of the tile of x to the next. The padded ones keep the 4 pixels that a
/// quarter warp reads at once in separate banks.
template <typename T, bool kChannelsLast>
inline constexpr int pixel_pitch = sizeof(T) == 4  ? 24
                                   : kChannelsLast ? 8
                                                   : 12;

/// Which of the 8 pixels of a column tile an mma column is. Where pixels lie apart in memory (NCHW
/// of two-byte types) a thread's two columns stay neighbours, to be stored as one word.
template <typename T, bool kChannelsLast>
__device__ __forceinline__ int pixel_of_column(int column) {
  return sizeof(T) == 2 && !kChannelsLast ? column : (column & 1) * 4 + (column >> 1);
}

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4],
                                         const unsigned (&b)[2], __half) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4],
                                         const unsigned (&b)[2], __nv_bfloat16) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4],
                                         const unsigned (&b)[2], float) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

__device__ __forceinline__ unsigned round_to_tf32(unsigned bits) {
  unsigned result = bits;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(__uint_as_float(bits)));
#endif
  return result;
}

template <typename T>
__device__ __forceinline__ uint4 as_operand(uint4 bits) {
  if constexpr (sizeof(T) == 4) {
    bits.x = round_to_tf32(bits.x);
    bits.y = round_to_tf32(bits.y);
    bits.z = round_to_tf32(bits.z);
    bits.w = round_to_tf32(bits.w);
  }
  return bits;
}

/// Two neighbouring channels.
__device__ __forceinline__ float2 load_pair(const unsigned* from, __half) {
  return __half22float2(*reinterpret_cast<const __half2*>(from));
}
__device__ __forceinline__ float2 load_pair(const unsigned* from, __nv_bfloat16) {
  const unsigned bits = *from;
  return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
}
__device__ __forceinline__ float2 load_pair(const unsigned* from, float) {
  return *reinterpret_cast<const float2*>(from);
}

template <typename T>
__device__ __forceinline__ void store_pair(T* to, float first, float second) {
  if constexpr (sizeof(T) == 4) {
    *reinterpret_cast<float2*>(to) = make_float2(first, second);
  } else {
    const T pair[2] = {from_sum<T>(first), from_sum<T>(second)};
    *reinterpret_cast<unsigned*>(to) = *reinterpret_cast<const unsigned*>(pair);
  }
}

struct Geometry {
  int tile_rows;
  int tiles_down, tiles_across;
  int halo_columns;  // kTileColumns + 2 * largest reach
  unsigned tiles;    // of the whole batch
  bool vector_y;     // y may be read 16 bytes at a time
  bool vector_x;
  bool pairs_of_columns;  // out may be written two columns at a time
};

template <typename T, bool kChannelsLast, int kK>
__global__ void __launch_bounds__(kThreads, 2)
    generated_filter_mma(const __grid_constant__ GeneratedFilterArguments a,
                         const __grid_constant__ Geometry geometry) {
  using Tr = Traits<T>;
  constexpr int kTiles = Tr::kPixelTiles;
  constexpr int kPixelPitch = pixel_pitch<T, kChannelsLast>;
  constexpr int kRowsOfWarp = kTiles / 2;
  constexpr int kElementsInWord = 4 / static_cast<int>(sizeof(T));
  constexpr int kColumnsAtOnce = kK > 0 ? kK : 1;
  constexpr int kChunks = 16 / Tr::kChunk;  // 16-byte accesses to a thread's 16 channels of y
  const int k = kK > 0 ? kK : a.kernel_size;
  const int taps = k * k;

  extern __shared__ __align__(16) unsigned shared[];
  unsigned* const weights = shared;  // [taps*16][kWeightPitch]
  float* const biases = reinterpret_cast<float*>(weights + taps * kGroup * Tr::kWeightPitch);
  unsigned* const tile = reinterpret_cast<unsigned*>(biases + taps * kGroup);

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int g = lane / 4;     // mma row (and row + 8); column of the B operand
  const int quad = lane % 4;  // share of k; columns 2*quad and 2*quad + 1 of the result
  const int b = blockIdx.y;
  const int dilation = a.dilation[b];
  const int reach = k / 2 * dilation;
  const int halo_columns = kTileColumns + 2 * reach;
  const int halo_rows = geometry.tile_rows + 2 * reach;
  const int height = static_cast<int>(a.height);
  const int width = static_cast<int>(a.width);
  const int channel_groups = static_cast<int>(a.channels / kGroup);
  const int source_channels = static_cast<int>(a.source_channels);
  const T* const weight = static_cast<const T*>(a.weight) + b * a.weight_stride[0];
  int loaded_group = -1;

  for (unsigned job = blockIdx.x; job < geometry.tiles; job += gridDim.x) {
    unsigned rest = job;
    const int column0 = rest % geometry.tiles_across * kTileColumns;
    rest /= geometry.tiles_across;
    const int row0 = rest % geometry.tiles_down * geometry.tile_rows;
    const int64_t n = rest / geometry.tiles_down;

    // This thread's share of y: 16 channels of one pixel of each column tile.
    unsigned source[kTiles][Tr::kSourceWords / 4];
    const T* const y =
        static_cast<const T*>(a.y) + n * a.y_stride[0] + (a.groups == 1 ? 0 : b * a.y_stride[1]);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const int row = row0 + warp * kRowsOfWarp + j / 2;
      const int column = column0 + j % 2 * 8 + pixel_of_column<T, kChannelsLast>(g);
      const bool inside = row < height && column < width;
      const T* const pixel = y + row * a.y_stride[3] + column * a.y_stride[4];
#pragma unroll
      for (int q = 0; q < kChunks; ++q) {
        // float: chunks of the four threads alternate, so that a quarter warp's reads of the
        // weights fall into separate banks.
        const int first = sizeof(T) == 4 ? q * 16 + quad * 4 : quad * 16 + q * 8;
        uint4 bits = make_uint4(0, 0, 0, 0);
        if (inside && first < source_channels) {
          if (geometry.vector_y) {
            bits = __ldg(reinterpret_cast<const uint4*>(pixel + first));
          } else {
            T elements[Tr::kChunk];
#pragma unroll
            for (int e = 0; e < Tr::kChunk; ++e) {
              elements[e] = __ldg(pixel + (first + e) * a.y_stride[2]);
            }
            if constexpr (sizeof(T) == 4) {
              bits = make_uint4(__float_as_uint(elements[0]), __float_as_uint(elements[1]),
                                __float_as_uint(elements[2]), __float_as_uint(elements[3]));
            } else {
              const auto word = [&](int e) {
                const T pair[2] = {elements[e], elements[e + 1]};
                return *reinterpret_cast<const unsigned*>(pair);
              };
              bits = make_uint4(word(0), word(2), word(4), word(6));
            }
          }
          bits = as_operand<T>(bits);
        }
        source[j][4 * q] = bits.x;
        source[j][4 * q + 1] = bits.y;
        source[j][4 * q + 2] = bits.z;
        source[j][4 * q + 3] = bits.w;
      }
    }

    for (int group = 0; group < channel_groups; ++group) {
      __syncthreads();  // nobody reads the previous tile or weights any more
      if (loaded_group != group) {
        constexpr int kChunksInRow = kSource / Tr::kChunk;
        for (int i = threadIdx.x; i < taps * kGroup * kChunksInRow; i += kThreads) {
          const int chunk = i % kChunksInRow;
          const int row = i / kChunksInRow;  // of weight, counted from the group's first
          const int channel = row / taps;
          const int tap = row - channel * taps;
          uint4 bits = make_uint4(0, 0, 0, 0);
          if (chunk * Tr::kChunk < source_channels) {
            bits = as_operand<T>(__ldg(reinterpret_cast<const uint4*>(
                weight + (static_cast<int64_t>(group) * kGroup * taps + row) * a.weight_stride[1] +
                chunk * Tr::kChunk)));
          }
          const int mma_row = channel / 2 + channel % 2 * 8;
          *reinterpret_cast<uint4*>(weights + (tap * kGroup + mma_row) * Tr::kWeightPitch +
                                    chunk * 4) = bits;
        }
        for (int i = threadIdx.x; i < taps * kGroup; i += kThreads) {
          const int channel = i / taps;
          const int tap = i - channel * taps;
          const int mma_row = channel / 2 + channel % 2 * 8;
          biases[tap * kGroup + mma_row] =
              a.bias == nullptr ? 0.f
                                : to_sum(static_cast<const T*>(
                                      a.bias)[b * a.bias_stride[0] +
                                              (static_cast<int64_t>(group) * kGroup * taps + i) *
                                                  a.bias_stride[1]]);
        }
        loaded_group = group;
      }

      const T* const x = static_cast<const T*>(a.x) + n * a.x_stride[0] +
                         static_cast<int64_t>(group) * kGroup * a.x_stride[1];
      const int halo = halo_rows * halo_columns;
      if (kChannelsLast && geometry.vector_x) {
        constexpr int kChunksOfPixel = kGroup / Tr::kChunk;
        for (int i = threadIdx.x; i < halo * kChunksOfPixel; i += kThreads) {
          const int chunk = i % kChunksOfPixel;
          const int pixel = i / kChunksOfPixel;
          const int r = pixel / halo_columns;
          const int row = row0 - reach + r;
          const int column = column0 - reach + pixel - r * halo_columns;
          uint4 bits = make_uint4(0, 0, 0, 0);
          if (row >= 0 && row < height && column >= 0 && column < width) {
            bits = __ldg(reinterpret_cast<const uint4*>(
                x + row * a.x_stride[2] + column * a.x_stride[3] + chunk * Tr::kChunk));
          }
          *reinterpret_cast<uint4*>(tile + pixel * kPixelPitch + chunk * 4) = bits;
        }
      } else {
        // Lanes take 8 pixels x 4 words (channels pairs): reads run along the pixels, and the
        // writes of a warp meet in a bank twice at most.
        constexpr int kWordsOfPixel = kGroup / kElementsInWord;
        const int pixel_blocks = (halo + 7) / 8;
        for (int i = warp; i < pixel_blocks * (kWordsOfPixel / 4); i += kWarps) {
          const int pixel = i / (kWordsOfPixel / 4) * 8 + lane % 8;
          const int word = i % (kWordsOfPixel / 4) * 4 + lane / 8;
          if (pixel >= halo) continue;
          const int r = pixel / halo_columns;
          const int row = row0 - reach + r;
          const int column = column0 - reach + pixel - r * halo_columns;
          T pair[kElementsInWord] = {};
          if (row >= 0 && row < height && column >= 0 && column < width) {
            const T* from = x + row * a.x_stride[2] + column * a.x_stride[3] +
                            static_cast<int64_t>(word) * kElementsInWord * a.x_stride[1];
#pragma unroll
            for (int e = 0; e < kElementsInWord; ++e) pair[e] = __ldg(from + e * a.x_stride[1]);
          }
          tile[pixel * kPixelPitch + word] = *reinterpret_cast<const unsigned*>(pair);
        }
      }
      __syncthreads();

      float sum[kTiles][4] = {};
      constexpr int kPairWords = 2 / kElementsInWord;  // words of a thread's two channels
      // Where tap 0 of this thread's pixels lies: of row kRow and mma column 2*quad (+1: kNext).
      const unsigned* const base =
          tile +
          (warp * kRowsOfWarp * halo_columns + pixel_of_column<T, kChannelsLast>(2 * quad)) *
              kPixelPitch +
          g * kPairWords;
      const int next =
          (pixel_of_column<T, kChannelsLast>(1) - pixel_of_column<T, kChannelsLast>(0)) *
          kPixelPitch;
      const unsigned* weight_row =
          weights + g * Tr::kWeightPitch + (sizeof(T) == 4 ? quad * 4 : quad * 8);
      const float* bias = biases + g;
      for (int i = 0; i < k; ++i) {
#pragma unroll kColumnsAtOnce
        for (int column = 0; column < k; ++column) {
          const unsigned* const from = base + (i * halo_columns + column) * dilation * kPixelPitch;
          unsigned low[Tr::kSourceWords / 4], high[Tr::kSourceWords / 4];
#pragma unroll
          for (int q = 0; q < kChunks; ++q) {
            const int offset = sizeof(T) == 4 ? q * 16 : q * 4;
            const uint4 l = *reinterpret_cast<const uint4*>(weight_row + offset);
            const uint4 h =
                *reinterpret_cast<const uint4*>(weight_row + 8 * Tr::kWeightPitch + offset);
            low[4 * q] = l.x, low[4 * q + 1] = l.y, low[4 * q + 2] = l.z, low[4 * q + 3] = l.w;
            high[4 * q] = h.x, high[4 * q + 1] = h.y, high[4 * q + 2] = h.z, high[4 * q + 3] = h.w;
          }
          const float bias_low = bias[0];
          const float bias_high = bias[8];
          float tap[kTiles][4];
#pragma unroll
          for (int t = 0; t < kTiles; ++t) {
            tap[t][0] = tap[t][1] = bias_low;
            tap[t][2] = tap[t][3] = bias_high;
          }
#pragma unroll
          for (int s = 0; s < Tr::kSourceWords / 8; ++s) {
            const unsigned operand_a[4] = {low[2 * s], high[2 * s], low[2 * s + 1],
                                           high[2 * s + 1]};
#pragma unroll
            for (int t = 0; t < kTiles; ++t) {
              const unsigned operand_b[2] = {source[t][2 * s], source[t][2 * s + 1]};
              multiply(tap[t], operand_a, operand_b, T());
            }
          }
#pragma unroll
          for (int t = 0; t < kTiles; ++t) {
            const unsigned* const pixel =
                from + t / 2 * halo_columns * kPixelPitch + t % 2 * 8 * kPixelPitch;
            const float2 first = load_pair(pixel, T());
            const float2 second = load_pair(pixel + next, T());
            sum[t][0] = fmaf(tap[t][0], first.x, sum[t][0]);
            sum[t][1] = fmaf(tap[t][1], second.x, sum[t][1]);
            sum[t][2] = fmaf(tap[t][2], first.y, sum[t][2]);
            sum[t][3] = fmaf(tap[t][3], second.y, sum[t][3]);
          }
          weight_row += kGroup * Tr::kWeightPitch;
          bias += kGroup;
        }
      }

      // Write the results; the first branch's blocks also copy x in front of them.
      const int copies = a.concat_input && b == 0 ? 2 : 1;
      for (int copy = 0; copy < copies; ++copy) {
        const int64_t channel =
            (copy == 1 ? 0 : a.output_channel + b * a.channels) + group * kGroup + 2 * g;
        T* const out = static_cast<T*>(a.out) + n * a.out_stride[0] + channel * a.out_stride[1];
        const unsigned* const centre = base + reach * (halo_columns + 1) * kPixelPitch;
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          const int row = row0 + warp * kRowsOfWarp + t / 2;
          const int column = column0 + t % 2 * 8 + pixel_of_column<T, kChannelsLast>(2 * quad);
          const int next_column =
              column0 + t % 2 * 8 + pixel_of_column<T, kChannelsLast>(2 * quad + 1);
          if (row >= height) continue;
          float value[4] = {sum[t][0], sum[t][1], sum[t][2], sum[t][3]};
          if (copy == 1) {
            const unsigned* const pixel =
                centre + t / 2 * halo_columns * kPixelPitch + t % 2 * 8 * kPixelPitch;
            const float2 first = load_pair(pixel, T());
            const float2 second = load_pair(pixel + next, T());
            value[0] = first.x, value[1] = second.x, value[2] = first.y, value[3] = second.y;
          }
          T* const to = out + row * a.out_stride[2];
          if (kChannelsLast) {
            if (column < width) store_pair(to + column * a.out_stride[3], value[0], value[2]);
            if (next_column < width) {
              store_pair(to + next_column * a.out_stride[3], value[1], value[3]);
            }
          } else if (sizeof(T) == 2 && geometry.pairs_of_columns) {
            if (column < width) {
              store_pair(to + column, value[0], value[1]);
              store_pair(to + column + a.out_stride[1], value[2], value[3]);
            }
          } else {
            if (column < width) {
              to[column * a.out_stride[3]] = from_sum<T>(value[0]);
              to[column * a.out_stride[3] + a.out_stride[1]] = from_sum<T>(value[2]);
            }
            if (next_column < width) {
              to[next_column * a.out_stride[3]] = from_sum<T>(value[1]);
              to[next_column * a.out_stride[3] + a.out_stride[1]] = from_sum<T>(value[3]);
            }
          }
        }
      }
    }
  }
}

bool aligned(const void* pointer, int bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) == 0;
}

int largest_reach(const GeneratedFilterArguments& a) {
  int largest = 0;
  for (int64_t b = 0; b < a.branches; ++b) {
    largest = a.dilation[b] > largest ? a.dilation[b] : largest;
  }
  return a.kernel_size / 2 * largest;
}

bool writes_channels_last(const GeneratedFilterArguments& a) {
  return a.out_stride[1] == 1 && (a.height > 1 || a.width > 1 || a.channels == 1);
}

template <typename T>
int64_t shared_bytes(const GeneratedFilterArguments& a) {
  const int64_t taps = a.kernel_size * a.kernel_size;
  const int64_t reach = largest_reach(a);
  const int64_t rows = kWarps * Traits<T>::kPixelTiles / 2;
  const int64_t pitch = writes_channels_last(a) ? pixel_pitch<T, true> : pixel_pitch<T, false>;
  return 4 * (taps * kGroup * (Traits<T>::kWeightPitch + 1) +
              (rows + 2 * reach) * (kTileColumns + 2 * reach) * pitch);
}

template <typename T>
Geometry geometry_of(const GeneratedFilterArguments& a) {
  constexpr int size = static_cast<int>(sizeof(T));
  constexpr int chunk = Traits<T>::kChunk;
  const auto multiples = [](const int64_t* strides, int count, int skipped, int64_t of) {
    for (int i = 0; i < count; ++i) {
      if (i != skipped && strides[i] % of != 0) return false;
    }
    return true;
  };
  Geometry geometry{};
  geometry.tile_rows = kWarps * Traits<T>::kPixelTiles / 2;
  geometry.tiles_down = static_cast<int>((a.height + geometry.tile_rows - 1) / geometry.tile_rows);
  geometry.tiles_across = static_cast<int>((a.width + kTileColumns - 1) / kTileColumns);
  geometry.tiles = static_cast<unsigned>(a.batch * geometry.tiles_down * geometry.tiles_across);
  geometry.vector_y = a.y_stride[2] == 1 && aligned(a.y, 16) && multiples(a.y_stride, 5, 2, chunk);
  geometry.vector_x = a.x_stride[1] == 1 && aligned(a.x, 16) && multiples(a.x_stride, 4, 1, chunk);
  geometry.pairs_of_columns = a.out_stride[3] == 1 && a.width % 2 == 0 &&
                              aligned(a.out, 2 * size) && multiples(a.out_stride, 4, 3, 2);
  return geometry;
}

template <typename T, bool kChannelsLast, int kK>
cudaError_t launch(const GeneratedFilterArguments& a, cudaStream_t stream) {
  const auto kernel = generated_filter_mma<T, kChannelsLast, kK>;
  const auto bytes = static_cast<int>(shared_bytes<T>(a));
  int device = 0, multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error == cudaSuccess && bytes > 48 * 1024) {
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  }
  if (error != cudaSuccess) return error;
  const Geometry geometry = geometry_of<T>(a);
  // Two blocks share a multiprocessor. With one channel group, a block keeps its weights over many
  // tiles; with several it reloads them anyway, and an even share of work counts more.
  const int64_t resident = 2 * multiprocessors / a.branches;
  int64_t across = geometry.tiles;
  if (a.channels == kGroup && across > resident && resident > 0) {
    const int64_t rounds = (across + resident - 1) / resident;
    across = (across + rounds - 1) / rounds;
  }
  kernel<<<dim3(static_cast<unsigned>(across), static_cast<unsigned>(a.branches)), kThreads, bytes,
           stream>>>(a, geometry);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch_type(const GeneratedFilterArguments& a, cudaStream_t stream) {
  if (writes_channels_last(a)) {
    return a.kernel_size == 3 ? launch<T, true, 3>(a, stream) : launch<T, true, 0>(a, stream);
  }
  return a.kernel_size == 3 ? launch<T, false, 3>(a, stream) : launch<T, false, 0>(a, stream);
}

int compute_capability() {
  int device = 0, major = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess) {
    return 0;
  }
  return major;
}

}  // namespace

bool can_run_generated_filter_mma(const GeneratedFilterArguments& a, std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (a.type == Type::kDouble) return no("float64");
  if (a.type == Type::kFloat && !a.allow_tf32) return no("float without TF32");
  if (a.channels % kGroup != 0) return no("channels of x are no multiple of 16");
  if (a.source_channels > kSource || a.source_channels % 8 != 0) {
    return no("channels of y are no multiple of 8 up to 64");
  }
  const int64_t chunk = a.type == Type::kFloat ? 4 : 8;
  if (a.weight_stride[2] != 1 || a.weight_stride[1] % chunk != 0 ||
      a.weight_stride[0] % chunk != 0 || !aligned(a.weight, 16)) {
    return no("rows of weight are not dense and 16-byte aligned");
  }
  for (int64_t b = 0; b < a.branches; ++b) {
    if (a.dilation[b] > 1024) return no("reach of the taps");
  }
  const int64_t bytes = a.type == Type::kFloat ? shared_bytes<float>(a) : shared_bytes<__half>(a);
  if (bytes > kSharedLimit) return no("reach of the taps exceeds shared memory");
  if (a.batch * a.height * a.width > (int64_t{1} << 31)) return no("more than 2^31 pixels");
  if (compute_capability() < 8) return no("compute capability below 8.0");
  return true;
}

cudaError_t launch_generated_filter_mma(const GeneratedFilterArguments& a, cudaStream_t stream) {
  switch (a.type) {
    case Type::kFloat:
      return launch_type<float>(a, stream);
    case Type::kHalf:
      return launch_type<__half>(a, stream);
    default:
      return launch_type<__nv_bfloat16>(a, stream);
  }
}

}  // namespace hdfnet::ops::cuda
