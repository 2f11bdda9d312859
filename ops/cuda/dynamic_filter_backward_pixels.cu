// The gradients of dynamic_filter (dynamic_filter_backward.cu defines them) where channels are
// innermost (channels_last).
//
// Layout: x, grad (N, H, W, C); kernels and their gradient (N, H, W, B, C, K*K), as the
// channels_last result of a convolution is when viewed as (N, B, C, K*K, H, W). A unit is K*K
// 4-byte words of kernels: the taps of one channel (float) or of two (two-byte types). K*K is odd,
// so threads that have neighbouring units find their words in separate banks of shared memory.
//
// d kernels: a thread computes a unit, and a warp stores its 32 by way of shared memory as one run,
// 16 bytes a lane. Where a result is no dense run of aligned units, a unit is one channel, and a
// warp's run, of one pixel and branch, is stored element by element. Bytes: K*K + 1 elements a
// pixel, channel and branch, K*K of them written; x comes from caches.
//
// d x (K 3): a block has 8 units of channels (288 bytes of a pixel and branch: whole sectors) of a
// tile, some rows and columns of results, and walks down the rows of sources, one branch of a row
// at a time: its taps and gradients come into shared memory (cp.async, two steps ahead), with the
// columns on both sides that reach into the tile. A thread has some columns of a unit: it gathers
// the three rows of taps from its three source columns, and adds them to the sums of three result
// rows. Those sums (float) wait in a ring of rows in shared memory that only their thread touches
// until all branches have passed: no atomics, the same bits every time. Bytes: B*(K*K + 1) + 1
// elements a pixel and channel, and the margins of tiles again: those at the sides from the L2, as
// neighbours run at the same time, and those above and below, two dilations a tile, from memory.
#include <algorithm>
#include <initializer_list>
#include <type_traits>

#include "cuda/device_facts.h"
#include "cuda/early_launch.cuh"
#include "cuda/filter_words.cuh"
#include "cuda/instructions.cuh"
#include "cuda/shared_limit.h"
#include "cuda/tensor_core.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int64_t kMostUnits = int64_t{1} << 31;
constexpr int64_t kMostOfSide = int64_t{1} << 26;

struct Splitters {
  Splitter units_of_branch, branches, width, height;
};

/// Elements of a word of four bytes.
template <typename T>
inline constexpr int kOfWord = 4 / static_cast<int>(sizeof(T));

template <int kK>
inline constexpr int kThreadsOfKernels = kK == 3 ? 256 : 128;

/// Writes the products of the values under a unit's taps with its gradients, rounded once, in the
/// order of the result: tap after tap, of one channel after the other.
template <typename T, int kVector, int kTaps>
__device__ __forceinline__ void write_products(typename Word<T, kVector>::Bits grad,
                                               typename Word<T, kVector>::Bits (&values)[kTaps],
                                               typename Word<T, kVector>::Bits* to) {
  using W = Word<T, kVector>;
  if constexpr (std::is_same_v<T, __half> && kVector == 2) {
    // Products of halves are exact in float, so that those in half are the same.
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
      const __half2 pair = __hmul2(*reinterpret_cast<const __half2*>(&grad),
                                   *reinterpret_cast<const __half2*>(&values[t]));
      values[t] = *reinterpret_cast<const unsigned*>(&pair);
    }
#pragma unroll
    for (int i = 0; i < kTaps; ++i) {
      constexpr unsigned kSelect[4] = {0x5410, 0x5432, 0x7610, 0x7632};  // by channels
      const int low = 2 * i, high = 2 * i + 1;
      to[i] = __byte_perm(values[low % kTaps], values[high % kTaps],
                          kSelect[low / kTaps + 2 * (high / kTaps)]);
    }
  } else {
    float g[kVector];
    W::unpack(grad, g);
    const auto product = [&](int e) {
      float value[kVector];
      W::unpack(values[e % kTaps], value);
      return g[e / kTaps] * value[e / kTaps];
    };
#pragma unroll
    for (int i = 0; i < kTaps; ++i) {
      if constexpr (kVector == 2) {
        to[i] = W::pack({product(2 * i), product(2 * i + 1)});
      } else {
        to[i] = W::pack({product(i)});
      }
    }
  }
}

/// kDense: the result is one run of units of words, and x and grad are near; otherwise units are of
/// one channel, and those of a branch are rounded up to whole warps.
template <typename T, int kK, bool kDense>
__global__ void __launch_bounds__(kThreadsOfKernels<kK>)
    gradient_of_kernels_pixels(const __grid_constant__ FilterGradientArguments a,
                               const __grid_constant__ Splitters by, const unsigned units) {
  constexpr int kVector = kDense ? kOfWord<T> : 1;
  constexpr int kTaps = kK * kK;
  using Bits = typename Word<T, kVector>::Bits;
  // In bytes. The first element's address is the same for all threads: 32 bits are a register less
  // and half of the additions.
  using Offset = std::conditional_t<kDense, unsigned, int64_t>;
  const auto bytes = [](int64_t elements) {
    return static_cast<Offset>(elements) * static_cast<Offset>(sizeof(T));
  };
  __shared__ __align__(16) Bits shared[kThreadsOfKernels<kK> * kTaps];
  const FilterArguments& f = a.filter;
  const unsigned unit = blockIdx.x * static_cast<unsigned>(kThreadsOfKernels<kK>) + threadIdx.x;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Bits* const of_warp = shared + (static_cast<int>(threadIdx.x) - lane) * kTaps;

  unsigned rest = unit;
  const int c = by.units_of_branch.split(rest) * kVector;
  const int b = by.branches.split(rest);
  const int w = by.width.split(rest);
  const int h = by.height.split(rest);
  const int64_t n = rest;
  if (unit < units && c < static_cast<int>(f.channels)) {
    const int dilation = f.dilation[b];
    const auto of_pixel = [&](const int64_t(&stride)[4]) {
      return static_cast<Offset>(n) * bytes(stride[0]) + static_cast<Offset>(h) * bytes(stride[2]) +
             static_cast<Offset>(w) * bytes(stride[3]) + static_cast<Offset>(c) * bytes(1);
    };
    const Offset step_h = bytes(f.x_stride[2]) * static_cast<Offset>(dilation);
    const Offset step_w = bytes(f.x_stride[3]) * static_cast<Offset>(dilation);
    Offset row_at = of_pixel(f.x_stride) - static_cast<Offset>(kK / 2) * (step_h + step_w);
    const Offset grad_at = of_pixel(a.grad_stride) + bytes(f.output_channel * a.grad_stride[1]) +
                           static_cast<Offset>(b) * bytes(f.channels * a.grad_stride[1]);
    bool column_inside[kK];
#pragma unroll
    for (int j = 0; j < kK; ++j) {
      column_inside[j] = static_cast<unsigned>(w + (j - kK / 2) * dilation) <
                         static_cast<unsigned>(static_cast<int>(f.width));
    }
    Bits values[kTaps];
    const Bits grad =
        load_once(reinterpret_cast<const Bits*>(static_cast<const char*>(a.grad) + grad_at));
#pragma unroll
    for (int i = 0; i < kK; ++i) {
      const bool row_inside = static_cast<unsigned>(h + (i - kK / 2) * dilation) <
                              static_cast<unsigned>(static_cast<int>(f.height));
      Offset at = row_at;
#pragma unroll
      for (int j = 0; j < kK; ++j) {
        values[i * kK + j] =
            load_inside(reinterpret_cast<const Bits*>(static_cast<const char*>(f.x) + at),
                        row_inside && column_inside[j]);
        at += step_w;
      }
      row_at += step_h;
    }
    write_products<T, kVector, kTaps>(grad, values, of_warp + lane * kTaps);
  }
  __syncwarp();

  if constexpr (kDense) {
    const unsigned first = unit - static_cast<unsigned>(lane);
    if (first >= units) return;
    unsigned* const to = static_cast<unsigned*>(a.out) + static_cast<int64_t>(first) * kTaps;
    if (units - first >= kWarp) {
      constexpr int kQuads = kWarp * kTaps / 4;
#pragma unroll
      for (int i = 0; i < (kQuads + kWarp - 1) / kWarp; ++i) {
        const int quad = i * kWarp + lane;
        if (quad < kQuads) {
          reinterpret_cast<uint4*>(to)[quad] = reinterpret_cast<const uint4*>(of_warp)[quad];
        }
      }
    } else {
      const int count = static_cast<int>(units - first) * kTaps;
#pragma unroll 1
      for (int i = lane; i < count; i += kWarp) to[i] = of_warp[i];
    }
  } else {
    // All lanes have the same branch and pixel.
    if (unit - static_cast<unsigned>(lane) >= units) return;
    const int first = c - lane;
    const int count = min(kWarp, static_cast<int>(f.channels) - first) * kTaps;
    T* const out = static_cast<T*>(a.out) + n * a.out_stride[0] + b * a.out_stride[1] +
                   int64_t{first} * kTaps + h * a.out_stride[4] + w * a.out_stride[5];
    for (int i = lane; i < count; i += kWarp) reinterpret_cast<Bits*>(out)[i] = of_warp[i];
  }
}

// d x

constexpr int kK = 3;
constexpr int kTaps = kK * kK;
constexpr int kUnits = 8;   // of a block
constexpr int kStages = 3;  // of what comes into shared memory
constexpr int kMostThreads = 512;
constexpr int kTapBytes = kUnits * kTaps * 4;  // of a source pixel and branch
constexpr int kGradBytes = kUnits * 4;
constexpr int kLeastColumns = 8;
constexpr int kMostColumns = 256;
constexpr int kMostColumnsOfThread = kMostColumns * kUnits / kMostThreads;
constexpr int kMostRows = 1024;
constexpr int kResidentThreads = 800;  // of a multiprocessor, as registers allow

/// Sums of a thread in shared memory, as one access.
template <int kVector>
struct Sums {
  using Bits = float;
  static __device__ void store(float* to, float before, const float (&more)[1]) {
    *to = before + more[0];
  }
};
template <>
struct Sums<2> {
  using Bits = float2;
  static __device__ void store(float* to, float2 before, const float (&more)[2]) {
    *reinterpret_cast<float2*>(to) = {before.x + more[0], before.y + more[1]};
  }
};

/// How planes are cut.
struct Tiles {
  int rows, columns;  // of a tile
  int across, down;   // tiles of a plane
  int groups;         // of kUnits units of channels
  int reach;          // the largest dilation
  int positions;      // most source columns of a step
  int ring;           // rows of sums
  int threads;
};

/// Copies kCopy bytes to shared memory, or zeros.
template <int kCopy>
__device__ __forceinline__ void copy(void* to, const void* from, bool inside) {
#if HDFNET_ASYNCHRONOUS_COPIES
  if constexpr (kCopy >= 4) {
    copy_async<kCopy>(to, from, inside);
    return;
  }
#endif
  using Bits = std::conditional_t<kCopy == 16, uint4,
                                  std::conditional_t<kCopy == 4, unsigned, unsigned short>>;
  Bits bits{};
  if (inside) bits = *static_cast<const Bits*>(from);
  *static_cast<Bits*>(to) = bits;
}

/// kCopy: bytes that everything is aligned to, of 16, 4 and, for two-byte types, 2.
template <typename T, int kCopy>
__global__ void __launch_bounds__(kMostThreads, 1)
    gradient_of_input_pixels(const __grid_constant__ FilterGradientArguments a,
                             const __grid_constant__ Tiles tiles, const Divisor by_ring) {
  constexpr int kVector = kOfWord<T>;
  using W = Word<T, kVector>;
  extern __shared__ __align__(16) unsigned char shared[];
  const FilterArguments& f = a.filter;
  const int height = static_cast<int>(f.height), width = static_cast<int>(f.width);
  const int branches = static_cast<int>(f.branches);
  const int stage_bytes = tiles.positions * (kTapBytes + kGradBytes);
  float* const ring = reinterpret_cast<float*>(shared + kStages * stage_bytes);
  const int of_row = tiles.columns * kUnits * kVector;  // floats of the ring

  unsigned rest = blockIdx.x;
  const auto part_of = [&](int count) {
    const unsigned part = rest % static_cast<unsigned>(count);
    rest /= static_cast<unsigned>(count);
    return static_cast<int>(part);
  };
  const int first_channel = part_of(tiles.groups) * kUnits * kVector;
  const int left = part_of(tiles.across) * tiles.columns;
  const int top = part_of(tiles.down) * tiles.rows;
  const int64_t n = rest;
  const int bottom = min(top + tiles.rows, height);
  const int channels = min(static_cast<int>(f.channels) - first_channel, kUnits * kVector);
  const T* const kernels =
      static_cast<const T*>(f.kernels) + n * f.kernel_stride[0] + int64_t{first_channel} * kTaps;
  const T* const grad = static_cast<const T*>(a.grad) + n * a.grad_stride[0] + first_channel;
  const int unit = static_cast<int>(threadIdx.x) % kUnits;
  const int first_column = static_cast<int>(threadIdx.x) / kUnits;
  const int threads = static_cast<int>(blockDim.x);
  const int columns_apart = threads / kUnits;

  // A step is a branch of a row of sources that has results in the tile.
  const int last_row = min(bottom + tiles.reach, height);
  struct Step {
    int row, branch;
  };
  const auto next = [&](Step step) {
    while (step.row < last_row) {
      if (++step.branch == branches) step.branch = 0, ++step.row;
      const int dilation = f.dilation[step.branch];
      bool some = false;
#pragma unroll
      for (int i = 0; i < kK; ++i) {
        const int row = step.row + (i - kK / 2) * dilation;
        some = some || (row >= top && row < bottom);
      }
      if (some) break;
    }
    return step;
  };

  // Of each source column a thread copies the same parts.
  constexpr int kParts = (kTapBytes + kGradBytes) / 16, kRounds = 16 / kCopy;
  const int part = static_cast<int>(threadIdx.x) % kParts;
  const int positions_apart = threads / kParts;
  const int first_position = static_cast<int>(threadIdx.x) / kParts;
  const bool copies = first_position < positions_apart;
  const auto request = [&](const Step& step, int stage) {
    if (copies && step.row < last_row) {
      unsigned char* const to = shared + stage * stage_bytes;
      const int dilation = f.dilation[step.branch];
      const bool apart = dilation > tiles.columns;
      const int positions = tiles.columns + (kK - 1) * (apart ? tiles.columns : dilation);
      const char* const taps_of_row = reinterpret_cast<const char*>(
          kernels + step.branch * f.kernel_stride[1] + step.row * f.kernel_stride[4]);
      const char* const grad_of_row = reinterpret_cast<const char*>(
          grad + (f.output_channel + step.branch * f.channels) * a.grad_stride[1] +
          step.row * a.grad_stride[2]);
      // Both fit into 31 bits.
      const int taps_apart = static_cast<int>(f.kernel_stride[5] * int64_t{sizeof(T)});
      const int grad_apart = static_cast<int>(a.grad_stride[3] * int64_t{sizeof(T)});
      const int leftmost = left - kK / 2 * dilation;
#pragma unroll
      for (int round = 0; round < kRounds; ++round) {
        const int at = (part + round * kParts) * kCopy;
        const bool of_taps = at < kTapBytes;
        const int byte = of_taps ? at : at - kTapBytes;
        const bool part_inside =
            byte < channels * static_cast<int>(sizeof(T)) * (of_taps ? kTaps : 1);
        const int source_apart = of_taps ? taps_apart : grad_apart;
        const int own_apart = of_taps ? kTapBytes : kGradBytes;
        const char* const from = (of_taps ? taps_of_row : grad_of_row) + byte;
        unsigned char* own =
            to + (of_taps ? 0 : tiles.positions * kTapBytes) + byte + first_position * own_apart;
        for (int position = first_position; position < positions; position += positions_apart) {
          int column = leftmost + position;
          if (apart) column += position / tiles.columns * (dilation - tiles.columns);
          const bool inside =
              part_inside && static_cast<unsigned>(column) < static_cast<unsigned>(width);
          copy<kCopy>(own, from + (inside ? int64_t{column} * source_apart : 0), inside);
          own += positions_apart * own_apart;
        }
      }
    }
    end_copy_group();
  };

  const auto sums_of = [&](int row, int column) {
    const int of_tile = row - top;
    const int slot = of_tile - by_ring.quotient(of_tile) * tiles.ring;
    return ring + slot * of_row + (column * kUnits + unit) * kVector;
  };

  // A row whose sums are complete; its place is empty after it.
  const auto emit = [&](int row) {
    const int64_t out_row =
        n * a.out_stride[0] + row * a.out_stride[2] + first_channel + unit * kVector;
    const T* const grad_row = grad + row * a.grad_stride[2] + unit * kVector;
    const bool unit_inside = unit * kVector < channels;
    const auto x_of = [&](int i) { return left + first_column + i * columns_apart; };
    const auto inside = [&](int i) {
      return unit_inside && x_of(i) < width && x_of(i) - left < tiles.columns;
    };
    using Bits = typename W::Bits;
    Bits of_input[kMostColumnsOfThread] = {};
    if constexpr (kCopy >= 4) {
      if (f.concat_input) {
#pragma unroll
        for (int i = 0; i < kMostColumnsOfThread; ++i) {
          of_input[i] = load_inside(
              reinterpret_cast<const Bits*>(grad_row + x_of(i) * a.grad_stride[3]), inside(i));
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kMostColumnsOfThread; ++i) {
      if (x_of(i) - left >= tiles.columns) break;
      float* const at = sums_of(row, x_of(i) - left);
      float sum[kVector];
#pragma unroll
      for (int v = 0; v < kVector; ++v) sum[v] = at[v], at[v] = 0;
      if (!inside(i)) continue;
      T* const out = static_cast<T*>(a.out) + out_row + x_of(i) * a.out_stride[3];
      if constexpr (kCopy >= 4) {
        const auto add = [&](Bits bits) {
          float more[kVector];
          W::unpack(bits, more);
#pragma unroll
          for (int v = 0; v < kVector; ++v) sum[v] += more[v];
        };
        if (f.concat_input) add(of_input[i]);
        if (a.add_to_out) add(*reinterpret_cast<const Bits*>(out));
        *reinterpret_cast<Bits*>(out) = W::pack(sum);
      } else {
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          if (unit * kVector + v >= channels) continue;
          if (f.concat_input) sum[v] += to_sum(grad_row[x_of(i) * a.grad_stride[3] + v]);
          if (a.add_to_out) sum[v] += to_sum(out[v]);
          out[v] = from_sum<T>(sum[v]);
        }
      }
    }
    // The next row's part of grad that lies in front of the results.
    if (f.concat_input && unit == 0 && row + 1 < bottom) {
#pragma unroll
      for (int i = 0; i < kMostColumnsOfThread; ++i) {
        if (inside(i)) prefetch(grad_row + a.grad_stride[2] + x_of(i) * a.grad_stride[3]);
      }
    }
  };

  for (int row = top; row < min(top + tiles.ring, bottom); ++row) {
    for (int column = first_column; column < tiles.columns; column += columns_apart) {
      float* const at = sums_of(row, column);
#pragma unroll
      for (int v = 0; v < kVector; ++v) at[v] = 0;
    }
  }

  Step step = next({max(top - tiles.reach, 0), -1});
  Step soon = next(step);
  request(step, 0);
  request(soon, 1);
  int stage = 0;
  int complete = top;  // the rows before it are
  while (step.row < last_row) {
    wait_for_copy_groups<1>();
    __syncthreads();  // the stage is there, and the one before has been read
    const Step after = next(soon);
    request(after, stage == 0 ? kStages - 1 : stage - 1);

    const unsigned char* const from = shared + stage * stage_bytes;
    const auto* const taps = reinterpret_cast<const T*>(from) + unit * (kTaps * kVector);
    const auto* const grads =
        reinterpret_cast<const typename W::Bits*>(from + tiles.positions * kTapBytes) + unit;
    const int dilation = f.dilation[step.branch];
    const int apart = min(dilation, tiles.columns);
    float* sums[kK];
    bool row_inside[kK];
#pragma unroll
    for (int i = 0; i < kK; ++i) {
      const int row = step.row + (i - kK / 2) * dilation;
      row_inside[i] = row >= top && row < bottom;
      sums[i] = sums_of(row_inside[i] ? row : top, first_column);
    }
#pragma unroll 1
    for (int column = first_column; column < tiles.columns; column += columns_apart) {
      // All loads before the first use.
      typename W::Bits g_bits[kK];
      T tap[kK][kK][kVector];
#pragma unroll
      for (int j = 0; j < kK; ++j) {
        const int position = column + (kK - 1 - j) * apart;
        g_bits[j] = grads[position * kUnits];
        const T* const of_position = taps + position * (kUnits * kTaps * kVector);
#pragma unroll
        for (int i = 0; i < kK; ++i) {
#pragma unroll
          for (int v = 0; v < kVector; ++v) tap[i][j][v] = of_position[v * kTaps + i * kK + j];
        }
      }
      typename Sums<kVector>::Bits before[kK];
#pragma unroll
      for (int i = 0; i < kK; ++i) {
        before[i] = *reinterpret_cast<const typename Sums<kVector>::Bits*>(sums[i]);
      }
      float g[kK][kVector];
#pragma unroll
      for (int j = 0; j < kK; ++j) W::unpack(g_bits[j], g[j]);
#pragma unroll
      for (int i = 0; i < kK; ++i) {
        float sum[kVector] = {};
#pragma unroll
        for (int j = 0; j < kK; ++j) {
#pragma unroll
          for (int v = 0; v < kVector; ++v) sum[v] = fmaf(g[j][v], to_sum(tap[i][j][v]), sum[v]);
        }
        if (row_inside[i]) Sums<kVector>::store(sums[i], before[i], sum);
        sums[i] += columns_apart * kUnits * kVector;
      }
    }

    step = soon;
    soon = after;
    stage = stage == kStages - 1 ? 0 : stage + 1;
    const int reached = step.row < last_row ? min(step.row - tiles.reach, bottom) : bottom;
    for (; complete < reached; ++complete) emit(complete);
  }
}

int elements_of_word(const FilterArguments& f) {
  return 4 / size_of(f.type);
}

/// Whether a pointer and strides are multiples of so many bytes.
bool fits(int bytes, int size, const void* pointer, std::initializer_list<int64_t> strides) {
  bool all = reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) == 0;
  for (const int64_t stride : strides) all = all && stride * size % bytes == 0;
  return all;
}

/// Whether an element's offset, in bytes, fits into 32 bits.
bool is_near(const FilterArguments& f, int64_t channels, const int64_t (&stride)[4]) {
  const int64_t last = (f.batch - 1) * stride[0] + (channels - 1) * stride[1] +
                       (f.height - 1) * stride[2] + (f.width - 1) * stride[3];
  return (last + 1) * size_of(f.type) < (int64_t{1} << 32);
}

/// Whether d kernels can be written as one run of units of words.
bool is_dense(const FilterGradientArguments& a) {
  const FilterArguments& f = a.filter;
  const int size = size_of(f.type);
  const int64_t taps = int64_t{1} * f.kernel_size * f.kernel_size;
  const int64_t pixel = f.branches * f.channels * taps;
  const int64_t expected[6] = {
      f.height * f.width * pixel, f.channels * taps, taps, 1, f.width * pixel, pixel};
  const int64_t sizes[6] = {f.batch, f.branches, f.channels, taps, f.height, f.width};
  for (int i = 0; i < 6; ++i) {
    if (sizes[i] > 1 && a.out_stride[i] != expected[i]) return false;
  }
  return f.channels * size % 4 == 0 && is_near(f, f.channels, f.x_stride) &&
         is_near(f, f.output_channel + f.branches * f.channels, a.grad_stride) &&
         fits(4, size, f.x, {f.x_stride[0], f.x_stride[2], f.x_stride[3]}) &&
         fits(4, size, a.grad,
              {a.grad_stride[0], a.grad_stride[2], a.grad_stride[3],
               f.output_channel * a.grad_stride[1], f.channels * a.grad_stride[1]}) &&
         fits(16, size, a.out, {});
}

int64_t units_of_branch(const FilterArguments& f, bool dense) {
  return dense ? f.channels / elements_of_word(f) : ceil_div(f.channels, kWarp) * kWarp;
}

/// Bytes that a thread copies at once for d x.
int copy_of(const FilterGradientArguments& a) {
  const FilterArguments& f = a.filter;
  const int size = size_of(f.type);
  const auto all_fit = [&](int bytes) {
    return f.channels * size % bytes == 0 &&
           fits(bytes, size, f.kernels,
                {f.kernel_stride[0], f.kernel_stride[1], f.kernel_stride[4], f.kernel_stride[5]}) &&
           fits(bytes, size, a.grad,
                {a.grad_stride[0], a.grad_stride[2], a.grad_stride[3],
                 f.output_channel * a.grad_stride[1], f.channels * a.grad_stride[1]}) &&
           fits(4, size, a.out, {a.out_stride[0], a.out_stride[2], a.out_stride[3]});
  };
  return all_fit(16) ? 16 : all_fit(4) ? 4 : 2;
}

int64_t groups_of(const FilterArguments& f) {
  return ceil_div(f.channels, int64_t{kUnits} * elements_of_word(f));
}

int shared_bytes(const FilterArguments& f, const Tiles& t) {
  return kStages * t.positions * (kTapBytes + kGradBytes) +
         t.ring * t.columns * kUnits * elements_of_word(f) * 4;
}

/// The tiles for which a multiprocessor reads the fewest pixels.
Tiles tiles_of(const FilterArguments& f, const DeviceFacts& device, int reserved) {
  constexpr int kColumns[] = {kLeastColumns, 12, 16, 24, 32, 48, 64, 96, 128, 192, kMostColumns};
  constexpr int kRows[] = {1,  2,  3,  4,  6,   8,   12,  16,  24,
                           32, 48, 64, 96, 128, 192, 256, 512, kMostRows};
  constexpr int64_t kOfStep = 24;  // what a step costs, in pixels
  const int reach = largest_dilation(f);
  Tiles best{};
  int64_t least = INT64_MAX;
  for (const int columns : kColumns) {
    Tiles t{};
    t.reach = reach;
    t.groups = static_cast<int>(groups_of(f));
    t.across = static_cast<int>(ceil_div(f.width, columns));
    t.columns = static_cast<int>(ceil_div(ceil_div(f.width, t.across), 4) * 4);
    t.across = static_cast<int>(ceil_div(f.width, t.columns));
    t.positions = t.columns + (kK - 1) * std::min(reach, t.columns);
    t.threads = std::min(kMostThreads, t.columns * kUnits);
    for (const int rows : kRows) {
      t.down = static_cast<int>(ceil_div(f.height, rows));
      t.rows = static_cast<int>(ceil_div(f.height, t.down));
      t.ring = static_cast<int>(std::min<int64_t>(t.rows, int64_t{kK - 1} * reach + 1));
      const int bytes = shared_bytes(f, t);
      if (bytes > device.shared_of_block) continue;
      int64_t pixels = 0;  // that a block reads
      for (int64_t b = 0; b < f.branches; ++b) {
        const int64_t d = f.dilation[b];
        const int64_t down =
            std::min<int64_t>(f.height, t.rows + (kK - 1) * std::min<int64_t>(d, t.rows));
        const int64_t across =
            std::min<int64_t>(f.width, t.columns + (kK - 1) * std::min<int64_t>(d, t.columns));
        pixels += down * (across + kOfStep);
      }
      const int resident =
          std::max(1, std::min(device.shared_of_multiprocessor / (bytes + reserved),
                               kResidentThreads / t.threads));
      const int64_t blocks = f.batch * t.groups * t.across * t.down;
      const int64_t of_processor = ceil_div(blocks, device.processors);
      const int64_t cost =
          ceil_div(of_processor, resident) * std::min<int64_t>(of_processor, resident) * pixels;
      if (cost < least) least = cost, best = t;
      if (rows >= f.height) break;
    }
    if (columns >= f.width) break;
  }
  return best;
}

template <typename T, int kCopy>
cudaError_t launch_of_input(const FilterGradientArguments& a, const Tiles& t, cudaStream_t stream) {
  const auto kernel = gradient_of_input_pixels<T, kCopy>;
  const int bytes = shared_bytes(a.filter, t);
  const cudaError_t error = allow_shared_memory(kernel, bytes);
  if (error != cudaSuccess) return error;
  const auto blocks = static_cast<unsigned>(a.filter.batch * t.groups * t.across * int64_t{t.down});
  kernel<<<blocks, static_cast<unsigned>(t.threads), static_cast<size_t>(bytes), stream>>>(
      a, t, Divisor(t.ring));
  return cudaGetLastError();
}

template <typename T, int kSize, bool kDense>
cudaError_t launch_of_kernels(const FilterGradientArguments& a, cudaStream_t stream) {
  const FilterArguments& f = a.filter;
  const int64_t of_branch = units_of_branch(f, kDense);
  const int64_t units = f.batch * f.height * f.width * f.branches * of_branch;
  const Splitters by{Splitter(of_branch), Splitter(f.branches), Splitter(f.width),
                     Splitter(f.height)};
  constexpr int kThreads = kThreadsOfKernels<kSize>;
  gradient_of_kernels_pixels<T, kSize, kDense>
      <<<static_cast<unsigned>(ceil_div(units, kThreads)), kThreads, 0, stream>>>(
          a, by, static_cast<unsigned>(units));
  return cudaGetLastError();
}

template <typename T, bool kDense>
cudaError_t launch_of_kernels(const FilterGradientArguments& a, cudaStream_t stream) {
  return a.filter.kernel_size == 3   ? launch_of_kernels<T, 3, kDense>(a, stream)
         : a.filter.kernel_size == 5 ? launch_of_kernels<T, 5, kDense>(a, stream)
                                     : launch_of_kernels<T, 7, kDense>(a, stream);
}

}  // namespace

bool can_run_filter_gradient_pixels(const FilterGradientArguments& a, bool of_kernels,
                                    std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  const FilterArguments& f = a.filter;
  if (f.type == Type::kDouble) return no("float64");
  const int k = f.kernel_size;
  if (of_kernels ? k != 3 && k != 5 && k != 7 : k != 3) {
    return no(of_kernels ? "kernel size other than 3, 5 and 7" : "kernel size other than 3");
  }
  const int64_t* const of_taps = of_kernels ? a.out_stride : f.kernel_stride;
  const int64_t* const of_values = of_kernels ? f.x_stride : a.out_stride;
  if (f.channels > 1 && (a.grad_stride[1] != 1 || of_values[1] != 1)) {
    return no("channels are not neighbours in memory");
  }
  if (of_taps[3] != 1 || (f.channels > 1 && of_taps[2] != int64_t{1} * k * k)) {
    return no("taps of a pixel's channels are not neighbours in memory");
  }
  if (f.height > kMostOfSide || f.width > kMostOfSide || f.channels > kMostOfSide) {
    return no("side above 2^26");
  }
  if (largest_dilation(f) > kMostOfSide) return no("dilation above 2^26");
  const int64_t pixels = f.batch * f.height * f.width;
  if (of_kernels) {
    if (pixels * f.branches * units_of_branch(f, is_dense(a)) > kMostUnits) {
      return no("more than 2^31 units of taps");
    }
    return true;
  }
  for (const int64_t apart : {f.kernel_stride[5], a.grad_stride[3]}) {
    if (apart >= (int64_t{1} << 29)) return no("pixels farther apart than 2^29 elements");
  }
  if (f.batch * groups_of(f) * f.height * ceil_div(f.width, 4) >= kMostUnits) {
    return no("more tiles than a grid holds");
  }
  return true;
}

cudaError_t launch_filter_gradient_of_kernels_pixels(const FilterGradientArguments& a,
                                                     cudaStream_t stream) {
  return with_fast_type(a.filter.type, [&](auto type) {
    using T = typename decltype(type)::type;
    return is_dense(a) ? launch_of_kernels<T, true>(a, stream)
                       : launch_of_kernels<T, false>(a, stream);
  });
}

cudaError_t launch_filter_gradient_of_input_pixels(const FilterGradientArguments& a,
                                                   cudaStream_t stream) {
  DeviceFacts device;
  int index = 0, reserved = 0;  // by the driver, of shared memory for each block
  cudaError_t error = ask(&device);
  if (error == cudaSuccess) error = cudaGetDevice(&index);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, index);
  }
  if (error != cudaSuccess) return error;
  const Tiles t = tiles_of(a.filter, device, reserved);
  const int copied = copy_of(a);
  return with_fast_type(a.filter.type, [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (sizeof(T) == 2) {
      if (copied == 2) return launch_of_input<T, 2>(a, t, stream);
    }
    return copied == 16 ? launch_of_input<T, 16>(a, t, stream)
                        : launch_of_input<T, 4>(a, t, stream);
  });
}

}  // namespace hdfnet::ops::cuda
