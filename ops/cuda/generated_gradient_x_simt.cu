// The gradient of generated_dynamic_filter in x in exact float32, K 3, any strides:
//
//   d x[q, c] = sum over b, t of grad[q - o, b, c] * tap[q - o, b, c, t]      (o: t's offset)
//
// and grad of the copy of x, where there is one. Taps are made where they are used, in registers.
//
// For one tap a product of matrices, [channels][Cy] x [Cy][pixels moved back by the offset], whose
// result is multiplied by grad, added to the results and forgotten. A thread has 8 channels and a
// column of 8 pixels: 64 sums of a tap and 64 of results. Two channels of y cost it 128
// multiplications and 16 reads of shared memory of 8 bytes: 8 channels' weights, 8 pixels of y.
//
// Block: a tile of 8 rows x 16 columns, 64, 32 or 16 channels, three teams. A team has the taps of
// one column of the 3 x 3, all branches: its own sums, its own weights, a barrier of its own; so
// one team computes while another waits for grad. The sums of the three are added at the end.
// Shared memory:
// - y with its halo [column][row][channel of y], zeros outside of the plane: the channels of a
// pixel
//   are neighbours, so that an offset moves only the address. An odd number of rows of 2 * odd
//   words each: the 8 bytes of 16 columns lie in different banks.
// - for each team twice [channel][up to 32 channels of y] weights of one tap, its bias behind them:
//   the next ones are on their way while these are used.
// A warp is 8 columns x 4 times 8 channels (16 x 2 of 16 channels), lanes 2i and 2i + 1 have the
// same column.
//
// Grad comes through the L1: 4 bytes at a time (8 columns of a channel) or 16 (channels_last).
//
// y comes once for all taps; what does not fit is a slice of its channels, and since the result is
// linear in the taps, a slice's part of them is used up before the next comes.
//
// FLOPs: 2*(Cy + 1)*9 a result and branch. Bytes, mostly from the L2: y with its halo (3.7-fold at
// dilation 5) for each block, grad 9 times, weights for each tile.
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

constexpr int kRows = 8;      // of a tile, all of them a thread's
constexpr int kColumns = 16;  // of a tile
constexpr int kOwn = 8;       // channels of a thread
constexpr int kTaps = 9;
constexpr int kTeams = 3;
constexpr int kMostDilation = 8;
constexpr int kMostStage = 32;     // channels of y with weights in shared memory
constexpr int kStep = 4;           // of them at a time
constexpr int kRowsOfGrad = 4;     // read at a time, of four channels
constexpr int kMostThreads = 384;  // of a multiprocessor: 168 registers each
constexpr int kShared = 1024;      // reserved by the driver, for each block

using Arguments = GeneratedGradientSimtArguments;

struct Geometry {
  int tiles_down, tiles_across;
  int groups;          // of channels
  int reach;           // the largest dilation
  bool vector_y;       // 8-byte copies
  bool vector_weight;  // the same
  bool vector_grad;    // 16-byte reads of four channels
  bool vector_out;     // the same of results
  bool narrow_grad;    // 32 bits hold the bytes from a channel to the next
};

/// The first of a block's images, rows, columns and channels.
struct Place {
  int n, row, column, channel;
};

__host__ __device__ constexpr int team_threads(int channels) {
  return channels / kOwn * kColumns;
}

template <int kSlice>
inline constexpr int kStage = kSlice < kMostStage ? kSlice : kMostStage;

/// Words from one pixel, or channel of weights, to the next.
template <int kSlice>
inline constexpr int kSourcePitch = kSlice + 2;
template <int kSlice>
inline constexpr int kWeightPitch = kStage<kSlice> + 2;

/// Rows of y's tile in shared memory: an odd number.
__host__ __device__ constexpr int rows_with_halo(int reach) {
  return kRows + 2 * reach + 1;
}

/// The i-th channel of a thread that has the first four of 4 * lane on.
template <int kChannels>
__host__ __device__ constexpr int own_channel(int i) {
  return i % 4 + i / 4 * (kChannels / 2);
}

/// Where a channel's weights lie: the i-th ones of all threads next to each other. A permutation of
/// the number's bits.
template <int kChannels>
__host__ __device__ constexpr int place_of(int channel) {
  constexpr int kLanes = kChannels / kOwn;
  return (channel % 4 + channel / (kChannels / 2) * 4) * kLanes + channel % (kChannels / 2) / 4;
}

/// tap += weights * y over `count` channels of y, a multiple of kStep.
template <int kChannels, int kSlice>
__device__ __forceinline__ void multiply(const float* weights, const float* sources, int count,
                                         float (&tap)[kRows][kOwn]) {
#pragma unroll 1
  do {
#pragma unroll
    for (int pair = 0; pair < kStep; pair += 2) {
      float2 w[kOwn];
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        w[i] = *reinterpret_cast<const float2*>(
            weights + i * (kChannels / kOwn) * kWeightPitch<kSlice> + pair);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float2 y =
            *reinterpret_cast<const float2*>(sources + r * kSourcePitch<kSlice> + pair);
#pragma unroll
        for (int i = 0; i < kOwn; ++i) tap[r][i] = fmaf(w[i].x, y.x, tap[r][i]);
#pragma unroll
        for (int i = 0; i < kOwn; ++i) tap[r][i] = fmaf(w[i].y, y.y, tap[r][i]);
      }
    }
    weights += kStep;
    sources += kStep;
    count -= kStep;
  } while (count > 0);
}

/// grid: tiles, a tile's groups of channels next to each other.
template <int kChannels, int kSlice>
__global__ void __launch_bounds__(kTeams* team_threads(kChannels),
                                  kMostThreads / (kTeams * team_threads(kChannels)))
    gradient_of_generated_x_simt(const __grid_constant__ Arguments a,
                                 const __grid_constant__ Geometry geometry) {
  constexpr int kThreads = team_threads(kChannels);
  constexpr int kAll = kTeams * kThreads;
  constexpr int kLanes = kChannels / kOwn;  // threads that share a column
  constexpr int kPitch = kSourcePitch<kSlice>;
  constexpr int kBuffer = kChannels * kWeightPitch<kSlice>;  // words
  extern __shared__ __align__(16) float shared[];
  const GeneratedFilterArguments& f = a.filter;

  float* const sources = shared + kTeams * 2 * kBuffer;  // [column][row][kPitch]
  // Computed or read anew wherever they are needed: registers are the sums'.
  const auto own_thread = [] { return computed_here(threadIdx.x) % kThreads; };  // of a team
  const auto own_team = [] { return computed_here(threadIdx.x) / kThreads; };
  // The thread's column, and its first channel is four times its lane; four from there on, and
  // four kChannels / 2 later.
  const auto own_column = [&] {
    const int thread = own_thread();
    if constexpr (kLanes == 2) {
      return thread / 2;
    } else {
      return thread / 32 / (kLanes / 4) * 8 + thread / 8 % 4 * 2 + thread / 2 % 2;
    }
  };
  const auto own_lane = [&] {
    const int thread = own_thread();
    if constexpr (kLanes == 2) {
      return thread % 2;
    } else {
      return thread / 32 % (kLanes / 4) * 4 + thread / 4 % 2 * 2 + thread % 2;
    }
  };
  const auto weights_of = [&](int buffer) {  // [channel's place][kWeightPitch]
    return shared + (2 * own_team() + buffer) * kBuffer;
  };
  __shared__ Place places;
  if (threadIdx.x == 0) {
    const unsigned tile = blockIdx.x / geometry.groups;
    const unsigned line = tile / geometry.tiles_across;
    places.n = static_cast<int>(line / geometry.tiles_down);
    places.row = static_cast<int>(line % geometry.tiles_down) * kRows;
    places.column = static_cast<int>(tile % geometry.tiles_across) * kColumns;
    places.channel = static_cast<int>(blockIdx.x % geometry.groups) * kChannels;
  }
  __syncthreads();
  const volatile Place& place = places;

  const int height = static_cast<int>(f.height);
  const int width = static_cast<int>(f.width);
  const int source_channels = static_cast<int>(f.source_channels);
  const int branches = static_cast<int>(f.branches);
  const int reach = geometry.reach;

  const auto copy_sources = [&](int b, int first) {
    const int all = computed_here(threadIdx.x);
    const int count = min(kSlice, round_up(source_channels - first, kStep));
    const int rows = kRows + 2 * reach;
    const int columns = kColumns + 2 * reach;
    const int first_row = place.row;
    const int first_column = place.column;
    const float* const y = static_cast<const float*>(f.y) + place.n * f.y_stride[0] +
                           (f.groups == 1 ? 0 : b * f.y_stride[1]) + first * f.y_stride[2];
    if (geometry.vector_y) {
      constexpr int kPairs = kSlice / 2;
      const int s = all % kPairs * 2;
      if (s >= count) return;
      const bool real = first + s < source_channels;
      const unsigned reciprocal = 0xffffffffu / static_cast<unsigned>(rows) + 1;
      const int pixels = rows * columns;
#pragma unroll 2
      for (int pixel = all / kPairs; pixel < pixels; pixel += kAll / kPairs) {
        const int c = static_cast<int>(__umulhi(static_cast<unsigned>(pixel), reciprocal));
        const int r = pixel - c * rows;
        const int row = first_row - reach + r;
        const int column = first_column - reach + c;
        const bool inside = static_cast<unsigned>(row) < static_cast<unsigned>(height) &&
                            static_cast<unsigned>(column) < static_cast<unsigned>(width);
        copy_async<8>(sources + (c * rows_with_halo(reach) + r) * kPitch + s,
                      y + row * f.y_stride[3] + column * f.y_stride[4] + s, real && inside);
      }
    } else {  // lanes: 8 columns x 4 channels of y
      for (int r = all / 32; r < rows; r += kAll / 32) {
        const int row = first_row - reach + r;
        const bool row_is_inside = static_cast<unsigned>(row) < static_cast<unsigned>(height);
        for (int c = all % 8; c < columns; c += 8) {
          const int column = first_column - reach + c;
          const bool inside =
              row_is_inside && static_cast<unsigned>(column) < static_cast<unsigned>(width);
          const int s0 = all / 8 % 4;
          const float* from = y + row * f.y_stride[3] + column * f.y_stride[4] + s0 * f.y_stride[2];
          float* to = sources + (c * rows_with_halo(reach) + r) * kPitch + s0;
#pragma unroll 4
          for (int s = s0; s < count; s += 4) {
            copy_async<4>(to, from, inside && first + s < source_channels);
            from += 4 * f.y_stride[2];
            to += 4;
          }
        }
      }
    }
  };

  // Weights of the team's tap in row `i` of the 3 x 3, channels of y from `first` on; the bias with
  // the last of them.
  const auto copy_weights = [&](int b, int i, int first, bool with_bias, int buffer) {
    const int own = own_thread();
    const int t = 3 * i + own_team();
    float* const to = weights_of(buffer);
    const int64_t first_channel = place.channel;
    const int channels = static_cast<int>(f.channels) - place.channel;
    const int64_t step = f.weight_stride[1] * kTaps;  // to the next channel
    const float* const from = static_cast<const float*>(f.weight) + b * f.weight_stride[0] +
                              t * f.weight_stride[1] + first_channel * step;
    const auto copy = [&](auto words) {
      constexpr int kWords = decltype(words)::value;
      constexpr int kChunks = kStage<kSlice> / kWords;
      constexpr int kAtOnce = kThreads / kChunks;  // channels
      const int s = own % kChunks * kWords;
      if (s >= round_up(source_channels - first, kStep)) return;
      const bool real = first + s < source_channels;
      const int c0 = own / kChunks;
      const float* at = from + (first + s) * f.weight_stride[2] + c0 * step;
      float* const there = to + place_of<kChannels>(c0) * kWeightPitch<kSlice> + s;
#pragma unroll
      for (int c = 0; c < kChannels; c += kAtOnce) {  // powers of two: no bit of c is one of c0's
        copy_async<4 * kWords>(there + place_of<kChannels>(c) * kWeightPitch<kSlice>, at,
                               real && c + c0 < channels);
        at += kAtOnce * step;
      }
    };
    if (geometry.vector_weight) {
      copy(std::integral_constant<int, 2>());
    } else {
      copy(std::integral_constant<int, 1>());
    }
    if (own < kChannels) {
      const bool real = with_bias && f.bias != nullptr && own < channels;
      const float* const at = real ? static_cast<const float*>(f.bias) + b * f.bias_stride[0] +
                                         ((first_channel + own) * kTaps + t) * f.bias_stride[1]
                                   : static_cast<const float*>(f.weight);
      copy_async<4>(to + place_of<kChannels>(own) * kWeightPitch<kSlice> + kStage<kSlice>, at,
                    real);
    }
  };

  float sum[kRows][kOwn] = {};
  float tap[kRows][kOwn] = {};

  // sum += (tap + bias) * grad at the pixels that the tap's offset comes from.
  const auto use_tap = [&](int b, int down, int right, const float* biases) {
    const int lane = own_lane();
    const int row = place.row - down;
    const int column = place.column + own_column() - right;
    const int first_channel = place.channel;
    const int channels = static_cast<int>(f.channels) - first_channel;
    const bool column_is_inside = static_cast<unsigned>(column) < static_cast<unsigned>(width);
    const float* const grad =
        a.grad + place.n * a.grad_stride[0] +
        ((b + (f.concat_input ? 1 : 0)) * f.channels + first_channel) * a.grad_stride[1] +
        min(max(column, 0), width - 1) * a.grad_stride[3];
    // What lies outside of the plane is not used: something inside is read in its place.
    const auto of_row = [&](int r) {
      return grad + static_cast<unsigned>(min(max(row + r, 0), height - 1)) * a.grad_stride[2];
    };
    const auto use = [&](auto load) {  // load(row, first of four channels, to)
#pragma unroll
      for (int i0 = 0; i0 < kOwn; i0 += 4) {
        float bias[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          bias[i] = biases[((i0 + i) * kLanes + lane) * kWeightPitch<kSlice> + kStage<kSlice>];
        }
#pragma unroll
        for (int r0 = 0; r0 < kRows; r0 += kRowsOfGrad) {
          float factor[kRowsOfGrad][4];
#pragma unroll
          for (int r = 0; r < kRowsOfGrad; ++r) load(of_row(r0 + r), i0, factor[r]);
#pragma unroll
          for (int r = r0; r < r0 + kRowsOfGrad; ++r) {
            if (column_is_inside &&
                static_cast<unsigned>(row + r) < static_cast<unsigned>(height)) {
#pragma unroll
              for (int i = 0; i < 4; ++i) {
                sum[r][i0 + i] = fmaf(tap[r][i0 + i] + bias[i], factor[r - r0][i], sum[r][i0 + i]);
              }
            }
          }
        }
      }
    };
    if (geometry.vector_grad) {
      use([&](const float* pixel, int i, float(&to)[4]) {
        const int c = min(4 * lane + own_channel<kChannels>(i), channels - 4);
        const float4 value = __ldg(reinterpret_cast<const float4*>(pixel + c));
        to[0] = value.x, to[1] = value.y, to[2] = value.z, to[3] = value.w;
      });
    } else if (geometry.narrow_grad) {
      use([&](const float* pixel, int i0, float(&to)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int c = min(4 * lane + own_channel<kChannels>(i0 + i), channels - 1);
          to[i] = __ldg(advance(pixel, static_cast<unsigned>(c),
                                static_cast<unsigned>(a.grad_stride[1]) * 4));
        }
      });
    } else {
      use([&](const float* pixel, int i0, float(&to)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int c = min(4 * lane + own_channel<kChannels>(i0 + i), channels - 1);
          to[i] = __ldg(pixel + c * a.grad_stride[1]);
        }
      });
    }
  };

  // y is copied for all branches or for each, slice by slice.
  const int of_y = f.groups == 1 ? 1 : branches;
#pragma unroll 1
  for (int source = 0; source < of_y; ++source) {
    const int last_branch = f.groups == 1 ? branches : source + 1;
#pragma unroll 1
    for (int first = 0; first < source_channels; first += kSlice) {
      const int end = min(first + kSlice, source_channels);
      const bool with_bias = end == source_channels;
      if (source > 0 || first > 0) __syncthreads();  // nobody uses what was there
      copy_sources(source, first);
      int buffer = 0;
      copy_weights(source, 0, first, with_bias, 0);
      end_copy_group();
      wait_for_copy_groups<0>();
      __syncthreads();
#pragma unroll 1
      for (int b = source; b < last_branch; ++b) {
        const int dilation = f.dilation[b];
#pragma unroll 1
        for (int i = 0; i < 3; ++i) {
          const int down = (i - 1) * dilation;
          const int right = (own_team() - 1) * dilation;
          const float* const pixels =
              sources +
              ((own_column() + reach - right) * rows_with_halo(reach) + reach - down) * kPitch;
#pragma unroll 1
          for (int part = first; part < end; part += kStage<kSlice>) {
            wait_for_copy_groups<0>();
            team_barrier<kThreads>(own_team());
            const int next_part = part + kStage<kSlice> < end ? part + kStage<kSlice> : first;
            const int next_i = next_part > first ? i : i == 2 ? 0 : i + 1;
            const int next_branch = next_part > first || i < 2 ? b : b + 1;
            float* const now = weights_of(buffer);
            buffer ^= 1;
            if (next_branch < last_branch) {
              copy_weights(next_branch, next_i, next_part, with_bias, buffer);
            }
            end_copy_group();
            multiply<kChannels, kSlice>(now + own_lane() * kWeightPitch<kSlice>,
                                        pixels + (part - first),
                                        min(kStage<kSlice>, round_up(end - part, kStep)), tap);
            if (part + kStage<kSlice> >= end) {
              use_tap(b, down, right, now);
#pragma unroll
              for (int r = 0; r < kRows; ++r) {
#pragma unroll
                for (int k = 0; k < kOwn; ++k) tap[r][k] = 0.f;
              }
            }
          }
        }
      }
    }
  }

  __syncthreads();  // the other teams' sums: [team][sum][thread]
  const int thread = own_thread();
  const int team = own_team();
  float* const exchange = shared + thread;
  if (team > 0) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        exchange[(((team - 1) * kRows + r) * kOwn + i) * kThreads] = sum[r][i];
      }
    }
  }
  __syncthreads();
  if (team > 0) return;
  const int column = place.column + own_column();
  const int channel = 4 * own_lane();
  const int64_t first_channel = place.channel;
  const int channels = static_cast<int>(f.channels) - place.channel;
  const int first_row = place.row;
  if (column >= width) return;
  float* const out = a.grad_x + place.n * a.grad_x_stride[0] + first_channel * a.grad_x_stride[1] +
                     column * a.grad_x_stride[3];
  const float* const copy = a.grad + place.n * a.grad_stride[0] + first_channel * a.grad_stride[1] +
                            column * a.grad_stride[3];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = first_row + r;
    if (row >= height) return;
    float* const to = out + row * a.grad_x_stride[2];
    const float* const of_copy = copy + row * a.grad_stride[2];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int c = channel + own_channel<kChannels>(i);
      sum[r][i] += exchange[(r * kOwn + i) * kThreads];
      sum[r][i] += exchange[((kRows + r) * kOwn + i) * kThreads];
      if (f.concat_input && c < channels) sum[r][i] += __ldg(of_copy + c * a.grad_stride[1]);
    }
    if (geometry.vector_out) {
#pragma unroll
      for (int i = 0; i < kOwn; i += 4) {
        const int c = channel + own_channel<kChannels>(i);
        if (c < channels) {
          *reinterpret_cast<float4*>(to + c) =
              make_float4(sum[r][i], sum[r][i + 1], sum[r][i + 2], sum[r][i + 3]);
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        const int c = channel + own_channel<kChannels>(i);
        if (c < channels) to[c * a.grad_x_stride[1]] = sum[r][i];
      }
    }
  }
}

/// Shared memory of a block, in bytes.
int shared_bytes(int channels, int slice, int reach) {
  const int stage = std::min(slice, kMostStage);
  const int words = kTeams * 2 * channels * (stage + 2) +
                    (kColumns + 2 * reach) * rows_with_halo(reach) * (slice + 2);
  const int exchange = (kTeams - 1) * kRows * kOwn * team_threads(channels);
  return 4 * std::max(words, exchange);
}

int64_t tiles_of(const GeneratedFilterArguments& f) {
  return f.batch * ((f.height + kRows - 1) / kRows) * ((f.width + kColumns - 1) / kColumns);
}

/// Whether `words` elements of the unit axis, whose number is a multiple of them, are always
/// neighbours at a multiple of their size.
template <int kAxes>
bool takes_vectors(const void* pointer, const int64_t (&stride)[kAxes], int unit, int64_t size,
                   int words) {
  if (stride[unit] != 1 || size % words != 0) return false;
  for (int i = 0; i < kAxes; ++i) {
    if (i != unit && stride[i] % words != 0) return false;
  }
  return reinterpret_cast<uintptr_t>(pointer) % (4 * words) == 0;
}

template <int kChannels, int kSlice>
cudaError_t launch(const Arguments& a, cudaStream_t stream) {
  const GeneratedFilterArguments& f = a.filter;
  Geometry geometry{};
  geometry.tiles_down = static_cast<int>((f.height + kRows - 1) / kRows);
  geometry.tiles_across = static_cast<int>((f.width + kColumns - 1) / kColumns);
  geometry.groups = static_cast<int>((f.channels + kChannels - 1) / kChannels);
  geometry.reach = largest_dilation(f);
  geometry.vector_y = takes_vectors(f.y, f.y_stride, 2, f.source_channels, 2);
  geometry.vector_weight = takes_vectors(f.weight, f.weight_stride, 2, f.source_channels, 2);
  geometry.vector_grad = takes_vectors(a.grad, a.grad_stride, 1, f.channels, 4);
  geometry.vector_out = takes_vectors(a.grad_x, a.grad_x_stride, 1, f.channels, 4);
  geometry.narrow_grad = a.grad_stride[1] < int64_t{1} << 30;
  const auto kernel = gradient_of_generated_x_simt<kChannels, kSlice>;
  const int bytes = shared_bytes(kChannels, kSlice, geometry.reach);
  if (const cudaError_t error = allow_shared_memory(kernel, bytes); error != cudaSuccess) {
    return error;
  }
  kernel<<<static_cast<unsigned>(tiles_of(f) * geometry.groups), kTeams * team_threads(kChannels),
           static_cast<size_t>(bytes), stream>>>(a, geometry);
  return cudaGetLastError();
}

template <int kChannels>
cudaError_t launch(const Arguments& a, int slice, cudaStream_t stream) {
  switch (slice) {
    case 16:
      return launch<kChannels, 16>(a, stream);
    case 32:
      return launch<kChannels, 32>(a, stream);
    default:
      return launch<kChannels, 64>(a, stream);
  }
}

/// Of the current device: shared memory of a block and of a multiprocessor.

}  // namespace

bool can_run_generated_gradient_simt(const GeneratedGradientSimtArguments& a, std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  const GeneratedFilterArguments& f = a.filter;
  if (f.type != Type::kFloat) return no("not float");
  if (f.kernel_size != 3) return no("kernel size other than 3");
  if (f.branches > kMaxBranches) return no("more than 32 branches");
  if (largest_dilation(f) > kMostDilation) return no("dilation above 8");
  if (f.height * f.width >= int64_t{1} << 30) return no("2^30 pixels or more");
  const int64_t tiles = ((f.height + kRows - 1) / kRows) * ((f.width + kColumns - 1) / kColumns);
  if (f.batch > (int64_t{1} << 30) / tiles) return no("more than 2^30 tiles");
  if (f.branches * f.channels >= int64_t{1} << 30) return no("2^30 channels or more");
  const DeviceFacts device = current_device();
  if (!device.is_ampere_or_later()) return no("compute capability below 8.0");
  const int reach = largest_dilation(f);
  const int least = std::max<int>(static_cast<int>(shared_bytes(64, 16, reach)),
                                  least_shared_of_generated_gradient_of_weight_simt(reach));
  if (least > device.shared_of_block) {
    return no("reach of the taps exceeds shared memory");
  }
  return true;
}

cudaError_t launch_generated_gradient_of_x_simt(const GeneratedGradientSimtArguments& a,
                                                cudaStream_t stream) {
  const GeneratedFilterArguments& f = a.filter;
  DeviceFacts device;
  if (const cudaError_t error = ask(&device); error != cudaSuccess) return error;
  // The most channels of a block that leave the fewest threads without one, and no multiprocessor
  // without a block where fewer channels would find it one.
  const auto groups = [&](int channels) { return (f.channels + channels - 1) / channels; };
  const auto blocks = [&](int channels) { return tiles_of(f) * groups(channels); };
  int channels = 64;
  for (const int fewer : {32, 16}) {
    if (groups(fewer) * fewer < groups(channels) * channels) channels = fewer;
  }
  while (channels > 16 && blocks(channels / 2) <= device.processors) channels /= 2;
  // The largest slice of y that leaves room for as many blocks as registers do.
  const int64_t at_once =
      std::min<int64_t>(kMostThreads / (kTeams * team_threads(channels)),
                        (blocks(channels) + device.processors - 1) / device.processors);
  const int reach = largest_dilation(f);
  int slice = f.source_channels > 32 ? 64 : f.source_channels > 16 ? 32 : 16;
  while (slice > 16 && (shared_bytes(channels, slice, reach) > device.shared_of_block ||
                        at_once * (shared_bytes(channels, slice, reach) + kShared) >
                            device.shared_of_multiprocessor)) {
    slice /= 2;
  }
  switch (channels) {
    case 16:
      return launch<16>(a, slice, stream);
    case 32:
      return launch<32>(a, slice, stream);
    default:
      return launch<64>(a, slice, stream);
  }
}

bool generated_gradient_simt_pays(const GeneratedGradientSimtArguments& arguments,
                                  std::string* why) {
  // As measured: 16 channels of y in any number of pixels, 64 in up to 16384.
  constexpr int64_t kFewSources = 16;
  constexpr int64_t kFewPixels = 32768;
  const GeneratedFilterArguments& f = arguments.filter;
  if (!f.allow_tf32 || f.source_channels <= kFewSources ||
      f.batch * f.height * f.width < kFewPixels) {
    return true;
  }
  if (why != nullptr) *why = "TF32 with more than 16 channels of y and many pixels";
  return false;
}

}  // namespace hdfnet::ops::cuda
