// generated_dynamic_filter on tensor cores: the taps are made and used in registers.
//
// The product taps = weight * y is laid out so that no tap moves between threads. One mma takes as
// its 16 rows the SAME tap of 16 channels, and as its 8 columns 8 pixels. Walking over the taps t,
// the accumulator element a thread holds is tap t of the same (channel, pixel) each time: it is
// multiplied by x at that pixel's neighbour t, added to the thread's sum, and forgotten.
//
// - y, operand B: up to 64 channels of a warp's pixels stay in registers across taps.
// - weight, operand A: 16 channels' taps lie in shared memory so that one 16-byte access is one
//   mma's four registers: rows m and m + 8 interleaved word by word. (Reading each row by itself
//   cost 50 register moves a tap, nearly half of all instructions.)
// - bias: the accumulator's start, four copies in the order of its registers.
// - x: a tile with its halo in shared memory, zeros around the plane, so any shift is a plain read.
//   channels_last: channels innermost, and mma rows m and m + 8 are channels 2m and 2m + 1, so a
//   thread's two channels are one access. NCHW: one plane a channel, mma row m is channel m, and a
//   thread's two columns of the result are neighbouring pixels.
//
// The order of k (y's channels) within a product is free. Read directly, each thread takes 16
// neighbouring ones: its share of y (channels_last) is 16-byte accesses. Staged (two-byte types,
// aligned), y comes by 16-byte copies in either format, and ldmatrix hands it and the weights out.
//
// Block: 8 warps, tiles of 16 columns x 16 rows (float: 8 or 16 rows) of one branch and one group
// of 16 channels, whose weights it keeps. While a tile is computed, the next one's x is on its way
// to the other half of shared memory (cp.async); in float, two blocks of one tile each take turns.
// The forms, and which call gets which, are can_stage_generated_filter and
// can_widen_generated_filter.
//
// FLOPs: 2*Cy*K*K a result on tensor cores, 2*K*K beside them. Bytes: x, y and out once; the halo
// and the weights come from the L2. Bound by issue slots, then shared memory and tensor cores.
// Figures: ops/README.md.
#include "cuda/device_facts.h"
#include "cuda/generated_filter_arguments.h"
#include "cuda/generated_filter_operands.cuh"
#include "cuda/shared_limit.h"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kTileColumns = 16;
constexpr int kGroup = 16;                // channels of one mma
constexpr int kSource = 64;               // channels of y; fewer are filled up with zeros
constexpr int kSharedLimit = 200 * 1024;  // of a block; can_run also asks the device
constexpr int kSharedReserved = 1024;     // by the driver, for each block

/// How a block gets y, and how much of it.
enum class Form {
  kDirect,  // y straight to registers
  kStaged,  // two-byte types: y and x by 16-byte copies through shared memory, operands by ldmatrix
  kTall,    // float: as kDirect, with twice the pixels a warp
};
/// Tiles of x in shared memory. One of float leaves room for two blocks on a multiprocessor: the
/// other block's arithmetic hides the copy.
template <typename T>
inline constexpr int tile_buffers = sizeof(T) == 4 ? 1 : 2;
inline constexpr int kStagedWeightPitch = 36;     // words of one mma row
inline constexpr int kStageWords = 32 * 128 / 4;  // of a warp's y

/// What differs between types: widths, pitches (in 4-byte words) and the mma itself.
template <typename T>
struct Traits {
  static constexpr int kPixelTiles = 4;             // mma column tiles (8 pixels each) of a warp
  static constexpr int kSourceWords = kSource / 2;  // y channels of a pixel, in words
  static constexpr int kWeightPitch = 2 * kSourceWords + 16;  // of a pair of mma rows
  static constexpr int kChunk = 8;                            // elements in 16 bytes
};
template <>
struct Traits<float> {
  static constexpr int kPixelTiles = 2;
  static constexpr int kSourceWords = kSource;
  static constexpr int kWeightPitch = 2 * kSourceWords + 16;
  static constexpr int kChunk = 4;
};

template <typename T>
__host__ __device__ constexpr int pixel_tiles(Form form) {
  return form == Form::kTall ? 4 : Traits<T>::kPixelTiles;
}

/// Words from one pixel of a channels_last tile to the next: the 4 pixels that a quarter warp reads
/// at once lie in separate banks.
template <typename T>
inline constexpr int pixel_pitch = sizeof(T) == 4 ? 24 : 8;

/// Which of the 8 pixels of a column tile an mma column is. Two-byte NCHW keeps a thread's two
/// columns neighbours, so that they are read and stored as one word.
template <typename T, bool kChannelsLast>
__device__ __forceinline__ int pixel_of_column(int column) {
  return sizeof(T) == 2 && !kChannelsLast ? column : (column & 1) * 4 + (column >> 1);
}

/// The mma row that computes a channel of the group.
template <bool kChannelsLast>
__device__ __forceinline__ int row_of_channel(int channel) {
  return kChannelsLast ? channel / 2 + channel % 2 * 8 : channel;
}

/// The tile of x in shared memory, in elements (NCHW) and words.
struct TileLayout {
  int rows, columns;  // with the halo
  int margin;         // NCHW: elements left of the tile, even so that words stay whole
  int row_pitch;      // NCHW: elements
  int plane_pitch;    // NCHW: elements; 4 words from a multiple of 8, to spread 8 planes over the
                      // banks
  int words;

  __host__ __device__ TileLayout(int tile_rows, int reach, bool channels_last, int element_size,
                                 bool wide_margin = false) {
    rows = tile_rows + 2 * reach;
    columns = kTileColumns + 2 * reach;
    const int in_word = 4 / element_size;
    const int of = wide_margin ? 16 / element_size : in_word;
    margin = (reach + of - 1) / of * of;
    row_pitch = kTileColumns + 2 * margin;
    const int plane_words = (rows * row_pitch / in_word + 3) / 8 * 8 + 4;
    plane_pitch = plane_words * in_word;
    words = channels_last ? rows * columns * (element_size == 4 ? 24 : 8) : kGroup * plane_words;
  }
};

struct Geometry {
  int tile_rows;
  int tiles_down, tiles_across;
  unsigned tiles;                          // of the whole batch
  int groups;                              // of 16 channels
  int tile_words;                          // of the largest reach
  int across_step, down_step, batch_step;  // a block's walk over the tiles, in tiles and images
  int x_c, x_h, x_w, y_c, y_h, y_w, out_c, out_h, out_w;  // strides within an image
  bool vector_y;                                          // y may be read 16 bytes at a time
  bool vector_x;          // x may be copied 16 bytes (channels_last) or one word (NCHW) at a time
  bool pairs_of_columns;  // out may be written two columns at a time
};

/// A tile of the block's walk.
struct Place {
  int across, down;  // in tiles
  int n;

  __device__ __forceinline__ void advance(const Geometry& g) {
    across += g.across_step;
    down += g.down_step;
    n += g.batch_step;
    if (across >= g.tiles_across) across -= g.tiles_across, ++down;
    if (down >= g.tiles_down) down -= g.tiles_down, ++n;
  }
};

template <typename T, bool kChannelsLast, int kK, Form kForm>
__global__ void __launch_bounds__(kThreads, 2)
    generated_filter_mma(const __grid_constant__ GeneratedFilterArguments a,
                         const __grid_constant__ Geometry geometry) {
  using Tr = Traits<T>;
  constexpr int kTiles = pixel_tiles<T>(kForm);
  constexpr int kBuffers = tile_buffers<T>;
  constexpr int kPixelPitch = pixel_pitch<T>;
  constexpr int kRowsOfWarp = kTiles / 2;
  constexpr int kInWord = 4 / static_cast<int>(sizeof(T));
  constexpr int kColumnsAtOnce = kK > 0 ? kK : 1;
  constexpr int kChunks = 16 / Tr::kChunk;  // 16-byte accesses to a thread's 16 channels of y
  const int k = kK > 0 ? kK : a.kernel_size;
  const int taps = k * k;
  constexpr bool kStaged = kForm == Form::kStaged;

  extern __shared__ __align__(16) unsigned shared[];
  const int weight_words = taps * (kStaged ? kGroup * kStagedWeightPitch : 8 * Tr::kWeightPitch);
  unsigned* const weights = shared;  // [taps][8][kWeightPitch] or [taps][16][kStagedWeightPitch]
  // [taps][8][4]: rows m, m, m + 8, m + 8
  float* const biases = reinterpret_cast<float*>(weights + weight_words);
  unsigned* const tiles = reinterpret_cast<unsigned*>(biases + taps * 32);  // kBuffers
  [[maybe_unused]] unsigned* const stage = tiles + kBuffers * geometry.tile_words +
                                           threadIdx.x / 32 * kStageWords;  // kStaged: a warp's y

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int g = lane / 4;     // mma row (and row + 8); column of the B operand
  const int quad = lane % 4;  // share of k; columns 2*quad and 2*quad + 1 of the result
  const int half_warp = threadIdx.x / 16;
  const int half_lane = threadIdx.x % 16;
  const int b = static_cast<int>(blockIdx.y) / geometry.groups;
  const int first_channel = static_cast<int>(blockIdx.y) % geometry.groups * kGroup;
  const int dilation = a.dilation[b];
  const int reach = k / 2 * dilation;
  const TileLayout layout(geometry.tile_rows, reach, kChannelsLast, sizeof(T), kStaged);
  const int height = static_cast<int>(a.height);
  const int width = static_cast<int>(a.width);
  const int source_channels = static_cast<int>(a.source_channels);

  const auto copy_weights = [&] {
    const T* const rows = static_cast<const T*>(a.weight) + b * a.weight_stride[0] +
                          static_cast<int64_t>(first_channel) * taps * a.weight_stride[1];
    if constexpr (kStaged) {
      const int chunk = threadIdx.x % 8;
      const bool real = chunk * 8 < source_channels;
      const T* const from = rows + (real ? chunk * 8 : 0);
      for (int row = threadIdx.x / 8; row < taps * kGroup; row += kThreads / 8) {
        const int channel = row / taps;
        const int tap = row - channel * taps;
        copy_async<16>(
            weights + (tap * kGroup + row_of_channel<kChannelsLast>(channel)) * kStagedWeightPitch +
                chunk * 4,
            from + row * a.weight_stride[1], real);
      }
    } else {
      // Word r of those that thread `quad` holds goes to product r / 2, and there to slot r % 2.
      const int word = threadIdx.x % Tr::kSourceWords;
      const int word_quad = sizeof(T) == 4 ? word / 4 % 4 : word / 8;
      const int r = sizeof(T) == 4 ? word / 16 * 4 + word % 4 : word % 8;
      unsigned* const to = weights + r / 2 * 16 + word_quad * 4 + r % 2 * 2;
      const bool real = word * kInWord < source_channels;
      const T* const from = rows + (real ? word * kInWord : 0);
      for (int row = threadIdx.x / Tr::kSourceWords; row < taps * kGroup;
           row += kThreads / Tr::kSourceWords) {
        const int channel = row / taps;
        const int tap = row - channel * taps;
        const int mma_row = row_of_channel<kChannelsLast>(channel);
        copy_async<4>(to + (tap * 8 + mma_row % 8) * Tr::kWeightPitch + mma_row / 8,
                      from + row * a.weight_stride[1], real);
      }
    }
  };

  const auto copy_tile = [&](const Place& place, unsigned* tile) {
    const T* const x = static_cast<const T*>(a.x) + place.n * a.x_stride[0] +
                       static_cast<int64_t>(first_channel) * geometry.x_c;
    const int first_row = place.down * geometry.tile_rows - reach;
    if constexpr (kStaged && kChannelsLast) {
      if (layout.columns <= 32) {  // 64 threads a row: a column and a half of its channels each
        const int c = static_cast<int>(threadIdx.x) / 2 % 32;
        const int chunk = static_cast<int>(threadIdx.x) % 2;
        const int r = static_cast<int>(threadIdx.x) / 64;
        const int column = place.across * kTileColumns - reach + c;
        if (c >= layout.columns) return;
        const bool column_inside = static_cast<unsigned>(column) < static_cast<unsigned>(width);
        int row = first_row + r;
        const int end = first_row + layout.rows;
        const T* from =
            x + static_cast<int64_t>(row) * geometry.x_h + column * geometry.x_w + chunk * 8;
        unsigned* to = tile + (r * layout.columns + c) * kPixelPitch + chunk * 4;
        const int64_t from_step = int64_t{4} * geometry.x_h;
        const int to_step = 4 * layout.columns * kPixelPitch;
#pragma unroll 4
        for (; row < end; row += 4, from += from_step, to += to_step) {
          // Not read where it lies outside.
          copy_async<16>(
              to, from,
              column_inside && static_cast<unsigned>(row) < static_cast<unsigned>(height));
        }
        return;
      }
    }
    if constexpr (kChannelsLast) {
      // Half a warp takes a row: each lane one 16-byte part of every eighth (float: fourth) pixel.
      constexpr int kChunksOfPixel = kGroup / Tr::kChunk;
      constexpr int kPixelStep = 16 / kChunksOfPixel;
      const int chunk = half_lane % kChunksOfPixel;
      const int first_column = place.across * kTileColumns - reach + half_lane / kChunksOfPixel;
      const T* const first = x + first_column * geometry.x_w + chunk * Tr::kChunk * geometry.x_c;
      for (int r = half_warp; r < layout.rows; r += kThreads / 16) {
        const int row = first_row + r;
        const bool row_inside = row >= 0 && row < height;
        const T* from = first + static_cast<int64_t>(row) * geometry.x_h;
        unsigned* to =
            tile + (r * layout.columns + half_lane / kChunksOfPixel) * kPixelPitch + chunk * 4;
        int column = first_column;
        if (geometry.vector_x) {
          for (int c = half_lane / kChunksOfPixel; c < layout.columns; c += kPixelStep) {
            const bool inside = row_inside && column >= 0 && column < width;
            copy_async<16>(to, inside ? from : x, inside);
            column += kPixelStep;
            from += kPixelStep * geometry.x_w;
            to += kPixelStep * kPixelPitch;
          }
          continue;
        }
        for (int c = half_lane / kChunksOfPixel; c < layout.columns; c += kPixelStep) {
          const bool inside = row_inside && column >= 0 && column < width;
          for (int e = 0; e < Tr::kChunk; ++e) {
            reinterpret_cast<T*>(to)[e] = inside ? from[e * geometry.x_c] : from_sum<T>(0.f);
          }
          column += kPixelStep;
          from += kPixelStep * geometry.x_w;
          to += kPixelStep * kPixelPitch;
        }
      }
    } else if constexpr (kStaged) {
      // 16 bytes a thread; neighbouring threads take neighbouring pieces of a row, then rows.
      const int first_column = place.across * kTileColumns - layout.margin;
      const int pieces = layout.row_pitch / 8;
      const T* const plane = x + static_cast<int64_t>(half_warp) * geometry.x_c;
      T* const to_plane = reinterpret_cast<T*>(tile) + half_warp * layout.plane_pitch;
      int r = half_lane / pieces;
      int piece = half_lane - r * pieces;
      const int row_step = 16 / pieces;
      const int piece_step = 16 - row_step * pieces;
      while (r < layout.rows) {
        const int row = first_row + r;
        const int column = first_column + piece * 8;
        const bool inside = row >= 0 && row < height && column >= 0 && column < width;
        copy_async<16>(to_plane + r * layout.row_pitch + piece * 8,
                       inside ? plane + static_cast<int64_t>(row) * geometry.x_h + column : x,
                       inside);
        r += row_step;
        piece += piece_step;
        if (piece >= pieces) piece -= pieces, ++r;
      }
    } else {
      // Half a warp has a channel.
      const int first_column = place.across * kTileColumns - layout.margin;
      T* to_row = reinterpret_cast<T*>(tile) + half_warp * layout.plane_pitch;
      const T* const plane = x + static_cast<int64_t>(half_warp) * geometry.x_c;
#pragma unroll 2
      for (int r = 0; r < layout.rows; ++r, to_row += layout.row_pitch) {
        const int row = first_row + r;
        const bool row_inside = row >= 0 && row < height;
        const T* const from_row = plane + static_cast<int64_t>(row) * geometry.x_h;
        if (geometry.vector_x) {
          for (int c = half_lane * kInWord; c < layout.row_pitch; c += 16 * kInWord) {
            const int column = first_column + c;
            const bool inside = row_inside && column >= 0 && column < width;
            copy_async<4>(to_row + c, inside ? from_row + column : x, inside);
          }
          continue;
        }
        for (int c = half_lane; c < layout.row_pitch; c += 16) {
          const int column = first_column + c;
          const bool inside = row_inside && column >= 0 && column < width;
          to_row[c] =
              inside ? from_row[static_cast<int64_t>(column) * geometry.x_w] : from_sum<T>(0.f);
        }
      }
    }
  };

  // This thread's share of y: 16 channels of one pixel of each column tile.
  unsigned source[kTiles][Tr::kSourceWords / 4];
  const auto read_source = [&](const Place& place) {
    const int row = place.down * geometry.tile_rows + warp * kRowsOfWarp;
    const int column = place.across * kTileColumns + pixel_of_column<T, kChannelsLast>(g);
    const T* const y = static_cast<const T*>(a.y) + place.n * a.y_stride[0] +
                       (a.groups == 1 ? 0 : b * a.y_stride[1]) +
                       static_cast<int64_t>(row) * geometry.y_h +
                       static_cast<int64_t>(column) * geometry.y_w;
    // float: chunks of the four threads alternate, so that their reads share 64-byte pieces.
    const auto first_of = [&](int q) {
      return sizeof(T) == 4 ? q * 16 + quad * 4 : quad * 16 + q * 8;
    };
    const auto keep = [&](int j, int q, uint4 bits) {
      bits = as_operand<T>(bits);
      source[j][4 * q] = bits.x;
      source[j][4 * q + 1] = bits.y;
      source[j][4 * q + 2] = bits.z;
      source[j][4 * q + 3] = bits.w;
    };
    if (geometry.vector_y) {
      uint4 bits[kTiles][kChunks];
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const bool inside = row + j / 2 < height && column + j % 2 * 8 < width;
        const T* const pixel = y + j / 2 * geometry.y_h + j % 2 * 8 * geometry.y_w;
#pragma unroll
        for (int q = 0; q < kChunks; ++q) {
          bits[j][q] = make_uint4(0, 0, 0, 0);
          if (inside && first_of(q) < source_channels) {
            bits[j][q] = __ldg(reinterpret_cast<const uint4*>(pixel + first_of(q)));
          }
        }
      }
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int q = 0; q < kChunks; ++q) keep(j, q, bits[j][q]);
      }
      return;
    }
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const bool inside = row + j / 2 < height && column + j % 2 * 8 < width;
      const T* const pixel = y + j / 2 * geometry.y_h + j % 2 * 8 * geometry.y_w;
#pragma unroll
      for (int q = 0; q < kChunks; ++q) {
        uint4 bits = make_uint4(0, 0, 0, 0);
        if (inside && first_of(q) < source_channels) {
          T elements[Tr::kChunk];
          const T* from = pixel + static_cast<int64_t>(first_of(q)) * geometry.y_c;
#pragma unroll
          for (int e = 0; e < Tr::kChunk; ++e, from += geometry.y_c) elements[e] = __ldg(from);
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
        keep(j, q, bits);
      }
    }
  };

  // Starts copying a tile's y to the warp's stage. channels_last: 8 chunks a pixel, turned by the
  // pixel so that ldmatrix meets every bank once. NCHW: a chunk is 8 pixels of a channel.
  [[maybe_unused]] const auto copy_source = [&](const Place& place) {
    const int row0 = place.down * geometry.tile_rows + warp * kRowsOfWarp;
    const int column0 = place.across * kTileColumns;
    const T* const image = static_cast<const T*>(a.y) + place.n * a.y_stride[0] +
                           (a.groups == 1 ? 0 : b * a.y_stride[1]);
    if constexpr (kStaged && kChannelsLast) {
      const int chunk = lane % 8;
      const int column = column0 + lane / 8;
      const bool real = chunk * 8 < source_channels;
      const T* from = image + static_cast<int64_t>(row0) * geometry.y_h +
                      static_cast<int64_t>(column) * geometry.y_w + chunk * 8;
      unsigned* const even = stage + (lane / 8 * 8 + (chunk ^ lane / 8)) * 4;
      unsigned* const odd = stage + ((lane / 8 + 4) * 8 + (chunk ^ lane / 8 ^ 4)) * 4;
      const int64_t step = int64_t{4} * geometry.y_w;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (i == 4) from += geometry.y_h - 4 * step;
        copy_async<16>((i % 2 == 0 ? even : odd) + i / 2 * 8 * 8 * 4, from,
                       real && row0 + i / 4 < height && column + i % 4 * 4 < width);
        from += step;
      }
    } else {
      const int half = lane % 2;
      const bool column_inside = column0 + half * 8 < width;
      const T* const y = image + static_cast<int64_t>(row0) * geometry.y_h + column0 + half * 8 +
                         static_cast<int64_t>(lane / 2) * geometry.y_c;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int channel = lane / 2 + i % 4 * 16;
        const bool inside = column_inside && row0 + i / 4 < height && channel < source_channels;
        copy_async<16>(
            stage + ((i / 4 * 2 + half) * 64 + channel) * 4,
            inside ? y + i / 4 * geometry.y_h + static_cast<int64_t>(i % 4 * 16) * geometry.y_c
                   : image,
            inside);
      }
    }
  };
  [[maybe_unused]] const auto take_source = [&] {
    if constexpr (kStaged) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int chunk = h * 4 + lane / 8;
          const int n = kChannelsLast ? pixel_of_column<T, kChannelsLast>(lane % 8) : lane % 8;
          const int slot = kChannelsLast ? (t * 8 + n) * 8 + (chunk ^ n) : t * 64 + chunk * 8 + n;
          unsigned four[4];
          load_matrices<!kChannelsLast>(four, stage + slot * 4);
#pragma unroll
          for (int q = 0; q < 4; ++q) source[t][h * 4 + q] = four[q];
        }
      }
      __syncwarp();
    }
  };

  // Brings the next tile's y (channels innermost) to the L2, one pixel a thread, so that reading it
  // does not wait for memory.
  const auto prefetch_source = [&](const Place& place) {
    const int row = place.down * geometry.tile_rows + static_cast<int>(threadIdx.x) / kTileColumns;
    const int column = place.across * kTileColumns + static_cast<int>(threadIdx.x) % kTileColumns;
    if (static_cast<int>(threadIdx.x) >= geometry.tile_rows * kTileColumns || row >= height ||
        column >= width) {
      return;
    }
    const T* const pixel = static_cast<const T*>(a.y) + place.n * a.y_stride[0] +
                           (a.groups == 1 ? 0 : b * a.y_stride[1]) +
                           static_cast<int64_t>(row) * geometry.y_h +
                           static_cast<int64_t>(column) * geometry.y_w;
    prefetch(pixel);
  };

  if (blockIdx.x >= geometry.tiles) return;
  for (int i = threadIdx.x; i < taps * kGroup; i += kThreads) {
    const int channel = i / taps;
    const int tap = i - channel * taps;
    const int64_t row = i + static_cast<int64_t>(first_channel) * taps;
    const int mma_row = row_of_channel<kChannelsLast>(channel);
    float* const to = biases + (tap * 8 + mma_row % 8) * 4 + mma_row / 8 * 2;
    to[0] = to[1] =
        a.bias == nullptr
            ? 0.f
            : to_sum(static_cast<const T*>(a.bias)[b * a.bias_stride[0] + row * a.bias_stride[1]]);
  }
  copy_weights();
  Place place{static_cast<int>(blockIdx.x) % geometry.tiles_across,
              static_cast<int>(blockIdx.x) / geometry.tiles_across % geometry.tiles_down,
              static_cast<int>(blockIdx.x) / geometry.tiles_across / geometry.tiles_down};
  Place next = place;
  copy_tile(place, tiles);
  if constexpr (kStaged) copy_source(place);
  if constexpr (sizeof(T) == 4) {  // round the weights once
    wait_for_copies();
    __syncthreads();
    for (int i = threadIdx.x; i < weight_words; i += kThreads) {
      weights[i] = round_to_tf32(weights[i]);
    }
  }

  int buffer = 0;
  for (unsigned job = blockIdx.x; job < geometry.tiles; job += gridDim.x, buffer ^= 1) {
    place = next;
    if constexpr (!kStaged) read_source(place);
    wait_for_copies();
    __syncthreads();  // this tile's x (and weights) are here; nobody uses the one before any more
    if constexpr (kStaged) take_source();
    next.advance(geometry);
    if (job + gridDim.x < geometry.tiles) {
      if constexpr (kBuffers == 2) copy_tile(next, tiles + (buffer ^ 1) * geometry.tile_words);
      if constexpr (kStaged) {
        copy_source(next);
      } else if (geometry.vector_y) {
        prefetch_source(next);
      }
    }

    const unsigned* const tile = tiles + (kBuffers == 2 ? buffer : 0) * geometry.tile_words;
    // Where tap 0 of the warp's first row and this thread's first column and channel lies.
    constexpr int kPairWords = 2 / kInWord;
    const int column_of_thread = pixel_of_column<T, kChannelsLast>(2 * quad);
    const unsigned* const base =
        tile + (warp * kRowsOfWarp * layout.columns + column_of_thread) * kPixelPitch +
        g * kPairWords;
    const T* const plane_base = reinterpret_cast<const T*>(tile) + g * layout.plane_pitch +
                                warp * kRowsOfWarp * layout.row_pitch + layout.margin - reach +
                                column_of_thread;
    // x at (down, across) from there for column tile t: this thread's two columns of its first
    // channel, then of its second.
    const auto read_x = [&](int down, int across, int t, float(&value)[4]) {
      if constexpr (kChannelsLast) {
        const unsigned* const pixel =
            base + ((down + t / 2) * layout.columns + across + t % 2 * 8) * kPixelPitch;
        const float2 first = load_pair(pixel, T());
        const float2 second = load_pair(pixel + 4 * kPixelPitch, T());
        value[0] = first.x, value[1] = second.x, value[2] = first.y, value[3] = second.y;
      } else {
        const T* const low = plane_base + (down + t / 2) * layout.row_pitch + across + t % 2 * 8;
        const T* const high = low + 8 * layout.plane_pitch;
        if constexpr (sizeof(T) == 4) {
          value[0] = low[0], value[1] = low[4], value[2] = high[0], value[3] = high[4];
        } else if ((across - reach) % 2 == 0) {
          const float2 first = load_pair(reinterpret_cast<const unsigned*>(low), T());
          const float2 second = load_pair(reinterpret_cast<const unsigned*>(high), T());
          value[0] = first.x, value[1] = first.y, value[2] = second.x, value[3] = second.y;
        } else {
          value[0] = to_sum(low[0]), value[1] = to_sum(low[1]);
          value[2] = to_sum(high[0]), value[3] = to_sum(high[1]);
        }
      }
    };

    float sum[kTiles][4] = {};
    const unsigned* weight_row =
        weights + (kStaged ? (lane % 16) * kStagedWeightPitch + lane / 16 * 4
                           : g * Tr::kWeightPitch + quad * 4);
    const float* bias = biases + g * 4;
#pragma unroll 1
    for (int i = 0; i < k; ++i) {
#pragma unroll kColumnsAtOnce
      for (int column = 0; column < k; ++column) {
        const float4 start_bits = *reinterpret_cast<const float4*>(bias);
        float start[4] = {start_bits.x, start_bits.y, start_bits.z, start_bits.w};
        float tap[kTiles][4];
#pragma unroll
        for (int s = 0; s < Tr::kSourceWords / 8; ++s) {
          unsigned operand_a[4];
          if constexpr (kStaged) {
            load_matrices<false>(operand_a, weight_row + 8 * s);
          } else {
            const uint4 bits = *reinterpret_cast<const uint4*>(weight_row + 16 * s);
            operand_a[0] = bits.x, operand_a[1] = bits.y;
            operand_a[2] = bits.z, operand_a[3] = bits.w;
          }
#pragma unroll
          for (int t = 0; t < kTiles; ++t) {
            const unsigned operand_b[2] = {source[t][2 * s], source[t][2 * s + 1]};
            multiply(tap[t], operand_a, operand_b, s == 0 ? start : tap[t], T());
          }
        }
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          float value[4];
          read_x(i * dilation, column * dilation, t, value);
#pragma unroll
          for (int v = 0; v < 4; ++v) sum[t][v] = fmaf(tap[t][v], value[v], sum[t][v]);
        }
        weight_row += kStaged ? kGroup * kStagedWeightPitch : 8 * Tr::kWeightPitch;
        bias += 32;
      }
    }

    // Write the results; the first branch's blocks also copy x in front of them.
    const int row0 = place.down * geometry.tile_rows + warp * kRowsOfWarp;
    const int column0 = place.across * kTileColumns + column_of_thread;
    constexpr int kNextColumn = sizeof(T) == 2 && !kChannelsLast ? 1 : 4;
    const bool also_copy = a.concat_input && b == 0;
    if constexpr (kStaged && kChannelsLast) {
      T* const out = static_cast<T*>(a.out) + place.n * a.out_stride[0] +
                     (a.output_channel + b * a.channels + first_channel + 2 * g) +
                     static_cast<int64_t>(row0) * geometry.out_h +
                     static_cast<int64_t>(column0) * geometry.out_w;
      T* const below = out + geometry.out_h;
#pragma unroll
      for (int q = 0; q < 4; ++q) {  // columns 4 apart
        if (column0 + 4 * q >= width) break;
        const int offset = 4 * q * geometry.out_w;
        if (row0 < height) store_pair(out + offset, sum[q / 2][q % 2], sum[q / 2][2 + q % 2]);
        if (row0 + 1 < height) {
          store_pair(below + offset, sum[2 + q / 2][q % 2], sum[2 + q / 2][2 + q % 2]);
        }
      }
    }
    for (int copy = kStaged && kChannelsLast ? 1 : 0; copy < (also_copy ? 2 : 1); ++copy) {
      const int64_t channel = (copy == 1 ? 0 : a.output_channel + b * a.channels) + first_channel +
                              (kChannelsLast ? 2 * g : g);
      T* const out = static_cast<T*>(a.out) + place.n * a.out_stride[0] + channel * geometry.out_c +
                     static_cast<int64_t>(row0) * geometry.out_h +
                     static_cast<int64_t>(column0) * geometry.out_w;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const int column = column0 + t % 2 * 8;
        if (row0 + t / 2 >= height) continue;
        float value[4] = {sum[t][0], sum[t][1], sum[t][2], sum[t][3]};
        if (copy == 1) read_x(reach, reach, t, value);
        T* const first = out + t / 2 * geometry.out_h + t % 2 * 8 * geometry.out_w;
        T* const next_pixel = first + kNextColumn * geometry.out_w;
        if constexpr (kChannelsLast) {
          if (column < width) store_pair(first, value[0], value[2]);
          if (column + kNextColumn < width) store_pair(next_pixel, value[1], value[3]);
        } else {
          const int64_t next_channel = int64_t{8} * geometry.out_c;
          if (sizeof(T) == 2 && geometry.pairs_of_columns) {
            if (column < width) {
              store_pair(first, value[0], value[1]);
              store_pair(first + next_channel, value[2], value[3]);
            }
            continue;
          }
          if (column < width) {
            first[0] = from_sum<T>(value[0]);
            first[next_channel] = from_sum<T>(value[2]);
          }
          if (column + kNextColumn < width) {
            next_pixel[0] = from_sum<T>(value[1]);
            next_pixel[next_channel] = from_sum<T>(value[3]);
          }
        }
      }
    }
    if constexpr (kBuffers == 1) {
      if (job + gridDim.x < geometry.tiles) {
        __syncthreads();  // nobody reads the tile any more
        copy_tile(next, tiles);
      }
    }
  }
}

int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&value, which, device) != cudaSuccess) {
    return 0;
  }
  return value;
}

bool fits(int64_t bytes) {
  return bytes <= kSharedLimit && bytes <= attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
}

bool no(std::string* why, const char* reason) {
  if (why != nullptr) *why = reason;
  return false;
}

bool aligned(const void* pointer, int bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) == 0;
}

template <typename T>
TileLayout largest_tile(const GeneratedFilterArguments& a, Form form) {
  return {kWarps * pixel_tiles<T>(form) / 2, a.kernel_size / 2 * largest_dilation(a),
          writes_channels_last(a), static_cast<int>(sizeof(T)), form == Form::kStaged};
}

template <typename T>
int64_t shared_bytes(const GeneratedFilterArguments& a, Form form) {
  const int64_t taps = a.kernel_size * a.kernel_size;
  const int64_t tiles = tile_buffers<T> * static_cast<int64_t>(largest_tile<T>(a, form).words);
  const int64_t weights = form == Form::kStaged
                              ? taps * kGroup * kStagedWeightPitch + kWarps * kStageWords
                              : taps * 8 * Traits<T>::kWeightPitch;
  return 4 * (weights + taps * 32 + tiles);
}

template <typename T>
Geometry geometry_of(const GeneratedFilterArguments& a, Form form) {
  constexpr int size = static_cast<int>(sizeof(T));
  constexpr int chunk = Traits<T>::kChunk;
  const auto multiples = [](const int64_t* strides, int count, int skipped, int64_t of) {
    for (int i = 0; i < count; ++i) {
      if (i != skipped && strides[i] % of != 0) return false;
    }
    return true;
  };
  Geometry geometry{};
  geometry.tile_rows = kWarps * pixel_tiles<T>(form) / 2;
  geometry.tiles_down = static_cast<int>((a.height + geometry.tile_rows - 1) / geometry.tile_rows);
  geometry.tiles_across = static_cast<int>((a.width + kTileColumns - 1) / kTileColumns);
  geometry.tiles = static_cast<unsigned>(a.batch * geometry.tiles_down * geometry.tiles_across);
  geometry.vector_y = a.y_stride[2] == 1 && aligned(a.y, 16) && multiples(a.y_stride, 5, 2, chunk);
  geometry.tile_words = largest_tile<T>(a, form).words;
  geometry.groups = static_cast<int>(a.channels / kGroup);
  geometry.vector_x =
      writes_channels_last(a)
          ? a.x_stride[1] == 1 && aligned(a.x, 16) && multiples(a.x_stride, 4, 1, chunk)
          : a.x_stride[3] == 1 && aligned(a.x, 4) && a.width % (4 / size) == 0 &&
                multiples(a.x_stride, 4, 3, 4 / size);
  const auto narrow = [](int64_t stride) { return static_cast<int>(stride); };
  geometry.x_c = narrow(a.x_stride[1]), geometry.x_h = narrow(a.x_stride[2]);
  geometry.x_w = narrow(a.x_stride[3]), geometry.y_c = narrow(a.y_stride[2]);
  geometry.y_h = narrow(a.y_stride[3]), geometry.y_w = narrow(a.y_stride[4]);
  geometry.out_c = narrow(a.out_stride[1]), geometry.out_h = narrow(a.out_stride[2]);
  geometry.out_w = narrow(a.out_stride[3]);
  geometry.pairs_of_columns = a.out_stride[3] == 1 && a.width % 2 == 0 &&
                              aligned(a.out, 2 * size) && multiples(a.out_stride, 4, 3, 2);
  return geometry;
}

template <typename T, bool kChannelsLast, int kK, Form kForm>
cudaError_t launch(const GeneratedFilterArguments& a, cudaStream_t stream) {
  const auto kernel = generated_filter_mma<T, kChannelsLast, kK, kForm>;
  const auto bytes = static_cast<int>(shared_bytes<T>(a, kForm));
  int device = 0, multiprocessors = 0, shared_of_multiprocessor = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&shared_of_multiprocessor,
                                   cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
  }
  if (error == cudaSuccess) error = allow_shared_memory(kernel, bytes);
  if (error != cudaSuccess) return error;
  Geometry geometry = geometry_of<T>(a, kForm);
  // As many blocks as the multiprocessors hold at once, each with an equal share of the tiles.
  const int64_t at_once = shared_of_multiprocessor / (bytes + kSharedReserved) > 1 ? 2 : 1;
  const int64_t resident = at_once * multiprocessors / (a.branches * geometry.groups);
  int64_t across = geometry.tiles;
  if (across > resident && resident > 0) {
    const int64_t rounds = (across + resident - 1) / resident;
    across = (across + rounds - 1) / rounds;
  }
  geometry.across_step = static_cast<int>(across % geometry.tiles_across);
  geometry.down_step = static_cast<int>(across / geometry.tiles_across % geometry.tiles_down);
  geometry.batch_step = static_cast<int>(across / geometry.tiles_across / geometry.tiles_down);
  kernel<<<dim3(static_cast<unsigned>(across), static_cast<unsigned>(a.branches * geometry.groups)),
           kThreads, bytes, stream>>>(a, geometry);
  return cudaGetLastError();
}

template <typename T, bool kChannelsLast, int kK>
cudaError_t launch(const GeneratedFilterArguments& a, cudaStream_t stream) {
  if constexpr (kK == 3) {
    if constexpr (sizeof(T) == 4) {
      if (can_widen_generated_filter(a, nullptr))
        return launch<T, kChannelsLast, kK, Form::kTall>(a, stream);
    } else if (can_stage_generated_filter(a, nullptr)) {
      return launch<T, kChannelsLast, kK, Form::kStaged>(a, stream);
    }
  }
  return launch<T, kChannelsLast, kK, Form::kDirect>(a, stream);
}

template <typename T>
cudaError_t launch_type(const GeneratedFilterArguments& a, cudaStream_t stream) {
  if (writes_channels_last(a)) {
    return a.kernel_size == 3 ? launch<T, true, 3>(a, stream) : launch<T, true, 0>(a, stream);
  }
  return a.kernel_size == 3 ? launch<T, false, 3>(a, stream) : launch<T, false, 0>(a, stream);
}

}  // namespace

bool can_stage_generated_filter(const GeneratedFilterArguments& a, std::string* why) {
  const bool channels_last = writes_channels_last(a);
  const int unit = channels_last ? 1 : 3;  // the axis whose elements are to be neighbours
  if (a.type == Type::kFloat) return no(why, "not a two-byte type");
  if (a.kernel_size != 3) return no(why, "kernel size other than 3");
  if (a.x_stride[unit] != 1 || a.y_stride[unit + 1] != 1) {
    return no(why, "x or y is not in the result's format");
  }
  for (int i = 0; i < 5; ++i) {
    if ((i < 4 && i != unit && a.x_stride[i] % 8 != 0) ||
        (i != unit + 1 && a.y_stride[i] % 8 != 0)) {
      return no(why, "strides of x or y are no multiples of 8");
    }
  }
  if (!aligned(a.x, 16) || !aligned(a.y, 16)) return no(why, "x or y is not 16-byte aligned");
  if (!channels_last && a.width % 8 != 0) return no(why, "width is no multiple of 8");
  return fits(shared_bytes<__half>(a, Form::kStaged)) ||
         no(why, "reach of the taps exceeds shared memory");
}

bool can_widen_generated_filter(const GeneratedFilterArguments& a, std::string* why) {
  if (a.type != Type::kFloat) return no(why, "not float");
  if (a.kernel_size != 3) return no(why, "kernel size other than 3");
  const int64_t readers = a.channels / kGroup * (a.groups == 1 ? a.branches : 1);
  if (readers == 1 && writes_channels_last(a)) return no(why, "one block alone reads a tile's y");
  return fits(shared_bytes<float>(a, Form::kTall)) ||
         no(why, "reach of the taps exceeds shared memory");
}

bool can_run_generated_filter_mma(const GeneratedFilterArguments& a, std::string* why) {
  if (a.type == Type::kDouble) return no(why, "float64");
  if (a.type == Type::kFloat && !a.allow_tf32) return no(why, "float without TF32");
  if (a.channels % kGroup != 0) return no(why, "channels of x are no multiple of 16");
  if (a.source_channels < 1 || a.source_channels > kSource || a.source_channels % 8 != 0) {
    return no(why, "channels of y are no multiple of 8 up to 64");
  }
  const int64_t chunk = a.type == Type::kFloat ? 4 : 8;
  if (a.weight_stride[2] != 1 || a.weight_stride[1] % chunk != 0 ||
      a.weight_stride[0] % chunk != 0 || !aligned(a.weight, 16)) {
    return no(why, "rows of weight are not dense and 16-byte aligned");
  }
  for (int64_t b = 0; b < a.branches; ++b) {
    if (a.dilation[b] > 64) return no(why, "dilation above 64");
  }
  if (a.kernel_size > 9) return no(why, "kernel size above 9");
  const int64_t bytes = a.type == Type::kFloat ? shared_bytes<float>(a, Form::kDirect)
                                               : shared_bytes<__half>(a, Form::kDirect);
  if (!fits(bytes)) return no(why, "reach of the taps exceeds shared memory");
  if (a.branches * (a.channels / kGroup) > 65535) return no(why, "more groups than a grid holds");
  if (a.batch * a.height * a.width >= (int64_t{1} << 31)) return no(why, "2^31 pixels or more");
  // Offsets of a few pixels or channels are computed in 32 bits.
  constexpr int64_t kLargestStride = int64_t{1} << 26;
  for (const int64_t stride :
       {a.x_stride[1], a.x_stride[2], a.x_stride[3], a.y_stride[2], a.y_stride[3], a.y_stride[4],
        a.out_stride[1], a.out_stride[2], a.out_stride[3]}) {
    if (stride > kLargestStride) return no(why, "stride within an image above 2^26 elements");
  }
  if (!current_device().is_ampere_or_later()) return no(why, "compute capability below 8.0");
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
