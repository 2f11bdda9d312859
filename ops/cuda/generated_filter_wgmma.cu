// generated_dynamic_filter in two-byte types, K 3, on warpgroups (compute capability 9.0).
//
// taps = y * weight^T: 64 pixels are the rows of a product (y in registers, 16 pixels a warp), 3
// taps of 16 channels its 48 columns, so that a thread holds all 9 taps of its 2 pixels and 4
// channels: it multiplies them by x and forgets them. Against generated_filter_mma.cu: weights are
// read from shared memory once for 64 pixels, not for 32, and by the tensor cores themselves; x is
// 8 bytes a read; a kernel row's product runs while the one before meets x. The bias is a fifth
// product: one times the bias, which two-byte types hold exactly.
//
// Block: 8 warps, tiles of 256 pixels of one branch and group of 16 channels. The copy engine
// fetches the next tile while one is computed: of x a box with the halo, of y a box for each warp;
// it makes zeros of what lies outside of the plane, and of channels of y that are not there.
//
// channels_last: tiles of 16 x 16, x in two buffers.
//
// NCHW: tiles of 32 columns and 8 rows, whose rows are 64 bytes. Boxes begin at whole 16 bytes, so
// x comes as the tile's own columns and 8 more on either side; ldmatrix turns it, 16 columns at a
// time, into a tile with channels innermost, once for 9 taps. Threads exchange words of their
// results to write four columns at a time, two of which make a sector. x in front of the results is
// copied from its box by the copy engine. Long calls of narrow planes are for
// generated_filter_wgmma_runs.cu.
//
// FLOPs and bytes: as generated_filter_mma.cu. Figures: ops/README.md.
#include <algorithm>
#include <type_traits>

#include "cuda/device_facts.h"
#include "cuda/early_launch.cuh"
#include "cuda/generated_filter_wgmma.cuh"
#include "cuda/shared_limit.h"
#include "cuda/simt.cuh"
#include "cuda/tensor_map.h"
#include "cuda/tile_walk.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kStageWords = kWarpPixels * kRowWords;
constexpr int kBarrierBytes = (2 + kWarps) * static_cast<int>(sizeof(uint64_t));
constexpr int kTwoBlocksBytes = 113 * 1024;  // of a block that leaves room for a second one
constexpr int kBoxes = 4;                    // sizes of x's box, for branches' dilations

/// A tile and, with the reach of its taps, what of x it needs.
template <bool kChannelsLast>
struct Tiling {
  static constexpr int kColumns = kChannelsLast ? 16 : 32;
  static constexpr int kWarpRows = kWarpPixels / kColumns;
  static constexpr int kRows = kWarps * kWarpRows;
  static constexpr int kMargin = kMostDilation;  // NCHW: columns on either side, 16 bytes

  /// Of the tile in shared memory. NCHW: always the most.
  static __host__ __device__ constexpr int columns(int reach) {
    return kColumns + 2 * (kChannelsLast ? reach : kMargin);
  }
  static __host__ __device__ constexpr int rows(int reach) { return kRows + 2 * reach; }
  static __host__ __device__ constexpr int tile_words(int reach) {
    return columns(reach) * rows(reach) * kPixelWords;
  }
};

struct Maps {
  CUtensorMap y;
  CUtensorMap x[kBoxes];
  // NCHW: of x's margins, and of the result for the copy of x in front of it.
  CUtensorMap margin[kBoxes];
  CUtensorMap out;
};

struct Geometry {
  TileWalk walk;
  int groups;
  int tile_words;  // of the largest reach, twice: two buffers, or the turned tile and the planes
  int turn_step;   // of a block from one of its tiles to the next, modulo branches
  int out_c, out_h, out_w;
  int reach[kBoxes];
  unsigned char box[kMaxBranches];
  unsigned zeros;  // __byte_perm's selector of four bytes of its second word
};

template <typename T, bool kChannelsLast>
__global__ void __launch_bounds__(kThreads, 2)
    generated_filter_wgmma(const __grid_constant__ GeneratedFilterArguments a,
                           const __grid_constant__ Geometry geometry,
                           const __grid_constant__ Maps maps) {
  using Tile = Tiling<kChannelsLast>;
  extern __shared__ __align__(1024) unsigned shared[];
  unsigned* const weights = shared;
  unsigned* const biases = weights + kMatrixWords;
  unsigned* const stages = biases + kBiasWords;  // a warp's y: [pixel][channel], [channel][pixel]
  unsigned* const tiles = stages + kWarps * kStageWords;
  unsigned* const second = tiles + geometry.tile_words;
  auto* const x_here = reinterpret_cast<uint64_t*>(second + geometry.tile_words);  // of a buffer
  uint64_t* const y_here = x_here + 2;                                             // of a warp
  const int b = static_cast<int>(blockIdx.y) / geometry.groups;
  const int first_channel = static_cast<int>(blockIdx.y) % geometry.groups * kGroup;
  const int dilation = a.dilation[b];
  const int reach = geometry.reach[geometry.box[b]];  // at least the dilation
  const int columns = Tile::columns(reach);           // of the tile in shared memory
  const int height = static_cast<int>(a.height);
  const int width = static_cast<int>(a.width);

  // A channel's row of the operand within its tap. channels_last: a thread's columns of a product,
  // 2*quad, 2*quad + 1 and 8 more, are channels 4*quad to 4*quad + 3. NCHW: they are the channels
  // that ldmatrix gives it.
  const auto row_of = [](int channel) {
    return kChannelsLast ? channel / 2 % 2 * 8 + channel / 4 * 2 + channel % 2 : channel;
  };
  // NCHW: [row][channel] of the tile's own columns, then of the margin on its left, on its right.
  const int rows = Tile::rows(reach);
  unsigned* const left_margin = second + rows * (kGroup * Tile::kColumns / 2);
  unsigned* const right_margin = left_margin + rows * (kGroup * Tile::kMargin / 2);
  // One thread asks for a tile of x, one lane of each warp for its part of y.
  const auto ask_for_x = [&](const TilePlace& to_come, int buffer) {
    const int column = to_come.across * Tile::kColumns;
    const int row = to_come.down * Tile::kRows - dilation;
    const int box = geometry.box[b];
    uint64_t* const here = x_here + buffer;
    arrive_and_expect(here, 4 * Tile::tile_words(reach));
    if constexpr (kChannelsLast) {
      copy_box(buffer == 0 ? tiles : second, maps.x + box, here, first_channel, column - dilation,
               row, to_come.n);
    } else {
      copy_box(second, maps.x + box, here, column, first_channel, row, to_come.n);
      copy_box(left_margin, maps.margin + box, here, column - Tile::kMargin, first_channel, row,
               to_come.n);
      copy_box(right_margin, maps.margin + box, here, column + Tile::kColumns, first_channel, row,
               to_come.n);
    }
  };
  // `read`: a value of the part before, at the same place; waits for it.
  const auto ask_for_y = [&](const TilePlace& to_come, int warp, unsigned read) {
    unsigned* const to = stages + warp * kStageWords + __byte_perm(read, 0u, geometry.zeros);
    const int column = to_come.across * Tile::kColumns;
    const int row = to_come.down * Tile::kRows + warp * Tile::kWarpRows;
    const int of_branch = a.groups == 1 ? 0 : b;
    arrive_and_expect(y_here + warp, 4 * kStageWords);
    if constexpr (kChannelsLast) {
      copy_box(to, &maps.y, y_here + warp, 0, column, row, of_branch, to_come.n);
    } else {
      copy_box(to, &maps.y, y_here + warp, column, 0, row, of_branch, to_come.n);
    }
  };
  // From planes to [row][column][quad][channels 2*quad, 2*quad + 1 and 8 more], 16 columns of a row
  // at a time: two times the tile's own, and once the margins.
  [[maybe_unused]] const auto turn_planes = [&] {
    const int warp = static_cast<int>(computed_here(threadIdx.x) / 32);
    const int lane = static_cast<int>(computed_here(threadIdx.x) % 32);
    const int channel = lane % 16;
    unsigned* const to = tiles + lane / 4 * kPixelWords + lane % 4 * 2;
    const auto turn_sixteen = [&](const unsigned* from, unsigned* first, unsigned* eighth) {
      unsigned four[4];  // channels 0 to 7 and 8 to 15 of 8 columns, and of 8 others
      load_matrices<true>(four, from);
      *reinterpret_cast<uint2*>(first) = make_uint2(four[0], four[1]);
      *reinterpret_cast<uint2*>(eighth) = make_uint2(four[2], four[3]);
    };
    const int rows_of_taps = Tile::rows(dilation);
    const int half = warp % 2;
    const unsigned* const from =
        second + channel * (Tile::kColumns / 2) + ((half * 2 + lane / 16) ^ (channel / 2 % 4)) * 4;
#pragma unroll 1
    for (int r = warp / 2; r < rows_of_taps; r += kWarps / 2) {
      unsigned* const at = to + (r * Tile::columns(0) + Tile::kMargin + half * 16) * kPixelWords;
      turn_sixteen(from + r * (kGroup * Tile::kColumns / 2), at, at + 8 * kPixelWords);
    }
    const unsigned* const margin =
        (lane < 16 ? left_margin : right_margin) + channel * (Tile::kMargin / 2);
#pragma unroll 1
    for (int r = kWarps - 1 - warp; r < rows_of_taps; r += kWarps) {
      unsigned* const at = to + r * Tile::columns(0) * kPixelWords;
      turn_sixteen(margin + r * (kGroup * Tile::kMargin / 2), at,
                   at + (Tile::kMargin + Tile::kColumns) * kPixelWords);
    }
  };

  // Who asks starts the barriers; the others wait at them behind a barrier of the block.
  if (threadIdx.x == 0) {
    start_barrier(x_here, 1);
    start_barrier(x_here + 1, 1);
    prefetch_map(&maps.y);
    prefetch_map(maps.x + geometry.box[b]);
    if (!kChannelsLast) prefetch_map(maps.margin + geometry.box[b]);
  }
  if (threadIdx.x % 32 == 0) {
    start_barrier(y_here + threadIdx.x / 32, 1);
    publish_barriers();
  }
  TilePlace place(geometry.walk, blockIdx.x);
  const auto ask_for_first = [&] {
    if (threadIdx.x == 0) ask_for_x(place, 0);
    if (threadIdx.x % 32 == 0) ask_for_y(place, static_cast<int>(threadIdx.x) / 32, 0);
  };
  wait_for_launch_before();
  if constexpr (!kChannelsLast) ask_for_first();  // the slower ones to come: NCHW has shorter rows
  static_assert(kTaps * kGroup <= kThreads);
  const int of_bias = static_cast<int>(threadIdx.x);  // a thread's element
  const T bias = load_bias<T>(a, b, first_channel, of_bias);
  copy_weights<T, kThreads>(a, b, first_channel, weights, row_of);
  if constexpr (kChannelsLast) ask_for_first();
  store_bias(bias, biases, of_bias, row_of);
  wait_for_copies();
  publish_operands();
  __syncthreads();
  const uint64_t weight_operand = operand(weights, 1024);
  const uint64_t bias_operand = operand(biases, 1024);
  int turn = static_cast<int>(blockIdx.x % static_cast<unsigned>(a.branches));  // to copy x
  unsigned round = 0;
  for (unsigned job = blockIdx.x; job < geometry.walk.tiles; job += gridDim.x, ++round) {
    const bool more = job + gridDim.x < geometry.walk.tiles;
    if (!more) let_next_launch_begin();

    // From the thread's number anew, here and below: it takes fewer registers than what follows.
    const int warp = static_cast<int>(computed_here(threadIdx.x) / 32);
    const int lane = static_cast<int>(computed_here(threadIdx.x) % 32);
    unsigned ones[4];
    one_times<T>(ones, lane);

    // y of the warp's pixels: rows lane / 4 and 8 more of a product, 4 times 16 channels.
    wait(y_here + warp, round & 1);
    unsigned source[2][4][4];
    unsigned read = 0;
    const unsigned* const stage = stages + warp * kStageWords;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        if constexpr (kChannelsLast) {
          const int pixel = m * 16 + lane % 16;
          const int chunk = 2 * s + lane / 16;
          load_matrices<false>(source[m][s], stage + pixel * kRowWords + (chunk ^ pixel % 8) * 4);
        } else {
          const int octet = m * 2 + lane / 8 % 2;
          const int channel = 16 * s + lane / 16 * 8 + lane % 8;
          load_matrices<true>(source[m][s],
                              stage + channel * (kWarpPixels / 2) + (octet ^ channel / 2 % 4) * 4);
        }
        read |= source[m][s][0];
      }
    }
    if (more && lane == 0) ask_for_y(place.next(geometry.walk), warp, read);

    // Batch 3*m + i: kernel row i of pixels 16*m on.
    float taps[2][24];
    const auto start = [&](int batch) {
      start_taps<T>(taps[batch % 2], ones, source[batch / 3], weight_operand, bias_operand,
                    batch % 3);
    };
    __syncwarp();
    start(0);
    __syncthreads();  // nobody uses the tile before any more
    if constexpr (kChannelsLast) {
      if (more && threadIdx.x == 0) {
        ask_for_x(place.next(geometry.walk), static_cast<int>(round & 1) ^ 1);
      }
      wait(x_here + (round & 1), round >> 1 & 1);
    } else {
      wait(x_here, round & 1);
      // All branches have x at hand, and take turns to copy it in front of the results.
      if (threadIdx.x == 0 && a.concat_input && turn == b) {
        store_box(&maps.out, second + dilation * (kGroup * Tile::kColumns / 2),
                  place.across * Tile::kColumns, first_channel, place.down * Tile::kRows, place.n);
      }
      turn_planes();
      __syncthreads();
      if (more && threadIdx.x == 0) {
        wait_for_stores_to_read();
        ask_for_x(place.next(geometry.walk), 0);
      }
    }
    __syncwarp();

    const int next_product = kChannelsLast ? columns : 16;  // its pixels lie below, or beside
    const unsigned* const pixels = (kChannelsLast && (round & 1) != 0 ? second : tiles) +
                                   (warp * Tile::kWarpRows * columns + lane / 4 +
                                    (kChannelsLast ? 0 : Tile::kMargin - dilation)) *
                                       kPixelWords +
                                   lane % 4 * 2;
    const auto compute = [&](auto batches) {
      constexpr int kBatches = decltype(batches)::value;
      float sum[2][4];
#pragma unroll
      for (int batch = 0; batch < kBatches; ++batch) {
        const int m = batch / 3;
        const int i = batch % 3;
        if (batch < kBatches - 1) {
          start(batch + 1);
          wait_for_products<1>();
        } else {
          wait_for_products<0>();
        }
        hold(taps[batch % 2]);
        if (i == 0) {
#pragma unroll
          for (int e = 0; e < 8; ++e) sum[e / 4][e % 4] = 0;
        }
        add_row_of_taps<T>(sum, taps[batch % 2], [&](int j, int p) {
          return pixels +
                 (i * dilation * columns + j * dilation + m * next_product + 8 * p) * kPixelWords;
        });
        if (i != 2) continue;

        const int me = static_cast<int>(computed_here(threadIdx.x) % kThreads);
        const int g = me / 4 % 8;
        const int row =
            place.down * Tile::kRows + me / 32 * Tile::kWarpRows + (kChannelsLast ? m : 0);
        const int column = place.across * Tile::kColumns + (kChannelsLast ? 0 : 16 * m);
        // A thread has [pixel g or g + 8][four channels, two to a word].
        const auto put = [&](int channel, const unsigned(&words)[2][2]) {
          T* const out = static_cast<T*>(a.out) + place.n * a.out_stride[0] +
                         static_cast<int64_t>(row) * geometry.out_h;
          if constexpr (kChannelsLast) {
#pragma unroll
            for (int p = 0; p < 2; ++p) {
              if (row >= height || column + g + 8 * p >= width) continue;
              *reinterpret_cast<uint2*>(out + channel + me % 4 * 4 +
                                        static_cast<int64_t>(column + g + 8 * p) * geometry.out_w) =
                  make_uint2(words[p][0], words[p][1]);
            }
          } else {
            // Four neighbouring columns of a channel: halves with the thread of the next column, of
            // which the even one gets the first channel; then a word with that of the pair of
            // columns beside it, of which the first gets the first 8 pixels.
            const bool odd = g % 2 != 0;
            const bool right = g / 2 % 2 != 0;
            T* const to = out + static_cast<int64_t>(channel + me % 4 * 2 + odd) * geometry.out_c +
                          column + 8 * right + g / 4 * 4;
            unsigned pair[2][2];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              const unsigned other = __shfl_xor_sync(0xffffffffu, words[e / 2][e % 2], 4);
              pair[e / 2][e % 2] = __byte_perm(words[e / 2][e % 2], other, odd ? 0x3276u : 0x5410u);
            }
            uint2 four[2];
#pragma unroll
            for (int c = 0; c < 2; ++c) {
              const unsigned other =
                  __shfl_xor_sync(0xffffffffu, right ? pair[0][c] : pair[1][c], 8);
              four[c] = right ? make_uint2(other, pair[1][c]) : make_uint2(pair[0][c], other);
            }
            if (row < height && column + 8 * right < width) {
              *reinterpret_cast<uint2*>(to) = four[0];
              *reinterpret_cast<uint2*>(to + int64_t{8} * geometry.out_c) = four[1];
            }
          }
        };
        put(a.output_channel + b * a.channels + first_channel,
            {{pair_of<T>(sum[0][0], sum[0][1]), pair_of<T>(sum[0][2], sum[0][3])},
             {pair_of<T>(sum[1][0], sum[1][1]), pair_of<T>(sum[1][2], sum[1][3])}});
        if (kChannelsLast && a.concat_input && turn == b) {
          const unsigned* const center =
              pixels + (dilation * columns + dilation + m * next_product) * kPixelWords;
          const auto first = *reinterpret_cast<const uint2*>(center);
          const auto eighth = *reinterpret_cast<const uint2*>(center + 8 * kPixelWords);
          put(first_channel, {{first.x, first.y}, {eighth.x, eighth.y}});
        }
        __syncwarp();  // products take whole warps
      }
    };
    // Of a plane's last columns 16 or less may be left.
    if (kChannelsLast || place.across * Tile::kColumns + 16 < width) {
      compute(std::integral_constant<int, 6>());
    } else {
      compute(std::integral_constant<int, 3>());
    }
    place = place.next(geometry.walk);
    turn += geometry.turn_step;
    if (turn >= a.branches) turn -= static_cast<int>(a.branches);
  }
  if (!kChannelsLast && threadIdx.x == 0) wait_for_stores();
}

/// Which reaches x's boxes have, and which of them each branch takes: the smallest that will do.
void choose_boxes(const GeneratedFilterArguments& a, Geometry* geometry) {
  int sorted[kMaxBranches];
  std::copy_n(a.dilation, a.branches, sorted);
  std::sort(sorted, sorted + a.branches);
  const auto distinct = static_cast<int>(std::unique(sorted, sorted + a.branches) - sorted);
  const int boxes = std::min(distinct, kBoxes);
  for (int i = 0; i < boxes; ++i) geometry->reach[i] = sorted[(i + 1) * distinct / boxes - 1];
  for (int b = 0; b < a.branches; ++b) {
    const int* const box =
        std::lower_bound(geometry->reach, geometry->reach + boxes, a.dilation[b]);
    geometry->box[b] = static_cast<unsigned char>(box - geometry->reach);
  }
  for (int i = boxes; i < kBoxes; ++i) geometry->reach[i] = geometry->reach[boxes - 1];
}

template <bool kChannelsLast>
bool encode_maps(const GeneratedFilterArguments& a, const Geometry& geometry, Maps* maps) {
  using Tile = Tiling<kChannelsLast>;
  // A dimension of one element is stepped over by nobody, but its stride is looked at.
  const auto step = [](int64_t size, int64_t stride) { return size == 1 ? int64_t{8} : stride; };
  const auto of_x = [&](int i) {
    const int64_t size[] = {a.batch, a.channels, a.height, a.width};
    return step(size[i], a.x_stride[i]);
  };
  const auto of_y = [&](int i) {
    const int64_t size[] = {a.batch, a.groups, a.source_channels, a.height, a.width};
    return step(size[i], a.y_stride[i]);
  };
  bool encoded;
  if constexpr (kChannelsLast) {
    encoded = encode_tensor_map<5>(
        &maps->y, a.type, a.y, {a.source_channels, a.width, a.height, a.groups, a.batch},
        {of_y(4), of_y(3), of_y(1), of_y(0)}, {kSource, Tile::kColumns, Tile::kWarpRows, 1, 1},
        short_rows(CU_TENSOR_MAP_SWIZZLE_128B));
  } else {
    encoded = encode_tensor_map<5>(
        &maps->y, a.type, a.y, {a.width, a.source_channels, a.height, a.groups, a.batch},
        {of_y(2), of_y(3), of_y(1), of_y(0)}, {Tile::kColumns, kSource, Tile::kWarpRows, 1, 1},
        short_rows(CU_TENSOR_MAP_SWIZZLE_64B));
  }
  for (int i = 0; i < kBoxes && encoded; ++i) {
    const int columns = Tile::columns(geometry.reach[i]);
    const int rows = Tile::rows(geometry.reach[i]);
    if constexpr (kChannelsLast) {
      encoded =
          encode_tensor_map<4>(&maps->x[i], a.type, a.x, {a.channels, a.width, a.height, a.batch},
                               {of_x(3), of_x(2), of_x(0)}, {kGroup, columns, rows, 1},
                               short_rows(CU_TENSOR_MAP_SWIZZLE_NONE));
    } else {
      const auto encode_x = [&](CUtensorMap* map, int width, CUtensorMapSwizzle swizzle) {
        return encode_tensor_map<4>(map, a.type, a.x, {a.width, a.channels, a.height, a.batch},
                                    {of_x(1), of_x(2), of_x(0)}, {width, kGroup, rows, 1},
                                    short_rows(swizzle));
      };
      encoded = encode_x(&maps->x[i], Tile::kColumns, CU_TENSOR_MAP_SWIZZLE_64B) &&
                encode_x(&maps->margin[i], Tile::kMargin, CU_TENSOR_MAP_SWIZZLE_NONE);
    }
  }
  if constexpr (!kChannelsLast) {
    encoded =
        encoded && encode_tensor_map<4>(&maps->out, a.type, a.out,
                                        {a.width, a.output_channel + a.channels, a.height, a.batch},
                                        {a.out_stride[1], a.out_stride[2], a.out_stride[0]},
                                        {Tile::kColumns, kGroup, Tile::kRows, 1},
                                        short_rows(CU_TENSOR_MAP_SWIZZLE_64B));
  }
  return encoded;
}

template <typename T, bool kChannelsLast>
cudaError_t launch(const GeneratedFilterArguments& a, cudaStream_t stream) {
  using Tile = Tiling<kChannelsLast>;
  const auto kernel = generated_filter_wgmma<T, kChannelsLast>;
  Geometry geometry{TileWalk(a.batch, a.height, a.width, Tile::kRows, Tile::kColumns)};
  Maps maps{};
  choose_boxes(a, &geometry);
  // The copy engine may not take strides that others do.
  if (!encode_maps<kChannelsLast>(a, geometry, &maps))
    return launch_generated_filter_mma(a, stream);
  const int reach = largest_dilation(a);
  geometry.tile_words = Tile::tile_words(reach);
  const int bytes =
      4 * (kMatrixWords + kBiasWords + kWarps * kStageWords + 2 * geometry.tile_words) +
      kBarrierBytes;
  DeviceFacts device;
  cudaError_t error = ask(&device);
  if (error == cudaSuccess) {
    error = allow_shared_memory(kernel, bytes);
  }
  if (error != cudaSuccess) return error;
  geometry.groups = static_cast<int>(a.channels / kGroup);
  geometry.zeros = 0x4444;
  const auto narrow = [](int64_t stride) { return static_cast<int>(stride); };
  geometry.out_c = narrow(a.out_stride[1]), geometry.out_h = narrow(a.out_stride[2]);
  geometry.out_w = narrow(a.out_stride[3]);
  // As many blocks as the multiprocessors hold at once.
  const int64_t branches_and_groups = a.branches * geometry.groups;
  const int64_t resident =
      (bytes <= kTwoBlocksBytes ? 2 : 1) * int64_t{device.processors} / branches_and_groups;
  const unsigned across = geometry.walk.share(resident);
  geometry.turn_step = static_cast<int>(across % a.branches);
  return launch_early(kernel, dim3(across, static_cast<unsigned>(branches_and_groups)), kThreads,
                      static_cast<size_t>(bytes), stream, a, geometry, maps);
}

template <typename T>
cudaError_t launch(const GeneratedFilterArguments& a, cudaStream_t stream) {
  return writes_channels_last(a) ? launch<T, true>(a, stream) : launch<T, false>(a, stream);
}

}  // namespace

bool can_run_generated_filter_wgmma(const GeneratedFilterArguments& a, std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (!can_run_generated_filter_mma(a, why) || !can_stage_generated_filter(a, why)) return false;
  const int unit = writes_channels_last(a) ? 1 : 3;
  for (int i = 0; i < 4; ++i) {
    if (i == unit ? a.out_stride[i] != 1 : a.out_stride[i] % 8 != 0) {
      return no("strides of the result are no multiples of 8");
    }
  }
  if (!aligned(a.out)) return no("result is not 16-byte aligned");
  if (largest_dilation(a) > kMostDilation) return no("dilation above 8");
  if (!current_device().is_hopper()) return no("compute capability other than 9.0");
  if (tensor_map_encoder() == nullptr) return no("a driver without tensor maps");
  return true;
}

cudaError_t launch_generated_filter_wgmma(const GeneratedFilterArguments& a, cudaStream_t stream) {
  return a.type == Type::kHalf ? launch<__half>(a, stream) : launch<__nv_bfloat16>(a, stream);
}

}  // namespace hdfnet::ops::cuda
