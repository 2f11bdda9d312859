// generated_dynamic_filter in exact float32, K 3, any strides: the taps are made and used in
// registers.
//
// A product of matrices, [9 taps of each channel][Cy] x [Cy][pixels], whose result is consumed at
// once. A thread makes the 9 taps of one channel for a column of 8 pixels: 72 sums, to which the
// bias comes last. A step of Cy costs it 72 multiplications and 5 reads of shared memory: 9 weights
// (16, 16 and 4 bytes) and 8 values of y (16 and 16). Then it multiplies its taps with x, row of
// taps by row, and forgets them.
//
// Block: tiles of 8 rows x 16 columns of one branch and one group of 16 or 8 channels, whose
// weights it keeps; a thread for each channel and column of the tile. Shared memory:
// - weights [Cy][148 or 76]: taps 0-3 of the channels, taps 4-7, then tap 8.
// - y [Cy][2][16 columns][4 rows]: half a thread's pixels are 16 bytes.
// - x with its halo, zeros around the plane, so any shift is a plain read: a plane a channel
//   (NCHW), or channels innermost (channels_last), 32 columns in either.
// A warp is 2 channels x 16 columns (NCHW) or 8 x 4 (channels_last), so that what it writes fills
// sectors of memory; lanes 2i and 2i + 1 share a column and lanes i and i + 2 a channel, as far as
// it goes, so that 16-byte reads of half a warp ask for no more than 128 bytes.
//
// All comes by cp.async, 4 bytes at a time where it is transposed (y, weights) or not aligned.
// Where two tiles fit, the next one is on its way while one is computed; elsewhere two blocks of a
// multiprocessor take turns. More than 64 channels of y come in parts, their weights with them.
//
// FLOPs: 2*(Cy + 1)*9 a result, what bounds it. Bytes: x and out once; y once for each block's
// share of the channels, mostly from the L2, as the halo.
#include <algorithm>
#include <type_traits>

#include "cuda/device_facts.h"
#include "cuda/generated_filter_arguments.h"
#include "cuda/shared_limit.h"
#include "cuda/simt.cuh"
#include "cuda/tensor_core.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kRows = 8;      // of a tile, all of them a thread's
constexpr int kColumns = 16;  // of a tile
constexpr int kTaps = 9;
constexpr int kMostDilation = 8;
constexpr int kPitch = kColumns + 2 * kMostDilation;  // of x in shared memory, in pixels
constexpr int kSlice = 64;                            // channels of y in shared memory
constexpr int kStep = 2;                              // of them at a time
constexpr int kSourcePitch = kRows * kColumns + 4;    // words of one of them
/// Channels of y for which tensor cores, which compute 64 of them in any case, are slower.
constexpr int64_t kFewSources = 16;
constexpr int kShared = 1024;  // reserved by the driver, for each block

template <int kGroup>
inline constexpr int kWeightPitch = kTaps* kGroup + 4;  // words of one channel of y
/// Words from one pixel of a channels_last tile to the next.
template <int kGroup>
inline constexpr int kPixelPitch = kGroup + 2;

struct Geometry {
  int tiles_down, tiles_across;
  unsigned tiles;                          // of the whole batch
  int groups;                              // of channels
  unsigned blocks;                         // of a branch and group
  int across_step, down_step, batch_step;  // a block's walk over the tiles, in tiles and images
  int slice;           // channels of y at a time, filled up with zeros to a multiple of kStep
  int x_words;         // of the largest tile
  bool two_tiles;      // fit into shared memory
  bool vector_x;       // x may be copied 16 bytes (NCHW) or 8 (channels_last) at a time
  bool sources_inner;  // y's channels are neighbours in memory
};

/// A tile of the block's walk.
struct Place {
  int across, down, n;
};

/// Words of a channel's plane of x: two channels' planes lie 16 banks apart.
__host__ __device__ constexpr int plane_words(int dilation) {
  return (kRows + 2 * dilation) * kPitch + 16;
}

/// tap += weights * y over `count` channels of y, a multiple of kStep.
template <int kGroup>
__device__ __forceinline__ void multiply(const float* weights, const float* last_tap,
                                         const float* sources, int count,
                                         float (&tap)[kTaps][kRows]) {
#pragma unroll 1
  do {
#pragma unroll
    for (int i = 0; i < kStep; ++i) {
      const float4 y0 = *reinterpret_cast<const float4*>(sources + i * kSourcePitch);
      const float4 y1 = *reinterpret_cast<const float4*>(sources + i * kSourcePitch + 4 * kColumns);
      const float4 w0 = *reinterpret_cast<const float4*>(weights + i * kWeightPitch<kGroup>);
      const float4 w1 =
          *reinterpret_cast<const float4*>(weights + i * kWeightPitch<kGroup> + 4 * kGroup);
      const float y[kRows] = {y0.x, y0.y, y0.z, y0.w, y1.x, y1.y, y1.z, y1.w};
      const float w[kTaps] = {
          w0.x, w0.y, w0.z, w0.w, w1.x, w1.y, w1.z, w1.w, last_tap[i * kWeightPitch<kGroup>]};
#pragma unroll
      for (int t = 0; t < kTaps; ++t) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) tap[t][r] = fmaf(w[t], y[r], tap[t][r]);
      }
    }
    weights += kStep * kWeightPitch<kGroup>;
    last_tap += kStep * kWeightPitch<kGroup>;
    sources += kStep * kSourcePitch;
    count -= kStep;
  } while (count > 0);
}

template <bool kChannelsLast, int kGroup, bool kParts>
__global__ void __launch_bounds__(kGroup* kColumns, 512 / (kGroup * kColumns))
    generated_filter_simt(const __grid_constant__ GeneratedFilterArguments a,
                          const __grid_constant__ Geometry geometry) {
  constexpr int kThreads = kGroup * kColumns;
  constexpr int kWarps = kThreads / 32;
  extern __shared__ __align__(16) float shared[];
  float* const weights = shared;                                          // [slice][kWeightPitch]
  float* const biases = weights + geometry.slice * kWeightPitch<kGroup>;  // as a row of weights
  const int source_words = geometry.slice * kSourcePitch;
  float* const source_tiles = biases + kWeightPitch<kGroup>;
  float* const x_tiles = source_tiles + (geometry.two_tiles ? 2 : 1) * source_words;

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const unsigned part = blockIdx.x / geometry.blocks;
  const unsigned first_tile = blockIdx.x % geometry.blocks;
  const int b = static_cast<int>(part) / geometry.groups;
  const int64_t first_channel = static_cast<int64_t>(part % geometry.groups) * kGroup;
  const int dilation = a.dilation[b];
  const int rows_of_x = kRows + 2 * dilation;
  const int height = static_cast<int>(a.height);
  const int width = static_cast<int>(a.width);
  const int source_channels = static_cast<int>(a.source_channels);
  const int channels = static_cast<int>(a.channels - first_channel);  // may be more than kGroup

  const auto copy_weights = [&](int first) {  // lanes: 8 channels of y x 4 taps
    const int thread = computed_here(threadIdx.x);
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int count = min(geometry.slice, round_up(source_channels - first, kStep));
    const float* const from = static_cast<const float*>(a.weight) + b * a.weight_stride[0] +
                              first_channel * kTaps * a.weight_stride[1] +
                              first * a.weight_stride[2];
    for (int r = 4 * warp + lane / 8; r < kTaps * kGroup; r += 4 * kWarps) {
      const int c = r / kTaps;
      const int t = r % kTaps;
      float* to = weights + (t < 8 ? t / 4 * (4 * kGroup) + c * 4 + t % 4 : 8 * kGroup + c);
      const float* row = from + r * a.weight_stride[1] + lane % 8 * a.weight_stride[2];
      to += lane % 8 * kWeightPitch<kGroup>;
#pragma unroll 4
      for (int s = lane % 8; s < count; s += 8) {
        copy_async<4>(to, row, c < channels && first + s < source_channels);
        row += 8 * a.weight_stride[2];
        to += 8 * kWeightPitch<kGroup>;
      }
    }
  };
  const auto copy_sources = [&](const Place& place, int first, float* tile) {
    const int thread = computed_here(threadIdx.x);
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int count = min(geometry.slice, round_up(source_channels - first, kStep));
    const float* const y = static_cast<const float*>(a.y) + place.n * a.y_stride[0] +
                           (a.groups == 1 ? 0 : b * a.y_stride[1]) + first * a.y_stride[2];
    const int row = place.down * kRows + lane / 8;  // lanes: 8 neighbours in memory x 4 rows
    if (geometry.sources_inner) {
      for (int c = warp; c < kColumns; c += kWarps) {
        const int column = place.across * kColumns + c;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const bool real = row + 4 * half < height && column < width;
          const float* from =
              y + (row + 4 * half) * a.y_stride[3] + column * a.y_stride[4] + lane % 8;
          float* to = tile + lane % 8 * kSourcePitch + half * (4 * kColumns) + c * 4 + lane / 8;
#pragma unroll 4
          for (int s = lane % 8; s < count; s += 8) {
            copy_async<4>(to, from, real && first + s < source_channels);
            from += 8;
            to += 8 * kSourcePitch;
          }
        }
      }
    } else {
      const int column = place.across * kColumns + lane % 8;
      const float* from = y + row * a.y_stride[3] + column * a.y_stride[4] + warp * a.y_stride[2];
      float* to = tile + warp * kSourcePitch + lane % 8 * 4 + lane / 8;
      for (int s = warp; s < count; s += kWarps) {
        const bool real = first + s < source_channels;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int c = 0; c < kColumns; c += 8) {
            copy_async<4>(to + half * (4 * kColumns) + c * 4,
                          from + 4 * half * a.y_stride[3] + c * a.y_stride[4],
                          real && row + 4 * half < height && column + c < width);
          }
        }
        from += kWarps * a.y_stride[2];
        to += kWarps * kSourcePitch;
      }
    }
  };
  const auto copy_x = [&](const Place& place, float* tile) {
    const int thread = computed_here(threadIdx.x);
    const int warp = thread / 32;
    const int lane = thread % 32;
    const float* const x =
        static_cast<const float*>(a.x) + place.n * a.x_stride[0] + first_channel * a.x_stride[1];
    const int first_row = place.down * kRows - dilation;
    if constexpr (kChannelsLast) {
      const int first_column = place.across * kColumns - dilation;
      const auto copy = [&](auto words) {  // lanes: channels of `words` at a time x pixels
        constexpr int kWords = decltype(words)::value;
        constexpr int kChunks = kGroup / kWords;
        const int chunk = lane % kChunks * kWords;
        const bool real = chunk < channels;
        const float* const from = x + chunk * a.x_stride[1];
        for (int r = warp; r < rows_of_x; r += kWarps) {
          const int row = first_row + r;
          const bool row_is_inside = real && is_inside(row, height);
          for (int c = lane / kChunks; c < kColumns + 2 * dilation; c += 32 / kChunks) {
            const int column = first_column + c;
            copy_async<4 * kWords>(tile + (r * kPitch + c) * kPixelPitch<kGroup> + chunk,
                                   from + row * a.x_stride[2] + column * a.x_stride[3],
                                   row_is_inside && is_inside(column, width));
          }
        }
      };
      if (geometry.vector_x) {
        copy(std::integral_constant<int, 2>());
      } else {
        copy(std::integral_constant<int, 1>());
      }
    } else {
      const auto copy = [&](auto words) {  // lanes: columns of `words` at a time x rows
        constexpr int kWords = decltype(words)::value;
        constexpr int kChunks = kPitch / kWords;
        const int c = lane % kChunks * kWords;
        const int from_tile = c - kMostDilation;
        if (from_tile + kWords <= -dilation || from_tile >= kColumns + dilation) return;
        const int column = place.across * kColumns + from_tile;
        const bool column_is_inside = is_inside(column, width);
        for (int channel = warp; channel < kGroup; channel += kWarps) {
          const bool real = column_is_inside && channel < channels;
          const float* from = x + channel * a.x_stride[1] +
                              (first_row + lane / kChunks) * a.x_stride[2] + column * a.x_stride[3];
          float* to = tile + channel * plane_words(dilation) + lane / kChunks * kPitch + c;
#pragma unroll 4
          for (int r = lane / kChunks; r < rows_of_x; r += 32 / kChunks) {
            copy_async<4 * kWords>(to, from, real && is_inside(first_row + r, height));
            from += 32 / kChunks * a.x_stride[2];
            to += 32 / kChunks * kPitch;
          }
        }
      };
      if (geometry.vector_x) {
        copy(std::integral_constant<int, 4>());
      } else {
        copy(std::integral_constant<int, 1>());
      }
    }
  };

  const auto tiles_across = static_cast<unsigned>(geometry.tiles_across);
  const auto tiles_down = static_cast<unsigned>(geometry.tiles_down);
  const auto advance = [&](Place& place) {
    place.across += geometry.across_step;
    place.down += geometry.down_step;
    place.n += geometry.batch_step;
    if (place.across >= geometry.tiles_across) place.across -= geometry.tiles_across, ++place.down;
    if (place.down >= geometry.tiles_down) place.down -= geometry.tiles_down, ++place.n;
  };
  Place place{static_cast<int>(first_tile % tiles_across),
              static_cast<int>(first_tile / tiles_across % tiles_down),
              static_cast<int>(first_tile / tiles_across / tiles_down)};
  Place next = place;  // to be copied
  int to_copy = static_cast<int>((geometry.tiles - 1 - first_tile) / geometry.blocks) + 1;
  int to_compute = to_copy;
  const auto copy_tile = [&](int buffer) {  // a group of copies in any case
    if (to_copy > 0) {
      copy_sources(next, 0, source_tiles + buffer * source_words);
      copy_x(next, x_tiles + buffer * geometry.x_words);
      advance(next);
      --to_copy;
    }
    end_copy_group();
  };
  copy_weights(0);
#pragma unroll 1
  for (int i = 0; i < (geometry.two_tiles ? 2 : 1); ++i) copy_tile(i);
  for (int i = threadIdx.x; i < kTaps * kGroup; i += kThreads) {
    const int c = i / kTaps;
    const int t = i % kTaps;
    biases[t < 8 ? t / 4 * (4 * kGroup) + c * 4 + t % 4 : 8 * kGroup + c] =
        a.bias != nullptr && c < channels
            ? static_cast<const float*>(
                  a.bias)[b * a.bias_stride[0] + (first_channel * kTaps + i) * a.bias_stride[1]]
            : 0.f;
  }

  // The thread's channel and column.
  const int channel = kChannelsLast
                          ? (kGroup == 16 ? warp % 2 * 8 : 0) + lane / 4 % 4 * 2 + lane % 2
                          : 2 * warp + lane % 2;
  const int column_of_tile =
      kChannelsLast ? (lane / 16 * 2 + lane / 2 % 2) * 4 + warp / (kGroup / 8) : lane / 2;

  int buffer = 0;
#pragma unroll 1
  for (; to_compute > 0; --to_compute) {
    if (geometry.two_tiles) {
      wait_for_copy_groups<1>();
    } else {
      wait_for_copy_groups<0>();
    }
    __syncthreads();

    float tap[kTaps][kRows] = {};
    const auto multiply_part = [&](int first) {
      multiply<kGroup>(weights + channel * 4, weights + 8 * kGroup + channel,
                       source_tiles + buffer * source_words + column_of_tile * 4,
                       min(geometry.slice, round_up(source_channels - first, kStep)), tap);
    };
    if constexpr (kParts) {
      for (int first = 0;;) {
        multiply_part(first);
        first += geometry.slice;
        if (first >= source_channels) break;
        __syncthreads();  // nobody reads this part any more
        copy_weights(first);
        copy_sources(place, first, source_tiles);
        end_copy_group();
        wait_for_copy_groups<0>();
        __syncthreads();
      }
    } else {
      multiply_part(0);
    }

    constexpr int kPixel = kChannelsLast ? kPixelPitch<kGroup> : 1;
    const float* const pixels =
        x_tiles + buffer * geometry.x_words +
        (kChannelsLast ? (dilation * kPitch + dilation + column_of_tile) * kPixel + channel
                       : channel * plane_words(dilation) + dilation * kPitch + kMostDilation +
                             column_of_tile);
    const float* const own_biases = biases + computed_here(channel) * 4;
    float sum[kRows];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      float of_row[kRows];
#pragma unroll
      for (int j = 0; j < 3; ++j) {
        const float* const at = pixels + ((i - 1) * kPitch + (j - 1)) * dilation * kPixel;
        // Comes last: sums that start at the bias lose more.
        const int t = 3 * i + j;
        const float bias =
            own_biases[t < 8 ? t / 4 * (4 * kGroup) + t % 4 : 8 * kGroup - 3 * channel];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const float x = at[r * kPitch * kPixel];
          const float value = tap[t][r] + bias;
          of_row[r] = j == 0 ? value * x : fmaf(value, x, of_row[r]);
        }
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) sum[r] = i == 0 ? of_row[r] : sum[r] + of_row[r];
    }

    const int row = place.down * kRows;
    const int column = place.across * kColumns + column_of_tile;
    if (channel < channels && column < width) {
      float* const out = static_cast<float*>(a.out) + place.n * a.out_stride[0] +
                         (first_channel + channel) * a.out_stride[1] + row * a.out_stride[2] +
                         column * a.out_stride[3];
      float* to = out + (a.output_channel + b * a.channels) * a.out_stride[1];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (row + r < height) *to = sum[r];
        to += a.out_stride[2];
      }
      if (a.concat_input && b == 0) {  // x in front of the results
        to = out;
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          if (row + r < height) *to = pixels[r * kPitch * kPixel];
          to += a.out_stride[2];
        }
      }
    }
    __syncthreads();  // nobody reads the tile any more
    if (kParts && to_copy > 0) copy_weights(0);
    copy_tile(buffer);
    if (geometry.two_tiles) buffer ^= 1;
    advance(place);
  }
}

/// Shared memory of a block, in bytes.
int shared_bytes(int group, const Geometry& geometry) {
  const int tiles = geometry.two_tiles ? 2 : 1;
  return 4 * ((geometry.slice + 1) * (kTaps * group + 4) +
              tiles * (geometry.slice * kSourcePitch + geometry.x_words));
}

Geometry geometry_of(const GeneratedFilterArguments& a, int group) {
  const bool last = writes_channels_last(a);
  const int reach = largest_dilation(a);
  Geometry geometry{};
  geometry.tiles_down = static_cast<int>((a.height + kRows - 1) / kRows);
  geometry.tiles_across = static_cast<int>((a.width + kColumns - 1) / kColumns);
  geometry.tiles = static_cast<unsigned>(a.batch * geometry.tiles_down * geometry.tiles_across);
  geometry.groups = static_cast<int>((a.channels + group - 1) / group);
  geometry.slice =
      static_cast<int>(std::min<int64_t>(kSlice, (a.source_channels + kStep - 1) / kStep * kStep));
  geometry.x_words = last ? (kRows + 2 * reach) * kPitch * (group + 2) : group * plane_words(reach);
  const int unit = last ? 1 : 3;  // the axis whose elements are to be neighbours
  const int words = last ? 2 : 4;
  geometry.vector_x = a.x_stride[unit] == 1 && (last ? a.channels : a.width) % words == 0 &&
                      reinterpret_cast<uintptr_t>(a.x) % (4 * words) == 0;
  for (int i = 0; i < 4; ++i) {
    if (i != unit && a.x_stride[i] % words != 0) geometry.vector_x = false;
  }
  geometry.sources_inner = a.y_stride[2] == 1 && a.source_channels > 1;
  return geometry;
}

template <bool kChannelsLast, int kGroup, bool kParts>
cudaError_t launch(const GeneratedFilterArguments& a, const DeviceFacts& device,
                   cudaStream_t stream) {
  const auto kernel = generated_filter_simt<kChannelsLast, kGroup, kParts>;
  constexpr int kMostAtOnce = 512 / (kGroup * kColumns);
  Geometry geometry = geometry_of(a, kGroup);
  const auto at_once = [&] {
    return std::clamp(device.shared_of_multiprocessor / (shared_bytes(kGroup, geometry) + kShared),
                      1, kMostAtOnce);
  };
  // As many blocks as the multiprocessors hold at once.
  const int with_one_tile = at_once();
  const int64_t parts = a.branches * geometry.groups;
  const int64_t resident = int64_t{with_one_tile} * device.processors / parts;
  const int64_t blocks = std::clamp<int64_t>(resident, 1, geometry.tiles);
  geometry.blocks = static_cast<unsigned>(blocks);
  geometry.across_step = static_cast<int>(blocks % geometry.tiles_across);
  geometry.down_step = static_cast<int>(blocks / geometry.tiles_across % geometry.tiles_down);
  geometry.batch_step = static_cast<int>(blocks / geometry.tiles_across / geometry.tiles_down);
  geometry.two_tiles = blocks < geometry.tiles && !kParts;
  if (geometry.two_tiles &&
      (shared_bytes(kGroup, geometry) > device.shared_of_block || at_once() < with_one_tile)) {
    geometry.two_tiles = false;
  }
  const int bytes = shared_bytes(kGroup, geometry);
  if (const cudaError_t error = allow_shared_memory(kernel, bytes); error != cudaSuccess) {
    return error;
  }
  kernel<<<static_cast<unsigned>(blocks * parts), kGroup * kColumns, static_cast<size_t>(bytes),
           stream>>>(a, geometry);
  return cudaGetLastError();
}

template <bool kChannelsLast, int kGroup>
cudaError_t launch(const GeneratedFilterArguments& a, const DeviceFacts& device,
                   cudaStream_t stream) {
  return a.source_channels > kSlice ? launch<kChannelsLast, kGroup, true>(a, device, stream)
                                    : launch<kChannelsLast, kGroup, false>(a, device, stream);
}

/// Channels of a block. Eight where sixteen would leave half of the threads without a channel or
/// multiprocessors without work.
int group_of(const GeneratedFilterArguments& a, const DeviceFacts& device) {
  const int64_t rest = a.channels % 16;
  if (rest > 0 && rest <= 8) return 8;
  const int64_t pieces = geometry_of(a, 16).tiles * a.branches * ((a.channels + 15) / 16);
  return pieces < int64_t{3} * device.processors ? 8 : 16;
}

}  // namespace

bool can_run_generated_filter_simt(const GeneratedFilterArguments& a, std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (a.type != Type::kFloat) return no("not float");
  if (a.kernel_size != 3) return no("kernel size other than 3");
  if (a.source_channels < 1) return no("no channels of y");
  if (largest_dilation(a) > kMostDilation) return no("dilation above 8");
  if (a.height * a.width >= int64_t{1} << 30) return no("2^30 pixels or more");
  const int64_t tiles = ((a.height + kRows - 1) / kRows) * ((a.width + kColumns - 1) / kColumns);
  if (a.batch > (int64_t{1} << 30) / tiles) return no("more than 2^30 tiles");
  if (a.branches * a.channels >= int64_t{1} << 30) return no("2^30 channels or more");
  const DeviceFacts device = current_device();
  if (!device.is_ampere_or_later()) return no("compute capability below 8.0");
  if (shared_bytes(16, geometry_of(a, 16)) > device.shared_of_block) {
    return no("reach of the taps exceeds shared memory");
  }
  return true;
}

bool generated_filter_simt_pays(const GeneratedFilterArguments& a, std::string* why) {
  if (!a.allow_tf32 || a.source_channels <= kFewSources) return true;
  if (why != nullptr) *why = "TF32 with more than 16 channels of y";
  return false;
}

cudaError_t launch_generated_filter_simt(const GeneratedFilterArguments& a, cudaStream_t stream) {
  DeviceFacts device;
  if (const cudaError_t error = ask(&device); error != cudaSuccess) return error;
  if (writes_channels_last(a)) {
    return group_of(a, device) == 16 ? launch<true, 16>(a, device, stream)
                                     : launch<true, 8>(a, device, stream);
  }
  return group_of(a, device) == 16 ? launch<false, 16>(a, device, stream)
                                   : launch<false, 8>(a, device, stream);
}

}  // namespace hdfnet::ops::cuda
