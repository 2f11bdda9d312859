// The gradient of generated_dynamic_filter in y, in exact float32 (K 3, any strides):
//
//   d y[p, s] = sum over b, c, t of weight[b, c, t, s] * (grad[p, b, c] * x[p + o, c])
//
// (o: t's offset), a product of matrices, [Cy][9 taps of each channel] x [those][pixels], whose
// right operand is made in registers.
//
// A warp has 16 channels of y and 8 rows x 16 columns of pixels; a thread 4 pixels below each other
// and all 16 channels: 64 sums. Two channels of x at one tap cost it 128 multiplications of the
// product, 8 that make the operand, 8 reads of weights (16 bytes, the same for the whole warp) and
// 4 or 8 of x: 8 bytes, both channels (channels_last), or 4 (NCHW).
//
// Block: up to 64 channels of y of a group x a tile of 16 columns and 8 rows or a multiple, 16
// warps of a multiprocessor in any case. Where tiles are few or fit badly, warps share the channels
// of x instead of pixels (kSplits) and add their sums up in shared memory. Stages of 2 to 8 pairs
// of channels of one branch come by cp.async while the one before is computed:
// - weights [channels * 9][channels of y], as in memory.
// - grad [pairs][rows][36] and x with its halo [pairs][rows][68], zeros around the plane. A row is
//   the first channel's columns, then the second's (NCHW), or pixels of two words (channels_last);
//   four rows further, where the other half of the warp reads, lie 16 banks away.
//
// A thread sums up no more than 288 products in a row. Then they are added to what is in d y
// already, which only the same thread writes: no atomics, the same bits every time.
//
// FLOPs: 2*Cy*9 a result, what bounds it. Bytes: grad once, x once a branch with its halo (2.6-fold
// at dilation 5 and 16 rows), mostly from the L2; weights once a block, from the L2; d y twice for
// each 288 products after the first.
#include <algorithm>
#include <type_traits>

#include "cuda/device_facts.h"
#include "cuda/generated_gradient_arguments.h"
#include "cuda/shared_limit.h"
#include "cuda/simt.cuh"
#include "cuda/tensor_core.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kColumns = 16;  // of a tile
constexpr int kWarpRows = 8;
constexpr int kThreadRows = 4;
constexpr int kWarpSources = 16;  // channels of y
constexpr int kTaps = 9;
constexpr int kMostDilation = 8;
constexpr int kMostChain = 288;        // products in a row
constexpr int kMostPairs = 8;          // of channels in a stage
constexpr int kThreadsAtOnce = 512;    // of a multiprocessor
constexpr int kReservedShared = 1024;  // by the driver, for each block

/// Words of a row of a pair of channels in shared memory.
template <int kHalo>
inline constexpr int kRowPitch = 2 * (kColumns + 2 * kHalo) + 4;
constexpr int kGradPitch = kRowPitch<0>;
constexpr int kPitch = kRowPitch<kMostDilation>;  // of x

/// How the warps of a block share its channels of y, rows of pixels and channels of x.
template <int kSourcePartsOf, int kRowPartsOf, int kSplitsOf>
struct Shape {
  static constexpr int kSourceParts = kSourcePartsOf;
  static constexpr int kRowParts = kRowPartsOf;
  static constexpr int kSplits = kSplitsOf;
  static constexpr int kWarps = kSourceParts * kRowParts * kSplits;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kAtOnce = kThreadsAtOnce / kThreads;  // blocks of a multiprocessor
  static constexpr int kRows = kWarpRows * kRowParts;
  static constexpr int kSources = kWarpSources * kSourceParts;
};

struct Geometry {
  int tiles_down, tiles_across;
  unsigned tiles;    // of the whole batch
  int source_parts;  // of Shape::kSources channels of y
  int log_pairs;     // of a stage
  int stage_words, grad_at, x_at;
  bool vector_x, vector_grad;  // may be copied 16 bytes (NCHW) or 8 (channels_last) at a time
  bool vector_weight;          // 16 bytes
  bool vector_y;               // 16 bytes of neighbouring channels
};

/// What copy_map copies: `rows` x (kColumns + 2 * reach) pixels of 2 << log_pairs channels, of
/// which `channels` are real.
struct Part {
  int log_pairs, channels;
  int row, column;  // of the plane: of the first row, and of the tile's first column
  int rows, reach;
  int height, width;
};

/// `from` is the first channel's plane.
template <int kWarps, bool kChannelsLast, int kHalo, int kWords>
__device__ __forceinline__ void copy_map(float* tile, const float* from, const int64_t* stride,
                                         const Part& part) {
  constexpr int kPitch = kRowPitch<kHalo>;
  constexpr int kStored = kColumns + 2 * kHalo;
  const int thread = computed_here(static_cast<int>(threadIdx.x));
  const int warp = thread / 32;
  const int lane = thread % 32;
  const int plane = part.rows * kPitch;
  if constexpr (kChannelsLast) {  // lanes: channels of `kWords` at a time x columns
    const int log_chunks = part.log_pairs + (kWords == 1 ? 1 : 0);
    const int channel = (lane & ((1 << log_chunks) - 1)) * kWords;
    const float* const first = from + channel * stride[1] + (part.row + warp) * stride[2];
    float* const to_first = tile + channel / 2 * plane + warp * kPitch + channel % 2;
    for (int c = kHalo - part.reach + (lane >> log_chunks); c < kHalo + kColumns + part.reach;
         c += 32 >> log_chunks) {
      const int column = part.column + c - kHalo;
      const bool real = channel < part.channels && is_inside(column, part.width);
      const float* from_row = first + column * stride[3];
      float* to = to_first + 2 * c;
#pragma unroll 2
      for (int r = warp; r < part.rows; r += kWarps) {
        copy_async<4 * kWords>(to, from_row, real && is_inside(part.row + r, part.height));
        from_row += kWarps * stride[2];
        to += kWarps * kPitch;
      }
    }
  } else {  // lanes: columns of `kWords` at a time x rows
    constexpr int kChunks = kStored / kWords;
    constexpr int kRowsAtOnce = 32 / kChunks;
    const int c = lane % kChunks * kWords;
    if (c + kWords <= kHalo - part.reach || c >= kHalo + kColumns + part.reach) return;
    const int column = part.column + c - kHalo;
    const int log_channels = part.log_pairs + 1;
    const int first_row = (warp >> log_channels) * kRowsAtOnce + lane / kChunks;
    const int step = max(1, kWarps >> log_channels) * kRowsAtOnce;
    for (int channel = warp & ((1 << log_channels) - 1); channel < 1 << log_channels;
         channel += kWarps) {
      const bool real = channel < part.channels && is_inside(column, part.width);
      const float* from_row =
          from + channel * stride[1] + (part.row + first_row) * stride[2] + column * stride[3];
      float* to = tile + channel / 2 * plane + first_row * kPitch + channel % 2 * kStored + c;
#pragma unroll 4
      for (int r = first_row; r < part.rows; r += step) {
        copy_async<4 * kWords>(to, from_row, real && is_inside(part.row + r, part.height));
        from_row += step * stride[2];
        to += step * kPitch;
      }
    }
  }
}

template <int kWarps, bool kChannelsLast, int kHalo>
__device__ __forceinline__ void copy_map(float* tile, const float* from, const int64_t* stride,
                                         const Part& part, bool vector) {
  if (vector) {
    copy_map<kWarps, kChannelsLast, kHalo, kChannelsLast ? 2 : 4>(tile, from, stride, part);
  } else {
    copy_map<kWarps, kChannelsLast, kHalo, 1>(tile, from, stride, part);
  }
}

/// Both channels of a pair at the thread's pixels.
template <bool kChannelsLast, int kPitch, int kStored>
__device__ __forceinline__ void read_pixels(const float* from, float (&to)[2][kThreadRows]) {
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    if constexpr (kChannelsLast) {
      const float2 both = *reinterpret_cast<const float2*>(from + r * kPitch);
      to[0][r] = both.x;
      to[1][r] = both.y;
    } else {
      to[0][r] = from[r * kPitch];
      to[1][r] = from[r * kPitch + kStored];
    }
  }
}

using Sums = float[kWarpSources][kThreadRows];

/// sum += weights * (grad * x) over the 9 taps of a pair of channels. `x` is at the thread's first
/// pixel, one dilation further up.
template <bool kChannelsLast, int kSources>
__device__ __forceinline__ void multiply(const float* weights, const float* grad, const float* x,
                                         int dilation, Sums& sum) {
  constexpr int kPixel = kChannelsLast ? 2 : 1;
  float factor[2][kThreadRows];
  read_pixels<kChannelsLast, kGradPitch, kColumns>(grad, factor);
#pragma unroll 1
  for (int i = 0; i < 3; ++i) {
#pragma unroll
    for (int j = 0; j < 3; ++j) {
      float value[2][kThreadRows];
      read_pixels<kChannelsLast, kPitch, kColumns + 2 * kMostDilation>(
          x + (j - 1) * dilation * kPixel, value);
#pragma unroll
      for (int k = 0; k < 2; ++k) {
#pragma unroll
        for (int r = 0; r < kThreadRows; ++r) value[k][r] *= factor[k][r];
#pragma unroll
        for (int s = 0; s < kWarpSources; s += 4) {
          const float4 four =
              *reinterpret_cast<const float4*>(weights + (k * kTaps + j) * kSources + s);
          const float w[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
          for (int r = 0; r < kThreadRows; ++r) {
#pragma unroll
            for (int q = 0; q < 4; ++q) {
              sum[s + q][r] = fmaf(w[q], value[k][r], sum[s + q][r]);
            }
          }
        }
      }
    }
    x += dilation * kPitch;
    weights += 3 * kSources;
  }
}

template <int kSplits>
using Kept = float[kWarpSources / kSplits][kThreadRows];

/// The warps of all splits add their sums up, each those of its share of the channels; half of the
/// rows of pixels at a time, so that the scratch is no larger than a stage.
template <int kThreads, int kSplits>
__device__ __forceinline__ void add_splits(float* scratch, int thread, const Sums& sum,
                                           Kept<kSplits>& kept) {
  constexpr int kTeam = kThreads / kSplits;
  constexpr int kCount = kWarpSources / kSplits;
  constexpr int kHalf = kThreadRows / 2;
  float* const own = scratch + thread;
  const float* const from = scratch + thread / kTeam * (kCount * kHalf * kThreads) + thread % kTeam;
#pragma unroll
  for (int first = 0; first < kThreadRows; first += kHalf) {
    __syncthreads();  // nobody reads there any more
#pragma unroll
    for (int s = 0; s < kWarpSources; ++s) {
#pragma unroll
      for (int r = 0; r < kHalf; ++r) own[(s * kHalf + r) * kThreads] = sum[s][first + r];
    }
    __syncthreads();
#pragma unroll
    for (int s = 0; s < kCount; ++s) {
#pragma unroll
      for (int r = 0; r < kHalf; ++r) {
        const float* const at = from + (s * kHalf + r) * kThreads;
        float total = at[0];
#pragma unroll
        for (int split = 1; split < kSplits; ++split) total += at[split * kTeam];
        kept[s][first + r] = total;
      }
    }
  }
}

/// Adds a thread's sums to what it wrote before, where it did. `to` is at the first of `sources`
/// real channels, and of `rows` real pixels.
template <int kCount>
__device__ __forceinline__ void write_sums(float* to, int64_t source_stride, int64_t row_stride,
                                           int sources, int rows, bool vector, bool first,
                                           const float (&sum)[kCount][kThreadRows]) {
  if (vector) {
#pragma unroll
    for (int s = 0; s < kCount; s += 4) {
      float4 old[kThreadRows] = {};
      float* at = to + s;
      if (!first) {
#pragma unroll
        for (int r = 0; r < kThreadRows; ++r) {
          if (s < sources && r < rows) old[r] = *reinterpret_cast<const float4*>(at);
          at += row_stride;
        }
        at = to + s;
      }
#pragma unroll
      for (int r = 0; r < kThreadRows; ++r) {
        if (s < sources && r < rows) {
          *reinterpret_cast<float4*>(at) =
              make_float4(old[r].x + sum[s][r], old[r].y + sum[s + 1][r], old[r].z + sum[s + 2][r],
                          old[r].w + sum[s + 3][r]);
        }
        at += row_stride;
      }
    }
    return;
  }
#pragma unroll
  for (int s = 0; s < kCount; s += 4) {
    float old[4][kThreadRows] = {};
    if (!first) {
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const float* at = to + q * source_stride;
#pragma unroll
        for (int r = 0; r < kThreadRows; ++r) {
          if (s + q < sources && r < rows) old[q][r] = *at;
          at += row_stride;
        }
      }
    }
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      float* at = to;
#pragma unroll
      for (int r = 0; r < kThreadRows; ++r) {
        if (s + q < sources && r < rows) *at = old[q][r] + sum[s + q][r];
        at += row_stride;
      }
      to += source_stride;
    }
  }
}

/// Where a block is: kept in shared memory, for it is wanted only between stages.
struct Place {
  int row, column, n;  // of the tile
  int group, source;   // of y
};

template <typename S, bool kChannelsLast>
__global__ void __launch_bounds__(S::kThreads, S::kAtOnce)
    gradient_of_generated_y(const __grid_constant__ GeneratedGradientSimtArguments arguments,
                            const __grid_constant__ Geometry geometry) {
  const GeneratedFilterArguments& a = arguments.filter;
  constexpr int kSources = S::kSources;
  constexpr int kTeam = S::kThreads / S::kSplits;
  extern __shared__ __align__(16) float shared[];
  __shared__ Place shared_place;

  const int channels = static_cast<int>(a.channels);
  const int stage_channels = 2 << geometry.log_pairs;
  const int first_group = static_cast<int>(blockIdx.y) / geometry.source_parts;
  if (threadIdx.x == 0) {
    const auto across = static_cast<unsigned>(geometry.tiles_across);
    const auto down = static_cast<unsigned>(geometry.tiles_down);
    shared_place.column = static_cast<int>(blockIdx.x % across) * kColumns;
    shared_place.row = static_cast<int>(blockIdx.x / across % down) * S::kRows;
    shared_place.n = static_cast<int>(blockIdx.x / across / down);
    shared_place.group = first_group;
    shared_place.source = static_cast<int>(blockIdx.y) % geometry.source_parts * kSources;
  }

  const auto copy_stage = [&](int b, int first_channel, float* stage) {
    const Place place = shared_place;
    const int sources = static_cast<int>(a.source_channels) - place.source;  // may be more
    const int rows = stage_channels * kTaps;
    const int real_rows = (channels - first_channel) * kTaps;
    const float* const weight = static_cast<const float*>(a.weight) + b * a.weight_stride[0] +
                                static_cast<int64_t>(first_channel) * kTaps * a.weight_stride[1] +
                                place.source * a.weight_stride[2];
    const auto copy_weights = [&](auto words) {
      constexpr int kWords = decltype(words)::value;
      constexpr int kChunks = kSources / kWords;
      const int thread = computed_here(static_cast<int>(threadIdx.x));
      const int s = thread % kChunks * kWords;
      const float* from = weight + thread / kChunks * a.weight_stride[1] + s * a.weight_stride[2];
      float* to = stage + thread * kWords;
#pragma unroll 2
      for (int row = thread / kChunks; row < rows; row += S::kThreads / kChunks) {
        copy_async<4 * kWords>(to, from, row < real_rows && s < sources);
        from += S::kThreads / kChunks * a.weight_stride[1];
        to += S::kThreads * kWords;
      }
    };
    if (geometry.vector_weight) {
      copy_weights(std::integral_constant<int, 4>());
    } else {
      copy_weights(std::integral_constant<int, 1>());
    }
    Part part{
        geometry.log_pairs,         channels - first_channel, place.row, place.column, S::kRows, 0,
        static_cast<int>(a.height), static_cast<int>(a.width)};
    copy_map<S::kWarps, kChannelsLast, 0>(
        stage + geometry.grad_at,
        arguments.grad + place.n * arguments.grad_stride[0] +
            ((b + (a.concat_input ? 1 : 0)) * a.channels + first_channel) *
                arguments.grad_stride[1],
        arguments.grad_stride, part, geometry.vector_grad);
    const int dilation = a.dilation[b];
    part.row -= dilation;
    part.rows += 2 * dilation;
    part.reach = dilation;
    copy_map<S::kWarps, kChannelsLast, kMostDilation>(
        stage + geometry.x_at,
        static_cast<const float*>(a.x) + place.n * a.x_stride[0] + first_channel * a.x_stride[1],
        a.x_stride, part, geometry.vector_x);
  };

  // What a thread has: channels of y, pixels, and a share of the channels of x.
  const auto source_of = [](int thread) { return thread / 32 % S::kSourceParts * kWarpSources; };
  const auto row_of = [](int thread) {
    return thread / 32 / S::kSourceParts % S::kRowParts * kWarpRows +
           thread % 32 / 16 * kThreadRows;
  };
  const auto column_of = [](int thread) { return thread % 16; };

  Sums sum = {};
  const auto flush = [&](float* scratch, bool is_first) {
    const int thread = computed_here(static_cast<int>(threadIdx.x));
    const auto write = [&](const Kept<S::kSplits>& kept) {
      const Place place = shared_place;
      const int64_t* const stride = arguments.grad_y_stride;
      const int row = place.row + row_of(thread);
      const int column = place.column + column_of(thread);
      const int s = place.source + source_of(thread) + thread / kTeam * (kWarpSources / S::kSplits);
      write_sums<kWarpSources / S::kSplits>(
          arguments.grad_y + place.n * stride[0] + place.group * stride[1] + s * stride[2] +
              row * stride[3] + column * stride[4],
          stride[2], stride[3], static_cast<int>(a.source_channels) - s,
          column < static_cast<int>(a.width) ? static_cast<int>(a.height) - row : 0,
          geometry.vector_y, is_first, kept);
    };
    if constexpr (S::kSplits > 1) {
      Kept<S::kSplits> kept;
      add_splits<S::kThreads, S::kSplits>(scratch, thread, sum, kept);
      write(kept);
    } else {
      write(sum);
    }
#pragma unroll
    for (int i = 0; i < kWarpSources; ++i) {
#pragma unroll
      for (int r = 0; r < kThreadRows; ++r) sum[i][r] = 0;
    }
  };

  // Chains of equal numbers of stages.
  const int stages_of_branch = (channels + stage_channels - 1) / stage_channels;
  const int stages = stages_of_branch * (a.groups == 1 ? static_cast<int>(a.branches) : 1);
  const int most_stages = kMostChain / (stage_channels / S::kSplits * kTaps);
  const int chains = (stages + most_stages - 1) / most_stages;
  const int chain_stages = (stages + chains - 1) / chains;
  int to_flush = chain_stages;
  bool is_first = true;

  const auto advance = [&](int& branch, int& first_channel) {
    first_channel = computed_here(first_channel) + stage_channels;
    if (first_channel >= channels) first_channel = 0, ++branch;
  };
  constexpr int kPixel = kChannelsLast ? 2 : 1;
  int b = a.groups == 1 ? 0 : first_group;
  int channel = -stage_channels;  // of the stage that is computed: at first none
  int stage_at = geometry.stage_words;
#pragma unroll 1
  for (int to_copy = stages;; --to_copy) {
    wait_for_copy_groups<0>();
    __syncthreads();  // the stage is there, and nobody reads the one before
    if (to_copy > 0) {
      int next_b = b, next_channel = channel;
      advance(next_b, next_channel);
      copy_stage(next_b, next_channel, shared + (geometry.stage_words - stage_at));
      end_copy_group();
    }
    if (channel >= 0) {
      const int thread = computed_here(static_cast<int>(threadIdx.x));
      const int dilation = a.dilation[b];
      const int pairs = min(stage_channels, channels - channel + 1) / 2;
      const int plane = (S::kRows + 2 * dilation) * kPitch;
      const int split = thread / kTeam;
      const float* weights = shared + stage_at + split * (2 * kTaps * kSources) + source_of(thread);
      const float* grad = shared + stage_at + geometry.grad_at +
                          (split * S::kRows + row_of(thread)) * kGradPitch +
                          column_of(thread) * kPixel;
      const float* x = shared + stage_at + geometry.x_at + split * plane + row_of(thread) * kPitch +
                       (kMostDilation + column_of(thread)) * kPixel;
#pragma unroll 1
      for (int left = pairs - split; left > 0; left -= S::kSplits) {
        multiply<kChannelsLast, kSources>(weights, grad, x, dilation, sum);
        weights += S::kSplits * 2 * kTaps * kSources;
        grad += S::kSplits * S::kRows * kGradPitch;
        x += S::kSplits * plane;
      }
      if (--to_flush == 0 || to_copy == 0) {
        flush(shared + stage_at, is_first);
        if (to_copy == 0) break;
        to_flush = chain_stages;
        is_first = false;
      }
    }
    advance(b, channel);
    stage_at = geometry.stage_words - stage_at;
  }
}

bool reads_channels_last(const GeneratedFilterArguments& a) {
  return a.x_stride[1] == 1 && a.channels > 1;
}

/// Whether all strides but that of `unit` are multiples of `words`, which is 1, and the pointer is
/// aligned.
template <int kCount>
bool is_vector(const void* pointer, const int64_t (&stride)[kCount], int unit, int words) {
  if (stride[unit] != 1 || reinterpret_cast<uintptr_t>(pointer) % (4 * words) != 0) return false;
  for (int i = 0; i < kCount; ++i) {
    if (i != unit && stride[i] % words != 0) return false;
  }
  return true;
}

/// A shape's geometry and what it would take, in no particular unit.
struct Choice {
  Geometry geometry;
  int bytes;
  double cost;
};

template <typename S>
Choice choice_of(const GeneratedGradientSimtArguments& arguments, const DeviceFacts& device) {
  const GeneratedFilterArguments& a = arguments.filter;
  const bool last = reads_channels_last(a);
  const int reach = largest_dilation(a);
  Choice choice{};
  Geometry& geometry = choice.geometry;
  geometry.tiles_down = static_cast<int>((a.height + S::kRows - 1) / S::kRows);
  geometry.tiles_across = static_cast<int>((a.width + kColumns - 1) / kColumns);
  geometry.tiles = static_cast<unsigned>(a.batch * geometry.tiles_down * geometry.tiles_across);
  geometry.source_parts = static_cast<int>((a.source_channels + S::kSources - 1) / S::kSources);
  const int unit = last ? 1 : 3;  // the axis whose elements are to be neighbours
  const int words = last ? 2 : 4;
  const bool whole = (last ? a.channels : a.width) % words == 0;
  geometry.vector_x = whole && is_vector(a.x, a.x_stride, unit, words);
  geometry.vector_grad = whole && is_vector(arguments.grad, arguments.grad_stride, unit, words);
  geometry.vector_weight = a.source_channels % 4 == 0 && is_vector(a.weight, a.weight_stride, 2, 4);
  geometry.vector_y =
      a.source_channels % 4 == 0 && is_vector(arguments.grad_y, arguments.grad_y_stride, 2, 4);

  // As many blocks as may run at once, then the longest stages, but no longer than a branch.
  const auto set_pairs = [&](int log_pairs) {
    const int pairs = 1 << log_pairs;
    geometry.log_pairs = log_pairs;
    geometry.grad_at = 2 * pairs * kTaps * S::kSources;
    geometry.x_at = geometry.grad_at + pairs * S::kRows * kGradPitch;
    geometry.stage_words =
        std::max(geometry.x_at + pairs * (S::kRows + 2 * reach) * kPitch,
                 S::kSplits > 1 ? S::kThreads * (kWarpSources / 2) * kThreadRows : 0);
    choice.bytes = 2 * 4 * geometry.stage_words;
    const int with_place = choice.bytes + static_cast<int>(sizeof(Place));
    if (with_place > device.shared_of_block) return 0;
    return std::min(device.shared_of_multiprocessor / (with_place + kReservedShared), S::kAtOnce);
  };
  int best = 0, best_log = -1;
  for (int log_pairs = 1; 1 << log_pairs <= kMostPairs; ++log_pairs) {
    const int pairs = 1 << log_pairs;
    if (pairs < S::kSplits || (best_log >= 0 && pairs >= a.channels)) continue;
    const int at_once = set_pairs(log_pairs);
    if (at_once > 0 && at_once >= best) best = at_once, best_log = log_pairs;
  }
  if (best_log < 0) {
    choice.cost = -1;
    return choice;
  }
  set_pairs(best_log);
  // Rows of pixels that the busiest multiprocessor has to do, and how much of them is halo.
  const int64_t blocks = int64_t{geometry.tiles} * geometry.source_parts * a.groups;
  const double halo = 1 + 0.6 / (S::kSourceParts * S::kRowParts * 4);
  const double busy = best < S::kAtOnce ? 1.05 : 1;
  choice.cost = static_cast<double>((blocks + device.processors - 1) / device.processors) *
                S::kRows * S::kSourceParts * halo * busy;
  return choice;
}

template <typename S>
cudaError_t launch(const GeneratedGradientSimtArguments& arguments, const Choice& choice,
                   cudaStream_t stream) {
  const auto run = [&](auto kernel) {
    const cudaError_t error = allow_shared_memory(kernel, choice.bytes);
    if (error != cudaSuccess) return error;
    const dim3 grid(choice.geometry.tiles,
                    static_cast<unsigned>(choice.geometry.source_parts * arguments.filter.groups));
    kernel<<<grid, S::kThreads, static_cast<size_t>(choice.bytes), stream>>>(arguments,
                                                                             choice.geometry);
    return cudaGetLastError();
  };
  return reads_channels_last(arguments.filter) ? run(gradient_of_generated_y<S, true>)
                                               : run(gradient_of_generated_y<S, false>);
}

/// By the shape that costs least.
template <typename... Shapes>
cudaError_t launch_best(const GeneratedGradientSimtArguments& arguments, cudaStream_t stream) {
  DeviceFacts device;
  cudaError_t error = ask(&device);
  if (error != cudaSuccess) return error;
  const Choice choices[] = {choice_of<Shapes>(arguments, device)...};
  int best = -1, at = 0;
  for (const Choice& choice : choices) {
    if (choice.cost >= 0 && (best < 0 || choice.cost < choices[best].cost)) best = at;
    ++at;
  }
  error = cudaErrorInvalidConfiguration;  // where shared memory is too small for any
  at = 0;
  ((at == best ? static_cast<void>(error = launch<Shapes>(arguments, choices[at], stream))
               : static_cast<void>(0),
    ++at),
   ...);
  return error;
}

}  // namespace

cudaError_t launch_generated_gradient_of_y_simt(const GeneratedGradientSimtArguments& arguments,
                                                cudaStream_t stream) {
  const int64_t sources = arguments.filter.source_channels;
  if (sources <= 16) {
    return launch_best<Shape<1, 4, 1>, Shape<1, 2, 2>, Shape<1, 1, 4>>(arguments, stream);
  }
  if (sources <= 32) {
    return launch_best<Shape<2, 2, 1>, Shape<2, 1, 2>, Shape<2, 1, 4>>(arguments, stream);
  }
  return launch_best<Shape<4, 2, 1>, Shape<4, 1, 4>>(arguments, stream);
}

}  // namespace hdfnet::ops::cuda
