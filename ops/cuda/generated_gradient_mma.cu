// The gradients of generated_dynamic_filter on tensor cores (fp16, bf16; K 3; channels_last). Taps
// and their gradients are made and used on chip:
//
//   d x[p, c]      = sum over b, t of grad[p - o, b, c] * tap[p - o, b, c, t]      (o: t's offset)
//   d tap[p,b,c,t] = grad[p, b, c] * x[p + o, c]
//   d y[p, i]      = sum over b, c, t of weight[b, c, t, i] * d tap[p, b, c, t]
//   d weight[b, c, t, i] = sum over p of d tap[p, b, c, t] * y[p, i]
//
// One kernel each, blocks of 8 warps and tiles of 16 x 16 pixels. A map's tile lies in shared
// memory pixel by pixel, 16-byte chunks of channels swizzled, so that ldmatrix may begin at any
// pixel: a tap's offset costs nothing. No atomics: the same bits every time.
//
// - d x: mma rows are pixels, columns 16 channels, k the channels of y, read at the tap's offset
// with
//   the tile's halo. The accumulator is tap t of a thread's (pixel, channel) pairs: it is
//   multiplied by grad there, added to the thread's sums, and forgotten. Grad comes through the L1.
// - d y: rows are pixels, columns the channels of y, k 16 channels of x at one tap: the operand is
// x
//   at the offset times grad, word by word, rounded once as a tensor of them would be.
// - d weight: rows are 16 channels at one tap, columns channels of y, k pixels: the same operand,
//   transposed by ldmatrix. A block keeps 16 channels of a branch and walks over tiles; its sums go
//   to scratch, and a last kernel adds those of all blocks up in order.
//
// - d bias: the same operand times ones.
//
// FLOPs: 2*Cy*9 a result each, three times the forward pass. Bytes: d x reads y with its halo
// (2.6-fold at dilation 5) for each 16 channels, d y reads x and grad once, d weight y for each
// branch and 16 channels: most of it from the L2. Figures: ops/README.md.
#include <algorithm>
#include <type_traits>

#include "cuda/device_facts.h"
#include "cuda/filter_words.cuh"
#include "cuda/generated_gradient_arguments.h"
#include "cuda/shared_limit.h"
#include "cuda/simt.cuh"
#include "cuda/tensor_core.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kSide = 16;                           // of a tile of pixels
constexpr int kRowParts = 2;                        // the gradient of weight: of a tile's rows
constexpr int kWeightThreads = 3 * kRowParts * 32;  // and a warp for each row of taps
constexpr int kGroup = 16;                          // channels of x that a block or a stage has
constexpr int kTaps = 9;
constexpr int kChunkBytes = 16;
constexpr int kGroupChunks = 2;  // of 8 two-byte elements
constexpr int kMostSource = 64;
constexpr int kMostDilation = 8;
constexpr int kBlocksAtOnce = 2;  // of a multiprocessor

using Arguments = GeneratedGradientArguments;

/// Tiles of the whole batch.
struct Tiles {
  int down, across;
  int64_t count;
  explicit Tiles(const Arguments& a)
      : down((a.height + kSide - 1) / kSide),
        across((a.width + kSide - 1) / kSide),
        count(a.batch * down * across) {}
};

struct Place {
  int64_t n;
  int row, column;  // of the first pixel
  __device__ Place(const Tiles& tiles, int64_t tile) {
    const int64_t line = tile / tiles.across;
    column = static_cast<int>(tile - line * tiles.across) * kSide;
    n = line / tiles.down;
    row = static_cast<int>(line - n * tiles.down) * kSide;
  }
};

/// A tile in shared memory: `columns` pixels a row, kChunks chunks a pixel. Eight neighbouring
/// pixels' (or rows') chunks of one number lie in different banks.
template <int kChunks>
struct SharedTile {
  static constexpr int kBytes = kChunks * kChunkBytes;  // of a pixel
  unsigned char* first;

  static __device__ __forceinline__ int swizzle(int pixel) {
    return pixel / (8 / kChunks) & (kChunks - 1);
  }
  __device__ __forceinline__ unsigned char* chunk(int pixel, int number) const {
    return first + pixel * kBytes + (number ^ swizzle(pixel)) * kChunkBytes;
  }
};

/// Copies `rows` x `columns` pixels from (row, column) on; zeros outside of the plane, and for
/// chunks from `real_chunks` on. `image` is at the first channel that is wanted. A warp has a row
/// of the tile, a lane one chunk of every few pixels.
template <int kBlock = kThreads, int kChunks, typename T>
__device__ __forceinline__ void copy_tile(SharedTile<kChunks> to, const T* image, int pixel_stride,
                                          int real_chunks, int height, int width, int row,
                                          int column, int rows, int columns) {
  constexpr int kPixels = 32 / kChunks;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int number = lane % kChunks;
  const int first = lane / kChunks;
  for (int r = static_cast<int>(threadIdx.x) / 32; r < rows; r += kBlock / 32) {
    const int h = row + r;
    const bool row_is_real =
        number < real_chunks && static_cast<unsigned>(h) < static_cast<unsigned>(height);
    const T* from = image + (h * width + column + first) * pixel_stride + number * 8;
    for (int c = first; c < columns; c += kPixels) {
      copy_async<kChunkBytes>(
          to.chunk(r * columns + c, number), from,
          row_is_real && static_cast<unsigned>(column + c) < static_cast<unsigned>(width));
      from += kPixels * pixel_stride;
    }
  }
}

/// The column of two mma column tiles that computes a channel of the group, so that a thread's part
/// of both, columns 2 * (lane % 4) and the next, is four neighbouring channels.
__device__ __forceinline__ int column_of_channel(int channel) {
  return channel / 2 % 2 * 8 + channel / 4 * 2 + channel % 2;
}

/// The rows of weight of 16 channels of a branch: in memory one channel's taps after another, in
/// shared memory tap by tap, channels in their order or in that of columns.
template <bool kByColumn, int kChunks, typename T>
__device__ __forceinline__ void copy_weights(SharedTile<kChunks> to, const T* rows,
                                             int source_channels) {
  for (int i = static_cast<int>(threadIdx.x); i < kTaps * kGroup * kChunks; i += kThreads) {
    const int number = i % kChunks;
    const int row = i / kChunks;
    const int channel = row / kTaps;
    const int t = row - channel * kTaps;
    const bool real = number * 8 < source_channels;
    const int place = kByColumn ? column_of_channel(channel) : channel;
    copy_async<kChunkBytes>(to.chunk(t * kGroup + place, number),
                            rows + (real ? row * source_channels + number * 8 : 0), real);
  }
}

__device__ __forceinline__ void wait_for_all_copies() {
  end_copy_group();
  wait_for_copy_groups<0>();
  __syncthreads();
}

/// The product of two words of two elements each, rounded as one of floats is.
__device__ __forceinline__ unsigned times(unsigned a, unsigned b, __half) {
  const __half2 product =
      __hmul2(*reinterpret_cast<const __half2*>(&a), *reinterpret_cast<const __half2*>(&b));
  return *reinterpret_cast<const unsigned*>(&product);
}
__device__ __forceinline__ unsigned times(unsigned a, unsigned b, __nv_bfloat16) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  const __nv_bfloat162 product = __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&a),
                                         *reinterpret_cast<const __nv_bfloat162*>(&b));
  return *reinterpret_cast<const unsigned*>(&product);
#else
  return 0;  // refused there
#endif
}

/// Two or four channels of a pixel of grad; zero outside of the plane.
template <typename Bits, typename T>
__device__ __forceinline__ Bits load_grad(const T* image, int h, int w, int height, int width,
                                          int pixel_stride) {
  return is_inside(h, height) && is_inside(w, width)
             ? __ldg(reinterpret_cast<const Bits*>(image + (h * width + w) * pixel_stride))
             : Bits{};
}

__device__ __forceinline__ int grad_channels(const Arguments& a) {
  return (a.branches + (a.concat_input ? 1 : 0)) * a.channels;
}

// A warp has the tile's rows 2 * warp and 2 * warp + 1: two mma row tiles of 16 pixels. A thread's
// part of a result: pixels lane / 4 and lane / 4 + 8 of a row, columns 2 * (lane % 4) and the next.

/// grid: tiles, groups of 16 channels.
template <typename T, int kSteps>  // of 16 channels of y
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    gradient_of_generated_x(const __grid_constant__ Arguments a, const Tiles tiles, int reach) {
  constexpr int kChunks = 2 * kSteps;
  using Pair = Word<T, 2>;
  extern __shared__ __align__(128) unsigned char shared[];
  const SharedTile<kChunks> weights{shared};
  float* const biases = reinterpret_cast<float*>(shared + kTaps * kGroup * kChunks * kChunkBytes);
  const SharedTile<kChunks> source{reinterpret_cast<unsigned char*>(biases + kTaps * kGroup)};

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Place place(tiles, blockIdx.x);
  const int first_channel = static_cast<int>(blockIdx.y) * kGroup;
  const int64_t pixels = static_cast<int64_t>(a.height) * a.width;
  const int columns = kSide + 2 * reach;
  const int of_grad = grad_channels(a);
  const int own_channels = first_channel + lane % 4 * 4;  // and the three after it
  const T* const grad = static_cast<const T*>(a.grad) + place.n * pixels * of_grad + own_channels;
  const T* const y = static_cast<const T*>(a.y) + place.n * pixels * a.groups * a.source_channels;
  // Four channels of grad at a thread's pixels, moved back by a tap's offset: [row][pixel].
  const auto load_factors = [&](const T* of_branch, int down, int right, uint2(&to)[2][2]) {
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        to[m][half] = load_grad<uint2>(of_branch, place.row + 2 * warp + m - down,
                                       place.column + lane / 4 + 8 * half - right, a.height,
                                       a.width, of_grad);
      }
    }
  };

  float sum[2][2][4] = {};  // [row][column tile]
  for (int b = 0; b < a.branches; ++b) {
    if (b > 0) __syncthreads();  // the branch before is computed
    const int64_t row = (static_cast<int64_t>(b) * a.channels + first_channel) * kTaps;
    copy_weights<true>(weights, static_cast<const T*>(a.weight) + row * a.source_channels,
                       a.source_channels);
    if (b == 0 || a.groups > 1) {
      copy_tile(source, y + (a.groups > 1 ? b * a.source_channels : 0),
                a.groups * a.source_channels, a.source_channels / 8, a.height, a.width,
                place.row - reach, place.column - reach, columns, columns);
    }
    if (threadIdx.x < kTaps * kGroup) {
      const int channel = static_cast<int>(threadIdx.x) / kTaps;
      const int t = static_cast<int>(threadIdx.x) - channel * kTaps;
      biases[t * kGroup + channel] =
          a.bias == nullptr ? 0.f : to_sum(static_cast<const T*>(a.bias)[row + threadIdx.x]);
    }
    const int dilation = a.dilation[b];
    const T* const of_branch = grad + (b + (a.concat_input ? 1 : 0)) * a.channels;
    uint2 next[2][2];
    load_factors(of_branch, -dilation, -dilation, next);
    wait_for_all_copies();

#pragma unroll 1
    for (int t = 0; t < kTaps; ++t) {
      const int down = (t / 3 - 1) * dilation;
      const int right = (t % 3 - 1) * dilation;
      uint2 factors[2][2];
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) factors[m][half] = next[m][half];
      }
      if (t + 1 < kTaps) {
        load_factors(of_branch, ((t + 1) / 3 - 1) * dilation, ((t + 1) % 3 - 1) * dilation, next);
      }
      const float4 start = *reinterpret_cast<const float4*>(biases + t * kGroup + lane % 4 * 4);
      float tap[2][2][4];
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        tap[m][0][0] = tap[m][0][2] = start.x;
        tap[m][0][1] = tap[m][0][3] = start.y;
        tap[m][1][0] = tap[m][1][2] = start.z;
        tap[m][1][1] = tap[m][1][3] = start.w;
      }
      const int pixel = (2 * warp + reach - down) * columns + reach - right + lane % 16;
      const int weight_row = t * kGroup + lane % 8 + lane / 16 * 8;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        unsigned from_y[2][4], from_weight[4];
        load_matrices(from_weight, weights.chunk(weight_row, 2 * step + lane / 8 % 2));
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          load_matrices(from_y[m], source.chunk(pixel + m * columns, 2 * step + lane / 16));
        }
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            multiply_add(tap[m][j], from_y[m], from_weight[2 * j], from_weight[2 * j + 1], T());
          }
        }
      }
      // Where grad lies outside of the plane, a tap of what is not finite would make NaN of it.
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (!is_inside(place.row + 2 * warp + m - down, a.height) ||
              !is_inside(place.column + lane / 4 + 8 * half - right, a.width)) {
            continue;
          }
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            float factor[2];
            Pair::unpack(j == 0 ? factors[m][half].x : factors[m][half].y, factor);
            float* const into = sum[m][j] + 2 * half;
            const float* const value = tap[m][j] + 2 * half;
            into[0] = fmaf(value[0], factor[0], into[0]);
            into[1] = fmaf(value[1], factor[1], into[1]);
          }
        }
      }
    }
  }

  T* const out = static_cast<T*>(a.grad_x) + place.n * pixels * a.channels + own_channels;
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int h = place.row + 2 * warp + m;
      const int w = place.column + lane / 4 + 8 * half;
      if (h >= a.height || w >= a.width) continue;
      uint2 copy{};
      if (a.concat_input) copy = load_grad<uint2>(grad, h, w, a.height, a.width, of_grad);
      uint2 result;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float value[2];
        Pair::unpack(j == 0 ? copy.x : copy.y, value);
        value[0] += sum[m][j][2 * half];
        value[1] += sum[m][j][2 * half + 1];
        (j == 0 ? result.x : result.y) = Pair::pack(value);
      }
      *reinterpret_cast<uint2*>(out + (h * a.width + w) * a.channels) = result;
    }
  }
}

/// grid: tiles, groups of y.
template <typename T, int kSteps>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    gradient_of_generated_y(const __grid_constant__ Arguments a, const Tiles tiles, int reach) {
  constexpr int kChunks = 2 * kSteps;
  constexpr int kWeightBytes = kTaps * kGroup * kChunks * kChunkBytes;
  using Pair = Word<T, 2>;
  extern __shared__ __align__(128) unsigned char shared[];
  const int stage_bytes =
      kWeightBytes + (kSide + 2 * reach) * (kSide + 2 * reach) * kGroupChunks * kChunkBytes;
  const auto weights_of = [&](int stage) {
    return SharedTile<kChunks>{shared + stage % 2 * stage_bytes};
  };
  const auto tile_of = [&](int stage) {
    return SharedTile<kGroupChunks>{shared + stage % 2 * stage_bytes + kWeightBytes};
  };

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Place place(tiles, blockIdx.x);
  const int64_t pixels = static_cast<int64_t>(a.height) * a.width;
  const int of_grad = grad_channels(a);
  const T* const grad = static_cast<const T*>(a.grad) + place.n * pixels * of_grad + lane % 4 * 2;
  const T* const x = static_cast<const T*>(a.x) + place.n * pixels * a.channels;
  const int groups = a.channels / kGroup;
  const int first_branch = a.groups > 1 ? static_cast<int>(blockIdx.y) : 0;
  const int stages = (a.groups > 1 ? 1 : a.branches) * groups;
  const auto copy_stage = [&](int stage) {
    const int b = first_branch + stage / groups;
    const int channel = stage % groups * kGroup;
    copy_weights<false>(
        weights_of(stage),
        static_cast<const T*>(a.weight) +
            (static_cast<int64_t>(b) * a.channels + channel) * kTaps * a.source_channels,
        a.source_channels);
    const int own = a.dilation[b];
    copy_tile(tile_of(stage), x + channel, a.channels, kGroupChunks, a.height, a.width,
              place.row - own, place.column - own, kSide + 2 * own, kSide + 2 * own);
    end_copy_group();
  };

  float sum[2][2 * kSteps][4] = {};  // [row][8 channels of y]
  copy_stage(0);
  for (int stage = 0; stage < stages; ++stage) {
    const int b = first_branch + stage / groups;
    const int channel = stage % groups * kGroup;
    const int dilation = a.dilation[b];
    const int columns = kSide + 2 * dilation;
    // As an operand: pixels lane / 4 and the eighth after it, then the same of channels 8 on.
    unsigned factors[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        factors[m][i] = load_grad<unsigned>(
            grad + (b + (a.concat_input ? 1 : 0)) * a.channels + channel + i / 2 * 8,
            place.row + 2 * warp + m, place.column + lane / 4 + i % 2 * 8, a.height, a.width,
            of_grad);
      }
    }
    if (stage + 1 < stages) {
      copy_stage(stage + 1);
      wait_for_copy_groups<1>();
    } else {
      wait_for_copy_groups<0>();
    }
    __syncthreads();
    const auto weights = weights_of(stage);
    const auto tile = tile_of(stage);
#pragma unroll 3
    for (int t = 0; t < kTaps; ++t) {
      const int down = (t / 3 - 1) * dilation;
      const int right = (t % 3 - 1) * dilation;
      const int pixel = (2 * warp + dilation + down) * columns + dilation + right + lane % 16;
      unsigned products[2][4];
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        load_matrices(products[m], tile.chunk(pixel + m * columns, lane / 16));
#pragma unroll
        for (int i = 0; i < 4; ++i) products[m][i] = times(products[m][i], factors[m][i], T());
      }
      const int weight_row = t * kGroup + lane % 16;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        unsigned from_weight[4];
        load_matrices<true>(from_weight, weights.chunk(weight_row, 2 * step + lane / 16));
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          multiply_add(sum[m][2 * step], products[m], from_weight[0], from_weight[1], T());
          multiply_add(sum[m][2 * step + 1], products[m], from_weight[2], from_weight[3], T());
        }
      }
    }
    __syncthreads();  // before the stage after the next is copied to the same place
  }

  T* const out = static_cast<T*>(a.grad_y) + place.n * pixels * a.groups * a.source_channels +
                 static_cast<int>(blockIdx.y) * a.source_channels;
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int h = place.row + 2 * warp + m;
      const int w = place.column + lane / 4 + 8 * half;
      if (h >= a.height || w >= a.width) continue;
      T* const to = out + (h * a.width + w) * (a.groups * a.source_channels);
#pragma unroll
      for (int j = 0; j < 2 * kSteps; ++j) {
        const int i = 8 * j + lane % 4 * 2;
        if (i >= a.source_channels) continue;
        *reinterpret_cast<unsigned*>(to + i) =
            Pair::pack({sum[m][j][2 * half], sum[m][j][2 * half + 1]});
      }
    }
  }
}

/// Where partial sums lie: for each block of a row of the grid [branch and group][tap][channel][i]
/// of weight's gradient, with Cy rounded up to what a block computes; behind all of them
/// [branch and group][tap][channel] of bias's.
struct Partial {
  int splits, parts, source;  // parts: branches times groups of 16 channels
  __host__ __device__ int64_t of_weight() const {
    return static_cast<int64_t>(parts) * kTaps * kGroup * source;
  }
  __host__ __device__ int64_t of_bias() const {
    return static_cast<int64_t>(parts) * kTaps * kGroup;
  }
  __host__ __device__ int64_t bias_begins() const { return splits * of_weight(); }
};

/// Blocks of a multiprocessor that the gradient of weight aims at.
constexpr int weight_blocks(int steps) {
  return steps == 1 ? 4 : 2;
}

/// grid: splits, branches times groups of 16 channels. A warp has a row of taps, and half of the
/// tile's rows of pixels.
template <typename T, int kSteps>
__global__ void __launch_bounds__(kWeightThreads, weight_blocks(kSteps))
    gradient_of_generated_weight(const __grid_constant__ Arguments a, const Tiles tiles,
                                 const Partial partial) {
  constexpr int kChunks = 2 * kSteps;
  constexpr int kPixels = kSide * kSide;
  constexpr int kRows = kSide / kRowParts;
  constexpr int kSums = 3 * 2 * kSteps * 4;                                     // of a thread
  const unsigned ones = std::is_same_v<T, __half> ? 0x3c003c00u : 0x3f803f80u;  // two of 1
  extern __shared__ __align__(128) unsigned char shared[];
  const SharedTile<kChunks> source{shared};
  const SharedTile<kGroupChunks> factors{shared + kPixels * kChunks * kChunkBytes};
  const SharedTile<kGroupChunks> tile{factors.first + kPixels * kGroupChunks * kChunkBytes};

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int tap_row = warp % 3;
  const int row_part = warp / 3;
  const int groups = a.channels / kGroup;
  const int b = static_cast<int>(blockIdx.y) / groups;
  const int channel = static_cast<int>(blockIdx.y) % groups * kGroup;
  const int dilation = a.dilation[b];
  const int columns = kSide + 2 * dilation;
  const int64_t pixels = static_cast<int64_t>(a.height) * a.width;
  const int of_grad = grad_channels(a);
  const int of_y = a.groups * a.source_channels;
  const T* const grad =
      static_cast<const T*>(a.grad) + (b + (a.concat_input ? 1 : 0)) * a.channels + channel;
  const T* const x = static_cast<const T*>(a.x) + channel;
  const T* const y = static_cast<const T*>(a.y) + (a.groups > 1 ? b * a.source_channels : 0);

  // [tap of the row][8 channels of y]: rows lane / 4 and the eighth after it of 16 channels of x;
  // and times ones, so that each column is the bias's.
  float sum[3][2 * kSteps][4] = {};
  float bias_sum[3][4] = {};
  for (int64_t at = blockIdx.x; at < tiles.count; at += gridDim.x) {
    const Place place(tiles, at);
    __syncthreads();  // the tile before is computed
    copy_tile<kWeightThreads>(source, y + place.n * pixels * of_y, of_y, a.source_channels / 8,
                              a.height, a.width, place.row, place.column, kSide, kSide);
    copy_tile<kWeightThreads>(factors, grad + place.n * pixels * of_grad, of_grad, kGroupChunks,
                              a.height, a.width, place.row, place.column, kSide, kSide);
    copy_tile<kWeightThreads>(tile, x + place.n * pixels * a.channels, a.channels, kGroupChunks,
                              a.height, a.width, place.row - dilation, place.column - dilation,
                              columns, columns);
    wait_for_all_copies();
    // Transposed: pixels are k, and a lane's row of a matrix is a pixel.
    const int pixel_of_lane = lane % 8 + lane / 16 * 8;
    // Beyond the plane grad is zero, but x need not be: no products there, for one that is not
    // finite would make NaN of it. A word of them is two pixels.
    const int end_of_rows = min((row_part + 1) * kRows, a.height - place.row);
    const bool whole = place.column + kSide <= a.width;
    unsigned real[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = place.column + 8 * half + lane % 4 * 2;
      real[half] = (column < a.width ? 0xffffu : 0u) | (column + 1 < a.width ? 0xffff0000u : 0u);
    }
#pragma unroll 1
    for (int r = row_part * kRows; r < end_of_rows; ++r) {
      unsigned from_y[kSteps][4], factor[4];
      load_matrices<true>(factor, factors.chunk(r * kSide + pixel_of_lane, lane / 8 % 2));
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        load_matrices<true>(from_y[step],
                            source.chunk(r * kSide + lane % 16, 2 * step + lane / 16));
      }
#pragma unroll
      for (int j = 0; j < 3; ++j) {
        const int pixel = (r + tap_row * dilation) * columns + j * dilation + pixel_of_lane;
        unsigned products[4];
        load_matrices<true>(products, tile.chunk(pixel, lane / 8 % 2));
#pragma unroll
        for (int i = 0; i < 4; ++i) products[i] = times(products[i], factor[i], T());
        if (!whole) {
#pragma unroll
          for (int i = 0; i < 4; ++i) products[i] &= real[i / 2];
        }
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          multiply_add(sum[j][2 * step], products, from_y[step][0], from_y[step][1], T());
          multiply_add(sum[j][2 * step + 1], products, from_y[step][2], from_y[step][3], T());
        }
        multiply_add(bias_sum[j], products, ones, ones, T());
      }
    }
  }

  // The other half of the rows, through the room of the tiles.
  float* const room = reinterpret_cast<float*>(shared) + tap_row * 32 + lane;
  constexpr int kApart = 3 * 32;
  __syncthreads();
  if (row_part > 0) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      room[i * kApart] = sum[i / (8 * kSteps)][i / 4 % (2 * kSteps)][i % 4];
    }
#pragma unroll
    for (int i = 0; i < 6; ++i) room[(kSums + i) * kApart] = bias_sum[i / 2][i % 2 * 2];
  }
  __syncthreads();
  if (row_part > 0) return;
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    sum[i / (8 * kSteps)][i / 4 % (2 * kSteps)][i % 4] += room[i * kApart];
  }
#pragma unroll
  for (int i = 0; i < 6; ++i) bias_sum[i / 2][i % 2 * 2] += room[(kSums + i) * kApart];
  float* const out = a.partial + blockIdx.x * partial.of_weight() +
                     static_cast<int64_t>(blockIdx.y) * kTaps * kGroup * partial.source;
  float* const out_bias = a.partial + partial.bias_begins() + blockIdx.x * partial.of_bias() +
                          static_cast<int64_t>(blockIdx.y) * kTaps * kGroup;
#pragma unroll
  for (int j = 0; j < 3; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = (3 * tap_row + j) * kGroup + lane / 4 + 8 * half;
#pragma unroll
      for (int i = 0; i < 2 * kSteps; ++i) {
        *reinterpret_cast<float2*>(out + row * partial.source + 8 * i + lane % 4 * 2) =
            make_float2(sum[j][i][2 * half], sum[j][i][2 * half + 1]);
      }
      if (lane % 4 == 0) out_bias[row] = bias_sum[j][2 * half];
    }
  }
}

/// One thread for each element of weight's gradient, then of bias's.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    add_up_generated_gradients(const __grid_constant__ Arguments a, const Partial partial) {
  const int64_t of_weight = a.grad_weight == nullptr ? 0
                                                     : static_cast<int64_t>(a.branches) *
                                                           a.channels * kTaps * a.source_channels;
  const int64_t of_bias =
      a.grad_bias == nullptr ? 0 : static_cast<int64_t>(a.branches) * a.channels * kTaps;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       at < of_weight + of_bias; at += static_cast<int64_t>(gridDim.x) * kThreads) {
    const bool is_bias = at >= of_weight;
    const int64_t row = is_bias ? at - of_weight : at / a.source_channels;
    const int i = is_bias ? 0 : static_cast<int>(at - row * a.source_channels);
    const int64_t channel = row / kTaps;  // of all branches
    const int t = static_cast<int>(row - channel * kTaps);
    const int64_t line = (channel / kGroup * kTaps + t) * kGroup + channel % kGroup;
    const float* from =
        a.partial + (is_bias ? partial.bias_begins() + line : line * partial.source + i);
    const int64_t apart = is_bias ? partial.of_bias() : partial.of_weight();
    float sum = 0;
#pragma unroll 8
    for (int split = 0; split < partial.splits; ++split, from += apart) sum += *from;
    T* const to =
        is_bias ? static_cast<T*>(a.grad_bias) + row : static_cast<T*>(a.grad_weight) + at;
    *to = from_sum<T>(sum);
  }
}

int steps_of(const Arguments& a) {
  return a.source_channels <= 16 ? 1 : a.source_channels <= 32 ? 2 : 4;
}

int reach_of(const Arguments& a) {
  return *std::max_element(a.dilation, a.dilation + a.branches);
}

int tile_bytes(int reach, int chunks) {
  return (kSide + 2 * reach) * (kSide + 2 * reach) * chunks * kChunkBytes;
}

int weight_bytes(int steps) {
  return kTaps * kGroup * 2 * steps * kChunkBytes;
}

int bytes_of_x(const Arguments& a) {
  const int steps = steps_of(a);
  return weight_bytes(steps) + kTaps * kGroup * static_cast<int>(sizeof(float)) +
         tile_bytes(reach_of(a), 2 * steps);
}

int bytes_of_y(const Arguments& a) {
  return 2 * (weight_bytes(steps_of(a)) + tile_bytes(reach_of(a), kGroupChunks));
}

int bytes_of_weight(const Arguments& a) {
  const int steps = steps_of(a);
  const int sums = (24 * steps + 6) * 3 * 32 * static_cast<int>(sizeof(float));
  return std::max(sums, tile_bytes(0, 2 * steps) + tile_bytes(0, kGroupChunks) +
                            tile_bytes(reach_of(a), kGroupChunks));
}

Partial partial_of(const Arguments& a, int processors) {
  const int parts = a.branches * (a.channels / kGroup);
  const int64_t at_once = std::max(1, weight_blocks(steps_of(a)) * processors / parts);
  return {static_cast<int>(std::min<int64_t>(at_once, Tiles(a).count)), parts, 16 * steps_of(a)};
}

template <typename... Parameters, typename... Given>
cudaError_t start(void (*kernel)(Parameters...), dim3 grid, int threads, int bytes,
                  cudaStream_t stream, const Given&... given) {
  const cudaError_t error = allow_shared_memory(kernel, bytes);
  if (error != cudaSuccess) return error;
  kernel<<<grid, threads, bytes, stream>>>(given...);
  return cudaGetLastError();
}

template <typename T, int kSteps>
cudaError_t launch(const Arguments& a, cudaStream_t stream) {
  const Tiles tiles(a);
  const auto across = static_cast<unsigned>(tiles.count);
  cudaError_t error = cudaSuccess;
  if (a.grad_x != nullptr) {
    error = start(gradient_of_generated_x<T, kSteps>,
                  dim3(across, static_cast<unsigned>(a.channels / kGroup)), kThreads, bytes_of_x(a),
                  stream, a, tiles, reach_of(a));
  }
  if (error == cudaSuccess && a.grad_y != nullptr) {
    error = start(gradient_of_generated_y<T, kSteps>, dim3(across, static_cast<unsigned>(a.groups)),
                  kThreads, bytes_of_y(a), stream, a, tiles, reach_of(a));
  }
  if (error != cudaSuccess || (a.grad_weight == nullptr && a.grad_bias == nullptr)) return error;
  DeviceFacts device;
  error = ask(&device);
  if (error != cudaSuccess) return error;
  const Partial partial = partial_of(a, device.processors);
  error = start(gradient_of_generated_weight<T, kSteps>,
                dim3(static_cast<unsigned>(partial.splits), static_cast<unsigned>(partial.parts)),
                kWeightThreads, bytes_of_weight(a), stream, a, tiles, partial);
  if (error != cudaSuccess) return error;
  const int64_t sums =
      static_cast<int64_t>(partial.parts) * kGroup * kTaps * (a.source_channels + 1);
  const int64_t blocks = std::min<int64_t>((sums + kThreads - 1) / kThreads, 65535);
  add_up_generated_gradients<T><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(a, partial);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch(const Arguments& a, cudaStream_t stream) {
  switch (steps_of(a)) {
    case 1:
      return launch<T, 1>(a, stream);
    case 2:
      return launch<T, 2>(a, stream);
    default:
      return launch<T, 4>(a, stream);
  }
}

}  // namespace

bool can_run_generated_gradient(const GeneratedGradientArguments& a, int kernel_size,
                                std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (a.type != Type::kHalf && a.type != Type::kBFloat16) return no("not a two-byte type");
  if (kernel_size != 3) return no("kernel size other than 3");
  if (a.channels % kGroup != 0) return no("channels of x are no multiple of 16");
  if (a.source_channels > kMostSource || a.source_channels % 8 != 0) {
    return no("channels of y are no multiple of 8 up to 64");
  }
  if (a.branches > kMaxBranches) return no("more than 32 branches");
  if (reach_of(a) > kMostDilation) return no("dilation above 8");
  const int64_t most_channels =
      std::max<int64_t>({(int64_t{a.branches} + 1) * a.channels,
                         int64_t{a.groups} * a.source_channels, int64_t{a.channels}});
  if (int64_t{a.height} * a.width > (int64_t{1} << 30) / most_channels) {
    return no("more than 2^30 elements in an image");
  }
  if (Tiles(a).count > 0x7fffffff) return no("more tiles than a grid holds");
  if (int64_t{a.branches} * (a.channels / kGroup) > 65535) {
    return no("more groups than a grid holds");
  }
  const DeviceFacts device = current_device();
  if (!device.is_ampere_or_later()) return no("compute capability below 8.0");
  if (std::max({bytes_of_x(a), bytes_of_y(a), bytes_of_weight(a)}) > device.shared_of_block) {
    return no("reach of the taps exceeds shared memory");
  }
  return true;
}

int64_t generated_gradient_scratch(const GeneratedGradientArguments& a) {
  const Partial partial = partial_of(a, current_device().processors);
  return partial.splits * (partial.of_weight() + partial.of_bias());
}

cudaError_t launch_generated_gradient(const GeneratedGradientArguments& a, cudaStream_t stream) {
  return a.type == Type::kHalf ? launch<__half>(a, stream) : launch<__nv_bfloat16>(a, stream);
}

}  // namespace hdfnet::ops::cuda
