// The gradients of generated_dynamic_filter in its weight and bias, exact float32, K 3, any
// strides:
//
//   d tap[p, b, c, t]    = grad[p, b, c] * x[p + o, c]      (o: t's offset)
//   d weight[b, c, t, i] = sum over p of d tap[p, b, c, t] * y[p, i]
//   d bias[b, c, t]      = sum over p of d tap[p, b, c, t]
//
// A product of matrices, [9 taps of each channel][pixels] x [pixels][Cy], whose first factor is
// made on chip, a stage of 4 rows x 16 columns of pixels at a time. A thread sums the 9 taps of one
// channel times 8 channels of y: 72 multiplications a pixel for 5 reads of shared memory: 9 d taps
// (16, 16 and 4 bytes) and 8 values of y (16 and 16).
//
// Block: one branch, 16 channels and 64, 32 or 16 channels of y; 2, 4 or 8 parts of its threads
// share a stage's pixels. It walks down strips of 16 columns, x's rows in a ring, so that a stage
// brings 4 of them. Shared memory:
// - d tap [64 pixels][148]: taps 0-3 of the channels, taps 4-7, then tap 8. Of a thread that makes
//   4 channels of a pixel, 4 neighbours' words lie side by side: the first two blocks' channels are
//   in the order 0, 4, 8, 12, 1, ...
// - y [2 stages][64 pixels][Cy + 4]
// - grad [64 pixels][20] and x [4 + 2 * dilation rows][16 + 2 * dilation columns][20], channels
//   innermost; zeros around the plane. Pixels four apart lie 16 banks apart.
// - sums for bias, 4 of a thread, each of every fifth pixel.
// Above dilation 5 a block has no more than 32 channels of y, so that two blocks fit.
// All comes by cp.async, 16 bytes at a time where channels are neighbours and aligned, else 4.
//
// Sums: a chain is no longer than 256 pixels; the parts' chains are added up in shared memory and
// then to the block's own totals in scratch; a last kernel adds those of all blocks. No atomics:
// the same bits every time.
//
// FLOPs: 2*Cy*9 a pixel, branch and channel, what bounds it; making d tap adds an instruction in
// 35 (Cy 64) to 9 (Cy 16). Bytes: for each branch and 16 channels, x 1.6 times (dilation 5), grad
// once and y once, mostly from the L2.
#include <algorithm>
#include <type_traits>

#include "cuda/device_facts.h"
#include "cuda/generated_gradient_arguments.h"
#include "cuda/instructions.cuh"
#include "cuda/shared_limit.h"
#include "cuda/simt.cuh"
#include "cuda/tensor_core.cuh"

namespace hdfnet::ops::cuda {
namespace {

using Arguments = GeneratedGradientSimtArguments;

constexpr int kRows = 4;      // of a stage
constexpr int kColumns = 16;  // of a stage and a strip
constexpr int kPixels = kRows * kColumns;
constexpr int kTaps = 9;
constexpr int kGroup = 16;  // channels of a block
constexpr int kOwn = 8;     // channels of y of a thread
constexpr int kQuads = kTaps * kOwn / 4;
constexpr int kStep = 2;  // pixels at a time
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kBlocksAtOnce = 2;          // of a multiprocessor
constexpr int kPixelPitch = kGroup + 4;   // words of x and grad
constexpr int kTapRows = kTaps * kGroup;  // sums for bias
constexpr int kTapPitch = kTapRows + 4;   // words of a pixel of d tap
constexpr int kTapQuads = kTapRows / 4;   // threads that sum one pixel for bias
constexpr int kBiasParts = 5;             // of a stage's pixels; more would not fit at dilation 8
constexpr int kBiasThreads = kBiasParts * kTapQuads;
constexpr int kLastTap = kTapRows - kGroup;  // where tap 8 begins
constexpr int kMostChain = 256;              // pixels
constexpr int kAddWords = 32;                // of a block of the last kernel
constexpr int kAddParts = 8;                 // of the splits, likewise
constexpr int kShared = 1024;                // reserved by the driver, for each block

/// How a map of channels is read.
enum class Copy { kPlanes, kChannels, kFourChannels };

struct Plan {
  int strips, stages_down, stages;  // of a plane; of the whole batch
  int groups, slices;               // of channels, of channels of y
  int sources;                      // of a slice: 16, 32 or 64
  int parts;                        // branches x groups x slices
  int splits;                       // of the stages
  int reach;
  Copy copy_x, copy_y, copy_grad;

  __host__ __device__ int64_t weight_words() const {  // of one split
    return static_cast<int64_t>(parts) * kTapRows * sources;
  }
  __host__ __device__ int64_t bias_words() const {
    return static_cast<int64_t>(parts / slices) * kTapRows;
  }
  __host__ __device__ int64_t bias_begins() const { return splits * weight_words(); }
};

/// A stage of the block's walk.
struct Place {
  int down, across, n;
};

/// Where a block's channels begin in image 0, and how many there are.
struct Origins {
  const float *x, *grad, *y;
  int channels, sources;
};

/// What a thread of a part sums: a channel, by its position in shared memory, and 8 channels of y.
/// Lanes 2i and 2i + 1 share the latter and lanes i and i + 2 a channel, as far as it goes, so that
/// 16-byte reads of half a warp ask for no more than 128 bytes.
struct Role {
  int position, eighth;
  __host__ __device__ __forceinline__ Role(int thread, int sources) {
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int half = lane / 16;
    position = lane / 4 % 4 * 2 + lane % 2 + (sources == 16 ? half : warp % 2) * 8;
    eighth = lane / 2 % 2 + (sources == 16 ? 0 : warp / 2 * 4 + half * 2);
  }
};

__host__ __device__ constexpr int channel_at(int position) {
  return position % 4 * 4 + position / 4;
}

/// threadIdx.x; what is computed from it stays behind, in place of taking registers from the sums.
__device__ __forceinline__ int thread_here() {
  int thread = threadIdx.x;
  asm volatile("" : "+r"(thread));
  __builtin_assume(thread >= 0 && thread < kThreads);
  return thread;
}

/// Part of a plane on its way to shared memory, [slot of a row][columns][kChannels + 4].
struct Window {
  int row, column;  // the first of the plane
  int rows, columns;
  int slot, slots;  // of the first row; after the last one comes the first
};

/// Copies `window`, a stage's pixels where kHalo is false; zeros outside of the plane and for
/// channels from `channels` on. The strides of `from` are those of C, H and W.
template <int kChannels, bool kHalo>
__device__ __forceinline__ void copy_window(float* tile, const float* from, const int64_t* stride,
                                            Copy how, int channels, int height, int width,
                                            const Window& window) {
  constexpr int kPitch = kChannels + 4;
  constexpr int kUnrollRows = kHalo ? 1 : kRows;
  constexpr int kUnroll = kHalo ? 2 : kColumns;
  const int rows = kHalo ? window.rows : kRows;
  const int columns = kHalo ? window.columns : kColumns;
  const int thread = thread_here();
  const int warp = thread / 32;
  const int lane = thread % 32;
  const auto line = [&](int r) {
    if (!kHalo) return tile + r * columns * kPitch;
    const int slot = window.slot + r;
    return tile + (slot >= window.slots ? slot - window.slots : slot) * columns * kPitch;
  };
  if (how != Copy::kPlanes) {  // lanes: channels, then columns; two warps a row
    const auto copy = [&](auto words) {
      constexpr int kWords = decltype(words)::value;
      constexpr int kLanes = kChannels / kWords < 32 ? kChannels / kWords : 32;
      constexpr int kAcross = 32 / kLanes;
      const int own = lane % kLanes * kWords;
      const int across = warp % 2 * kAcross + lane / kLanes;
#pragma unroll(kUnrollRows)
      for (int first_row = 0; first_row < rows; first_row += kWarps / 2) {
        const int r = first_row + warp / 2;
        if (kHalo && r >= rows) break;
        const int row = window.row + r;
        const bool row_is_inside = is_inside(row, height);
        float* const to = line(r) + across * kPitch + own;
        const float* at = from + row * stride[1] + (window.column + across) * stride[2] + own;
#pragma unroll(kUnroll)
        for (int first = 0; first < columns; first += 2 * kAcross) {
          if (kHalo && first + across >= columns) break;
          const bool real = row_is_inside && is_inside(window.column + first + across, width);
#pragma unroll
          for (int i = 0; i < kChannels; i += kLanes * kWords) {
            copy_async<4 * kWords>(to + first * kPitch + i, at + i, real && own + i < channels);
          }
          at += 2 * kAcross * stride[2];
        }
      }
    };
    if (how == Copy::kFourChannels) {
      copy(std::integral_constant<int, 4>());
    } else {
      copy(std::integral_constant<int, 1>());
    }
  } else {  // lanes: 8 columns x 4 channels
    constexpr int kAcross = kChannels / 4 < kWarps ? kChannels / 4 : kWarps;  // warps
    const int own = warp % kAcross * 4 + lane / 8;
    const int across = lane % 8;
#pragma unroll(kUnrollRows)
    for (int first_row = 0; first_row < rows; first_row += kWarps / kAcross) {
      const int r = first_row + warp / kAcross;
      if (kHalo && r >= rows) break;
      const int row = window.row + r;
      const bool row_is_inside = is_inside(row, height);
      float* const to = line(r) + across * kPitch + own;
      const float* at =
          from + own * stride[0] + row * stride[1] + (window.column + across) * stride[2];
#pragma unroll(kUnroll)
      for (int first = 0; first < columns; first += 8) {
        if (kHalo && first + across >= columns) break;
        const bool real = row_is_inside && is_inside(window.column + first + across, width);
#pragma unroll
        for (int i = 0; i < kChannels; i += 4 * kAcross) {
          copy_async<4>(to + first * kPitch + i, at + i * stride[0], real && own + i < channels);
        }
        at += 8 * stride[2];
      }
    }
  }
}

/// The d taps of 4 channels of a pixel.
__device__ __forceinline__ void make_taps(float* to, const float* grad, const float* const (&x)[3],
                                          int apart, int quad) {
  const float4 g = *reinterpret_cast<const float4*>(grad);
  const auto tap = [&](int t) {
    const float4 value = *reinterpret_cast<const float4*>(x[t / 3] + t % 3 * apart);
    return make_float4(g.x * value.x, g.y * value.y, g.z * value.z, g.w * value.w);
  };
#pragma unroll
  for (int t = 0; t < 8; t += 4) {
    const float4 v0 = tap(t), v1 = tap(t + 1), v2 = tap(t + 2), v3 = tap(t + 3);
    float4* const at = reinterpret_cast<float4*>(to + t * kGroup) + quad;
    at[0] = make_float4(v0.x, v1.x, v2.x, v3.x);
    at[4] = make_float4(v0.y, v1.y, v2.y, v3.y);
    at[8] = make_float4(v0.z, v1.z, v2.z, v3.z);
    at[12] = make_float4(v0.w, v1.w, v2.w, v3.w);
  }
  reinterpret_cast<float4*>(to + kLastTap)[quad] = tap(8);
}

/// sum += d tap * y over `kCount` pixels.
template <int kSources, int kCount>
__device__ __forceinline__ void multiply(const float* taps, const float* last_tap,
                                         const float* sources, float (&sum)[kTaps][kOwn]) {
  constexpr int kPitch = kSources + 4;
  int count = kCount;
#pragma unroll 1
  do {
#pragma unroll
    for (int i = 0; i < kStep; ++i) {
      const float4 y0 = *reinterpret_cast<const float4*>(sources + i * kPitch);
      const float4 y1 = *reinterpret_cast<const float4*>(sources + i * kPitch + 4);
      const float4 w0 = *reinterpret_cast<const float4*>(taps + i * kTapPitch);
      const float4 w1 = *reinterpret_cast<const float4*>(taps + i * kTapPitch + 4 * kGroup);
      const float y[kOwn] = {y0.x, y0.y, y0.z, y0.w, y1.x, y1.y, y1.z, y1.w};
      const float w[kTaps] = {
          w0.x, w0.y, w0.z, w0.w, w1.x, w1.y, w1.z, w1.w, last_tap[i * kTapPitch]};
#pragma unroll
      for (int t = 0; t < kTaps; ++t) {
#pragma unroll
        for (int j = 0; j < kOwn; ++j) sum[t][j] = fmaf(w[t], y[j], sum[t][j]);
      }
    }
    taps += kStep * kTapPitch;
    last_tap += kStep * kTapPitch;
    sources += kStep * kPitch;
    count -= kStep;
  } while (count > 0);
}

/// A split's block of each part, split by split.
template <int kSources>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    gradient_of_generated_weight_simt(const __grid_constant__ Arguments a,
                                      const __grid_constant__ Plan plan) {
  constexpr int kOfPart = kGroup * kSources / kOwn;  // threads
  constexpr int kParts = kThreads / kOfPart;
  constexpr int kOfThread = kPixels / kParts;       // pixels of a stage
  constexpr int kOfChain = kMostChain / kOfThread;  // stages
  constexpr int kSourceWords = kPixels * (kSources + 4);
  extern __shared__ __align__(16) float shared[];
  float* const taps = shared;
  float* const sources = taps + kPixels * kTapPitch;
  float* const grads = sources + 2 * kSourceWords;
  float* const bias_totals = grads + kPixels * kPixelPitch;
  float* const ring = bias_totals + kBiasThreads * 4 + sizeof(Origins) / sizeof(float);
  Origins& origins = *reinterpret_cast<Origins*>(bias_totals + kBiasThreads * 4);

  const int split = static_cast<int>(blockIdx.x) / plan.parts;
  const int part = static_cast<int>(blockIdx.x) % plan.parts;
  const int b = part / plan.slices / plan.groups;
  const int dilation = a.filter.dilation[b];
  const int slots = kRows + 2 * dilation;
  const int columns = kColumns + 2 * dilation;
  const int height = static_cast<int>(a.filter.height);
  const int width = static_cast<int>(a.filter.width);
  const bool sums_bias = a.grad_bias != nullptr && part % plan.slices == 0;
  if (threadIdx.x == 0) {
    const int64_t channel = static_cast<int64_t>(part / plan.slices % plan.groups) * kGroup;
    const int64_t source = static_cast<int64_t>(part % plan.slices) * kSources;
    const int64_t branch = b + (a.filter.concat_input ? 1 : 0);
    origins.x = static_cast<const float*>(a.filter.x) + channel * a.filter.x_stride[1];
    origins.grad = a.grad + (branch * a.filter.channels + channel) * a.grad_stride[1];
    origins.y = static_cast<const float*>(a.filter.y) +
                (a.filter.groups == 1 ? 0 : b * a.filter.y_stride[1]) +
                source * a.filter.y_stride[2];
    origins.channels = static_cast<int>(min(a.filter.channels - channel, int64_t{kGroup}));
    origins.sources = static_cast<int>(min(a.filter.source_channels - source, int64_t{kSources}));
  }
  __syncthreads();

  float sum[kTaps][kOwn] = {};
  if (threadIdx.x < kBiasThreads) {
    reinterpret_cast<float4*>(bias_totals)[threadIdx.x] = make_float4(0, 0, 0, 0);
  }

  // Adds up the sums of all parts, adds the result to the block's totals, and begins anew.
  const auto keep_sums = [&](bool again) {
    float4* const room = reinterpret_cast<float4*>(taps);
    const int thread = thread_here();
#pragma unroll
    for (int half = kThreads / 2; half >= kOfPart; half /= 2) {
      __syncthreads();  // nobody reads the room any more
      if (thread >= half && thread < 2 * half) {
#pragma unroll
        for (int i = 0; i < kQuads; ++i) {
          const float* const from = &sum[i / 2][i % 2 * 4];
          room[i * (kThreads / 2) + thread - half] =
              make_float4(from[0], from[1], from[2], from[3]);
        }
      }
      __syncthreads();
      if (thread < half) {
#pragma unroll
        for (int i = 0; i < kQuads; ++i) {
          float* const to = &sum[i / 2][i % 2 * 4];
          const float4 other = room[i * (kThreads / 2) + thread];
          to[0] += other.x, to[1] += other.y, to[2] += other.z, to[3] += other.w;
        }
      }
    }
    if (thread < kOfPart) {
      float4* const totals =
          reinterpret_cast<float4*>(a.partial +
                                    static_cast<int64_t>(blockIdx.x) * (kTapRows * kSources)) +
          thread;
      const auto keep = [&](auto adds) {
#pragma unroll
        for (int i = 0; i < kQuads; ++i) {
          const float* const from = &sum[i / 2][i % 2 * 4];
          float4 total = make_float4(from[0], from[1], from[2], from[3]);
          if constexpr (decltype(adds)::value) {
            const float4 before = totals[i * kOfPart];
            total = make_float4(before.x + total.x, before.y + total.y, before.z + total.z,
                                before.w + total.w);
          }
          totals[i * kOfPart] = total;
          if (i % 6 == 5) asm volatile("" ::: "memory");  // no more at a time than fit
        }
      };
      if (again) {
        keep(std::true_type());
      } else {
        keep(std::false_type());
      }
    }
#pragma unroll
    for (int i = 0; i < kTaps * kOwn; ++i) sum[i / kOwn][i % kOwn] = zero_here();
  };

  const int first_stage = static_cast<int>(int64_t{plan.stages} * split / plan.splits);
  const int last_stage = static_cast<int>(int64_t{plan.stages} * (split + 1) / plan.splits);
  Place place{first_stage % plan.stages_down, first_stage / plan.stages_down % plan.strips,
              first_stage / plan.stages_down / plan.strips};  // to be copied
  int slot = 0;
  int rows_left = 0, columns_left = 0;  // of the plane, where the copied stage begins
  int buffer = 0;
  const int stages = last_stage - first_stage;
#pragma unroll 1
  for (int left = stages; left >= 0; --left) {  // to be copied
    if (left < stages) {
      wait_for_copy_groups<0>();
      __syncthreads();
      const int thread = thread_here();
      const int quad = thread % 4;
      const int row = thread / 64;
      const int column = thread / 32 % 2 * 8 + thread / 4 % 2 * 4 + thread / 8 % 4;
      const int pixel = row * kColumns + column;
      float* const to = taps + pixel * kTapPitch;
      if (row < rows_left && column < columns_left) {
        const float* x[3];
#pragma unroll
        for (int i = 0; i < 3; ++i) {
          int at = slot + row + i * dilation;
          if (at >= slots) at -= slots;
          x[i] = ring + (at * columns + column) * kPixelPitch + quad * 4;
        }
        make_taps(to, grads + pixel * kPixelPitch + quad * 4, x, dilation * kPixelPitch, quad);
      } else {
#pragma unroll
        for (int i = 0; i < kTaps; ++i) {
          reinterpret_cast<float4*>(to + i * kGroup)[quad] = make_float4(0, 0, 0, 0);
        }
      }
      __syncthreads();
    }

    if (left > 0) {
      const int row = place.down * kRows;
      const int column = place.across * kColumns;
      int old = 0;  // rows of x that have come already
      int to = 0;
      if (left == stages || place.down == 0) {
        slot = 0;
      } else {
        slot += kRows;
        if (slot >= slots) slot -= slots;
        old = 2 * dilation;
        to = slot + old;
        if (to >= slots) to -= slots;
      }
      copy_window<kGroup, true>(
          ring, origins.x + place.n * a.filter.x_stride[0], a.filter.x_stride + 1, plan.copy_x,
          origins.channels, height, width,
          {row - dilation + old, column - dilation, slots - old, columns, to, slots});
      const Window window{row, column, kRows, kColumns, 0, kRows};
      copy_window<kGroup, false>(grads, origins.grad + place.n * a.grad_stride[0],
                                 a.grad_stride + 1, plan.copy_grad, origins.channels, height, width,
                                 window);
      copy_window<kSources, false>(
          sources + buffer * kSourceWords, origins.y + place.n * a.filter.y_stride[0],
          a.filter.y_stride + 2, plan.copy_y, origins.sources, height, width, window);
      rows_left = height - row;
      columns_left = width - column;
      if (++place.down == plan.stages_down) {
        place.down = 0;
        if (++place.across == plan.strips) place.across = 0, ++place.n;
      }
    }
    end_copy_group();
    buffer ^= 1;
    if (left == stages) continue;

    if (sums_bias) {
      const int thread = thread_here();
      const int first = thread / kTapQuads;
      if (thread < kBiasThreads) {
        float4 sum = make_float4(0, 0, 0, 0);
        const float* from = taps + first * kTapPitch + thread % kTapQuads * 4;
#pragma unroll 3
        for (int p = first; p < kPixels; p += kBiasParts) {
          const float4 tap = *reinterpret_cast<const float4*>(from);
          sum.x += tap.x, sum.y += tap.y, sum.z += tap.z, sum.w += tap.w;
          from += kBiasParts * kTapPitch;
        }
        float4* const total = reinterpret_cast<float4*>(bias_totals) + thread;
        const float4 before = *total;
        *total =
            make_float4(before.x + sum.x, before.y + sum.y, before.z + sum.z, before.w + sum.w);
      }
    }
    if (a.grad_weight != nullptr) {
      const int thread = thread_here();
      const Role role(thread % kOfPart, kSources);
      const int first = thread / kOfPart * kOfThread;  // pixel
      const float* const from = taps + first * kTapPitch;
      multiply<kSources, kOfThread>(
          from + role.position * 4, from + kLastTap + channel_at(role.position),
          sources + buffer * kSourceWords + first * (kSources + 4) + role.eighth * kOwn, sum);
    }
    const int done = stages - left;
    if (left == 0 || done % kOfChain == 0) keep_sums(done > kOfChain);
  }

  if (!sums_bias) return;
  __syncthreads();
  if (threadIdx.x < kTapRows) {
    float total = bias_totals[threadIdx.x];
#pragma unroll
    for (int i = 1; i < kBiasParts; ++i) {
      total += bias_totals[i * kTapRows + threadIdx.x];
    }
    a.partial[plan.bias_begins() + split * plan.bias_words() +
              static_cast<int64_t>(part / plan.slices) * kTapRows + threadIdx.x] = total;
  }
}

/// Adds up the splits of `kAddWords` words of all parts, weight's and then bias's, a block.
__global__ void __launch_bounds__(kAddWords* kAddParts)
    add_up_generated_gradients_simt(const __grid_constant__ Arguments a,
                                    const __grid_constant__ Plan plan) {
  __shared__ float sums[kAddParts][kAddWords];
  const int of_part = kTapRows * plan.sources;  // both counts of words are multiples of 32
  int64_t at = static_cast<int64_t>(blockIdx.x) * kAddWords;
  const bool is_bias = at >= plan.weight_words();
  if (is_bias) at -= plan.weight_words();
  const int64_t apart = is_bias ? plan.bias_words() : plan.weight_words();
  at += threadIdx.x;
  const bool real = at < apart;
  float sum = 0;
  if (real && (is_bias ? a.grad_bias : a.grad_weight) != nullptr) {
    const float* from = a.partial + (is_bias ? plan.bias_begins() : 0) + threadIdx.y * apart + at;
#pragma unroll 4
    for (int split = threadIdx.y; split < plan.splits; split += kAddParts) {
      sum += *from;
      from += kAddParts * apart;
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || !real) return;
#pragma unroll
  for (int i = 1; i < kAddParts; ++i) sum += sums[i][threadIdx.x];

  const int64_t channels = a.filter.channels;
  if (is_bias) {
    if (a.grad_bias == nullptr) return;
    const int64_t part = at / kTapRows;
    const int word = static_cast<int>(at - part * kTapRows);
    const int t = word < kLastTap ? word / (4 * kGroup) * 4 + word % 4 : kTaps - 1;
    const int64_t channel = part % plan.groups * kGroup +
                            (word < kLastTap ? channel_at(word / 4 % kGroup) : word - kLastTap);
    if (channel < channels) {
      a.grad_bias[(part / plan.groups * channels + channel) * kTaps + t] = sum;
    }
  } else {
    if (a.grad_weight == nullptr) return;
    const int64_t part = at / of_part;
    const int word = static_cast<int>(at - part * of_part);
    const int threads = kGroup * plan.sources / kOwn;
    const int quad = word / 4 / threads;
    const Role role(word / 4 % threads, plan.sources);
    const int64_t of_slices = part / plan.slices;
    const int64_t channel = of_slices % plan.groups * kGroup + channel_at(role.position);
    const int64_t source =
        part % plan.slices * plan.sources + role.eighth * kOwn + quad % 2 * 4 + word % 4;
    if (channel < channels && source < a.filter.source_channels) {
      const int64_t row = (of_slices / plan.groups * channels + channel) * kTaps + quad / 2;
      a.grad_weight[row * a.filter.source_channels + source] = sum;
    }
  }
}

/// Shared memory of a block, in bytes.
int shared_bytes(const Plan& plan) {
  return 4 * (kPixels * (kTapPitch + 2 * (plan.sources + 4) + kPixelPitch) + kBiasThreads * 4 +
              static_cast<int>(sizeof(Origins) / sizeof(float)) +
              (kRows + 2 * plan.reach) * (kColumns + 2 * plan.reach) * kPixelPitch);
}

/// `stride`: of N, (G,) C, H, W.
Copy copy_of(const void* from, const int64_t* stride, int axes, int64_t channels) {
  const int unit = axes - 3;
  if (stride[unit] != 1 || channels == 1) return Copy::kPlanes;
  if (channels % 4 != 0 || !aligned(from)) return Copy::kChannels;
  for (int i = 0; i < axes; ++i) {
    if (i != unit && stride[i] % 4 != 0) return Copy::kChannels;
  }
  return Copy::kFourChannels;
}

cudaError_t make_plan(const Arguments& a, Plan* plan) {
  const GeneratedFilterArguments& f = a.filter;
  DeviceFacts device;
  if (const cudaError_t error = ask(&device); error != cudaSuccess) return error;

  plan->strips = static_cast<int>((f.width + kColumns - 1) / kColumns);
  plan->stages_down = static_cast<int>((f.height + kRows - 1) / kRows);
  plan->stages = static_cast<int>(f.batch * plan->strips * plan->stages_down);
  plan->groups = static_cast<int>((f.channels + kGroup - 1) / kGroup);
  plan->sources = f.source_channels <= 16 ? 16 : f.source_channels <= 32 ? 32 : 64;
  plan->reach = largest_dilation(f);
  const auto at_once = [&] {
    return std::clamp(device.shared_of_multiprocessor / (shared_bytes(*plan) + kShared), 1,
                      kBlocksAtOnce);
  };
  // A dilation above 5 leaves no room for two blocks with 64 channels of y.
  if (plan->sources == 64 && at_once() < kBlocksAtOnce) plan->sources = 32;
  while (plan->sources > 16 && shared_bytes(*plan) > device.shared_of_block) plan->sources /= 2;
  plan->slices = static_cast<int>((f.source_channels + plan->sources - 1) / plan->sources);
  plan->parts = static_cast<int>(f.branches) * plan->groups * plan->slices;
  plan->copy_x = copy_of(f.x, f.x_stride, 4, f.channels);
  plan->copy_y = copy_of(f.y, f.y_stride, 5, f.source_channels);
  plan->copy_grad = copy_of(a.grad, a.grad_stride, 4, f.channels);

  // As many blocks as the multiprocessors hold at once, or a few times that many where those would
  // leave some without work. To begin costs a block about a stage.
  const int64_t resident = int64_t{at_once()} * device.processors;
  int64_t least = 0;
  for (int rounds = 1; rounds <= 3; ++rounds) {
    const int64_t splits =
        std::max<int64_t>(std::min<int64_t>(rounds * resident / plan->parts, plan->stages), 1);
    const int64_t cost = (plan->parts * splits + resident - 1) / resident *
                         ((plan->stages + splits - 1) / splits + 1);
    if (rounds == 1 || cost < least) {
      least = cost;
      plan->splits = static_cast<int>(splits);
    }
  }
  return cudaSuccess;
}

template <int kSources>
cudaError_t launch(const Arguments& a, const Plan& plan, cudaStream_t stream) {
  const auto kernel = gradient_of_generated_weight_simt<kSources>;
  const int bytes = shared_bytes(plan);
  if (const cudaError_t error = allow_shared_memory(kernel, bytes); error != cudaSuccess) {
    return error;
  }
  const unsigned blocks = static_cast<unsigned>(plan.parts) * static_cast<unsigned>(plan.splits);
  kernel<<<blocks, kThreads, static_cast<size_t>(bytes), stream>>>(a, plan);
  return cudaGetLastError();
}

}  // namespace

int least_shared_of_generated_gradient_of_weight_simt(int reach) {
  Plan plan{};
  plan.sources = 16;
  plan.reach = reach;
  return shared_bytes(plan);
}

int64_t generated_gradient_simt_scratch(const GeneratedGradientSimtArguments& a) {
  Plan plan{};
  if (make_plan(a, &plan) != cudaSuccess) return 0;
  return plan.splits * (plan.weight_words() + plan.bias_words());
}

cudaError_t launch_generated_gradient_of_weight_simt(const GeneratedGradientSimtArguments& a,
                                                     cudaStream_t stream) {
  if (a.grad_weight == nullptr && a.grad_bias == nullptr) return cudaSuccess;
  Plan plan{};
  cudaError_t error = make_plan(a, &plan);
  if (error != cudaSuccess) return error;
  error = plan.sources == 16   ? launch<16>(a, plan, stream)
          : plan.sources == 32 ? launch<32>(a, plan, stream)
                               : launch<64>(a, plan, stream);
  if (error != cudaSuccess) return error;
  const int64_t words = plan.weight_words() + plan.bias_words();
  const auto blocks = static_cast<unsigned>((words + kAddWords - 1) / kAddWords);
  add_up_generated_gradients_simt<<<blocks, dim3(kAddWords, kAddParts), 0, stream>>>(a, plan);
  return cudaGetLastError();
}

}  // namespace hdfnet::ops::cuda
