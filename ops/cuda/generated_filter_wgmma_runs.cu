// generated_dynamic_filter in two-byte types, K 3, NCHW, on warpgroups (compute capability 9.0),
// for planes that are narrow enough for x's rows to stay on chip.
//
// Products as in generated_filter_wgmma.cu. A tile is a run of 256 pixels of a plane, whatever rows
// they are of: y comes as boxes whose rows are whole 128-byte lines. A block has neighbouring tiles
// of one branch and group of 16 channels, and keeps x with channels innermost in a ring of rows, a
// gap of zeros between two. With each tile come the next 256 pixels of x, which ldmatrix turns,
// once for the block; with a block's first tile of an image its whole reach comes, through
// registers. stmatrix turns results back: they go to memory 16 bytes a thread, 64 in a row.
//
// FLOPs and bytes: as generated_filter_mma.cu. Figures: ops/README.md.
#include <algorithm>
#include <type_traits>

#include "cuda/device_facts.h"
#include "cuda/early_launch.cuh"
#include "cuda/filter_words.cuh"
#include "cuda/generated_filter_wgmma.cuh"
#include "cuda/shared_limit.h"
#include "cuda/simt.cuh"
#include "cuda/tensor_map.h"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kTile = kWarps * kWarpPixels;
constexpr int kBox = 64;  // pixels: 128 bytes, a row of boxes of x and y
constexpr int kBoxes = kTile / kBox;
constexpr int kSourceWords = kSource * kBox / 2;         // of a box of y
constexpr int kInputWords = kGroup * kBox / 2;           // of x
constexpr int kScratchWords = kGroup * kWarpPixels / 2;  // of a warp
constexpr int kOctet = 8;                                // pixels that are sure to be of one row
constexpr int kPiece = 2 * kOctet;                       // that are turned at once
constexpr int kAll = -0x7fffffff;                        // below every pixel
constexpr int kTwoBlocksBytes = 113 * 1024;  // of a block that leaves room for a second one
// Of generated_filter_wgmma.cu, and rounds from which that was measured to be slower.
constexpr int kTileRows = 8, kTileColumns = 32;
constexpr int kLongCall = 6;
constexpr int kMostWidth = 1024;  // sums of int hold; the ring takes less
constexpr char kTooLong[] = "rows too long for the ring of x";

struct Maps {
  CUtensorMap x, y;
};

struct Geometry {
  HalfDivisor width, rows;  // of the plane; of the ring
  int plane;                // pixels
  int runs;                 // of a plane: tiles
  unsigned tiles;           // of a branch and group
  int groups;
  int gap, pitch;  // pixels
  int out_c;
  unsigned order;  // kSameOrder
};

/// Pixels of x before a tile and behind it, for what begins at whole sectors.
__host__ __device__ constexpr int reach_of(int dilation, int width) {
  return round_up(dilation * width + kOctet, kPiece);
}

struct Place {
  int run, n;

  __device__ __forceinline__ Place(const Geometry& geometry, unsigned tile)
      : run(static_cast<int>(tile % static_cast<unsigned>(geometry.runs))),
        n(static_cast<int>(tile / static_cast<unsigned>(geometry.runs))) {}
  __device__ __forceinline__ void advance(const Geometry& geometry) {
    if (++run == geometry.runs) run = 0, ++n;
  }
};

/// kWholePieces: rows are multiples of 16 pixels.
template <typename T, bool kWholePieces>
__global__ void __launch_bounds__(kThreads, 2)
    generated_filter_wgmma_runs(const __grid_constant__ GeneratedFilterArguments a,
                                const __grid_constant__ Geometry geometry,
                                const __grid_constant__ Maps maps) {
  extern __shared__ __align__(1024) unsigned shared[];
  unsigned* const weights = shared;
  unsigned* const biases = weights + kMatrixWords;
  unsigned* const stages = biases + kBiasWords;             // y: [box][channel][pixel]
  unsigned* const boxes = stages + kBoxes * kSourceWords;   // x: the same
  unsigned* const scratch = boxes + kBoxes * kInputWords;   // a warp's: [channel][pixel]
  unsigned* const ring = scratch + kWarps * kScratchWords;  // x: [row][column][channel]
  const int ring_rows = static_cast<int>(geometry.rows.value);
  const int ring_words = (geometry.gap + ring_rows * geometry.pitch) * kPixelWords;
  auto* const x_here = reinterpret_cast<uint64_t*>(ring + ring_words);
  uint64_t* const y_here = x_here + 1;       // of a box
  uint64_t* const y_free = y_here + kBoxes;  // when both of its warps have read it
  const int b = static_cast<int>(blockIdx.y) / geometry.groups;
  const int first_channel = static_cast<int>(blockIdx.y) % geometry.groups * kGroup;
  const int dilation = a.dilation[b];
  const int width = static_cast<int>(a.width);
  const int reach = reach_of(dilation, width);

  const auto row_of = [](int channel) { return channel; };  // that ldmatrix gives a thread
  const auto ask_for_x = [&](const Place& to_come) {
    arrive_and_expect(x_here, kBoxes * kInputWords * 4);
#pragma unroll
    for (int i = 0; i < kBoxes; ++i) {
      copy_box(boxes + i * kInputWords, &maps.x, x_here, to_come.run * kTile + reach + i * kBox,
               first_channel, to_come.n);
    }
  };
  const auto ask_for_y = [&](const Place& to_come, int box) {
    arrive_and_expect(y_here + box, kSourceWords * 4);
    copy_box(stages + box * kSourceWords, &maps.y, y_here + box, to_come.run * kTile + box * kBox,
             0, a.groups == 1 ? 0 : b, to_come.n);
  };
  const int ring_row = geometry.pitch * kPixelWords;
  // Where pixel q of the plane is, the first of 8, and those behind them. It may lie above the
  // plane.
  struct Octets {
    int at[2];
    int row[2];  // of the ring
  };
  const auto octets_at = [&](int q) {
    auto whole = static_cast<unsigned>(q + ring_rows * width);
    const int column = geometry.width.split(whole);
    Octets octets;
    octets.row[0] = octets.row[1] = geometry.rows.split(whole);
    octets.at[0] = octets.row[0] * ring_row + (geometry.gap + column) * kPixelWords;
    octets.at[1] = octets.at[0] + kOctet * kPixelWords;
    if (!kWholePieces && column + kOctet == width) {
      if (++octets.row[1] == ring_rows) octets.row[1] = 0;
      octets.at[1] = octets.row[1] * ring_row + geometry.gap * kPixelWords;
    }
    return octets;
  };
  // Turns 16 pixels from pixel q on, of which a lane's address gives 8 of channel lane % 16; those
  // before `from` have no place.
  const auto turn = [&](int q, int from, const unsigned* planes, int lane) {
    const Octets to = octets_at(q);
    unsigned four[4];  // channels 0 to 7 and 8 to 15 of 8 columns, and of 8 others
    load_matrices<true>(four, planes);
    const int mine = lane / 4 * kPixelWords + lane % 4 * 2;
    if (q >= from) *reinterpret_cast<uint2*>(ring + to.at[0] + mine) = make_uint2(four[0], four[1]);
    if (q + (kWholePieces ? 0 : kOctet) >= from) {
      *reinterpret_cast<uint2*>(ring + to.at[1] + mine) = make_uint2(four[2], four[3]);
    }
  };
  // All of x that a tile needs. For what comes from rows above the reach the ring has no room.
  const auto fill = [&](const Place& place, auto at_once) {
    constexpr int kAtOnce = decltype(at_once)::value;
    const int warp = static_cast<int>(computed_here(threadIdx.x) / 32);
    const int lane = static_cast<int>(computed_here(threadIdx.x) % 32);
    const int octet = lane / 16;
    const int channel = lane % 16;
    const int first = place.run * kTile - reach;
    constexpr int kOfTile = kTile / kPiece;
    const int pieces = kOfTile + 2 * reach / kPiece;
    auto row_above = static_cast<unsigned>(place.run * kTile);
    geometry.width.split(row_above);
    const int from_row = (static_cast<int>(row_above) - dilation) * width;
    const T* const from = static_cast<const T*>(a.x) + place.n * a.x_stride[0] +
                          (first_channel + channel) * a.x_stride[1];
    unsigned* const mine =
        scratch + warp * kScratchWords + channel * 8 + (octet ^ channel / 4 % 2) * 4;
#pragma unroll 1
    for (int piece = warp; piece < pieces; piece += kWarps * kAtOnce) {
      uint4 bits[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const int q = first + (piece + k * kWarps) * kPiece + octet * 8;
        bits[k] = make_uint4(0, 0, 0, 0);
        if (is_inside(q, geometry.plane) && piece + k * kWarps < pieces) {
          bits[k] = *reinterpret_cast<const uint4*>(from + q);
        }
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (piece + k * kWarps >= pieces) break;
        *reinterpret_cast<uint4*>(mine) = bits[k];
        __syncwarp();
        turn(first + (piece + k * kWarps) * kPiece, from_row, mine, lane);
        __syncwarp();
      }
    }
  };

  // Who asks starts the barriers; the others wait at them behind a barrier of the block.
  if (threadIdx.x == 0) {
    start_barrier(x_here, 1);
    prefetch_map(&maps.y);
    prefetch_map(&maps.x);
  }
  if (threadIdx.x % 64 == 0) {
    start_barrier(y_here + threadIdx.x / 64, 1);
    start_barrier(y_free + threadIdx.x / 64, 2);
    publish_barriers();
  }
  const int gap_words = geometry.gap * kPixelWords;
  for (int row = static_cast<int>(threadIdx.x) / 32; row <= ring_rows; row += kWarps) {
    for (int i = static_cast<int>(threadIdx.x) % 32; i < gap_words; i += 32) {
      ring[row * geometry.pitch * kPixelWords + i] = 0;
    }
  }
  const auto share = [&](unsigned block) {
    return static_cast<unsigned>(uint64_t{geometry.tiles} * block / gridDim.x);
  };
  const unsigned first_tile = share(blockIdx.x);
  const unsigned end = share(blockIdx.x + 1);
  Place place(geometry, first_tile);
  wait_for_launch_before();
  if (threadIdx.x % 64 == 0) ask_for_y(place, static_cast<int>(threadIdx.x) / 64);
  const T bias = load_bias<T>(a, b, first_channel, static_cast<int>(threadIdx.x));
  copy_weights<T, kThreads>(a, b, first_channel, weights, row_of);
  store_bias(bias, biases, static_cast<int>(threadIdx.x), row_of);
  fill(place, std::integral_constant<int, 9>());
  wait_for_copies();
  publish_operands();
  __syncthreads();
  const uint64_t weight_operand = operand(weights, 1024);
  const uint64_t bias_operand = operand(biases, 1024);
  unsigned round = 0, asked = 0;
  bool fresh = false;  // x is not at hand
#pragma unroll 1
  for (unsigned tile = first_tile; tile < end; ++tile, ++round) {
    const bool more = tile + 1 < end;
    if (!more) let_next_launch_begin();

    // From the thread's number anew, here and below: it takes fewer registers than what follows.
    const int warp = static_cast<int>(computed_here(threadIdx.x) / 32);
    const int lane = static_cast<int>(computed_here(threadIdx.x) % 32);
    // y of the warp's pixels: rows lane / 4 and 8 more of a product, 4 times 16 channels.
    wait(y_here + warp / 2, round & 1);
    unsigned source[2][4][4];
    unsigned read = 0;
    const unsigned* const stage = stages + warp / 2 * kSourceWords;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        const int octet = warp % 2 * 4 + m * 2 + lane / 8 % 2;
        const int channel = 16 * s + lane / 16 * 8 + lane % 8;
        load_matrices<true>(source[m][s], stage + channel * (kBox / 2) + (octet ^ channel % 8) * 4);
        read |= source[m][s][0];
      }
    }
    if (lane == 0) arrive_after(y_free + warp / 2, __uint_as_float(read), geometry.order);

    // Batch 3*m + i: kernel row i of pixels 16*m on.
    float taps[2][24];
    const auto start = [&](int batch) {
      unsigned ones[4];
      one_times<T>(ones, static_cast<int>(computed_here(threadIdx.x) % 32));
      start_taps<T>(taps[batch % 2], ones, source[batch / 3], weight_operand, bias_operand,
                    batch % 3);
    };
    __syncwarp();
    start(0);
    Place next = place;
    next.advance(geometry);
    if (more && lane == 0 && warp % 2 == 0) {
      wait(y_free + warp / 2, round & 1);
      ask_for_y(next, warp / 2);
    }
    __syncthreads();  // nobody uses the ring before any more
    if (fresh) {
      fill(place, std::integral_constant<int, 5>());
    } else if (round > 0) {
      wait(x_here, asked++ & 1);
#pragma unroll
      for (int k = 0; k < kTile / kPiece / kWarps; ++k) {
        const int piece = computed_here(threadIdx.x) / 32 + k * kWarps;
        const int channel = lane % 16;
        const int octet = piece % (kBox / kPiece) * 2 + lane / 16;
        turn(place.run * kTile + reach + piece * kPiece, kAll,
             boxes + piece / (kBox / kPiece) * kInputWords + channel * (kBox / 2) +
                 (octet ^ channel % 8) * 4,
             lane);
      }
    }
    fresh = next.run == 0;
    __syncthreads();
    if (more && !fresh && threadIdx.x == 0) ask_for_x(next);
    __syncwarp();

    unsigned* const results = scratch + warp * kScratchWords;
    const auto keep_results = [&](int m, const unsigned(&words)[4]) {
      const int me = static_cast<int>(computed_here(threadIdx.x) % 32);
      const int channel = me / 16 * 8 + me % 8;
      const int octet = m * 2 + me / 8 % 2;
      store_matrices(words, results + channel * (kWarpPixels / 2) + (octet ^ channel / 2 % 4) * 4);
    };
    // A lane has 8 pixels of a channel, and of one 8 channels on.
    const auto put = [&](int channel) {
      __syncwarp();
      const int me = static_cast<int>(computed_here(threadIdx.x) % 32);
      const int pixel =
          place.run * kTile + static_cast<int>(computed_here(threadIdx.x) / 32) * 32 + me % 4 * 8;
      T* const to = static_cast<T*>(a.out) + place.n * a.out_stride[0] +
                    static_cast<int64_t>(channel + me / 4) * geometry.out_c + pixel;
      const unsigned* const from = results + me / 4 * (kWarpPixels / 2) + (me % 4 ^ me / 8) * 4;
      const auto low = *reinterpret_cast<const uint4*>(from);
      const auto high = *reinterpret_cast<const uint4*>(from + 8 * (kWarpPixels / 2));
      if (pixel < geometry.plane) {
        *reinterpret_cast<uint4*>(to) = low;
        *reinterpret_cast<uint4*>(to + int64_t{8} * geometry.out_c) = high;
      }
      __syncwarp();
    };
    const int ring_step = dilation * ring_row;
    // x at the first tap of 16 pixels.
    const auto first_tap = [&](int m) {
      Octets octets = octets_at(
          place.run * kTile + (static_cast<int>(computed_here(threadIdx.x) / 32) * 2 + m) * kPiece -
          dilation * width);
      const int me = static_cast<int>(computed_here(threadIdx.x) % 32);
      const int mine = (me / 4 - dilation) * kPixelWords + me % 4 * 2;
#pragma unroll
      for (int p = 0; p < 2; ++p) octets.at[p] += mine;
      return octets;
    };
    // The same of the next kernel row.
    const auto next_row = [&](Octets& octets) {
#pragma unroll
      for (int p = 0; p < (kWholePieces ? 1 : 2); ++p) {
        octets.at[p] += ring_step;
        octets.row[p] += dilation;
        if (octets.row[p] >= ring_rows) {
          octets.row[p] -= ring_rows;
          octets.at[p] -= ring_rows * ring_row;
        }
      }
      if (kWholePieces) octets.at[1] = octets.at[0] + kOctet * kPixelWords;
    };
    float sum[2][4];
    Octets pixels;
#pragma unroll
    for (int batch = 0; batch < 6; ++batch) {
      const int m = batch / 3;
      const int i = batch % 3;
      if (batch < 5) {
        start(batch + 1);
        wait_for_products<1>();
      } else {
        wait_for_products<0>();
      }
      hold(taps[batch % 2]);
      if (i == 0) {
        pixels = first_tap(m);
#pragma unroll
        for (int e = 0; e < 8; ++e) sum[e / 4][e % 4] = 0;
      }
      add_row_of_taps<T>(sum, taps[batch % 2], [&](int j, int p) {
        return ring + pixels.at[p] + j * dilation * kPixelWords;
      });
      if (i < 2) {
        next_row(pixels);
        continue;
      }
      keep_results(m, {pair_of<T>(sum[0][0], sum[0][1]), pair_of<T>(sum[1][0], sum[1][1]),
                       pair_of<T>(sum[0][2], sum[0][3]), pair_of<T>(sum[1][2], sum[1][3])});
    }
    put(static_cast<int>(a.output_channel + b * a.channels) + first_channel);
    // All branches have x at hand, and take turns to copy it in front of the results.
    if (a.concat_input && tile % static_cast<unsigned>(a.branches) == static_cast<unsigned>(b)) {
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        pixels = first_tap(m);
        next_row(pixels);
        const int center = dilation * kPixelWords;
        const auto first = *reinterpret_cast<const uint2*>(ring + pixels.at[0] + center);
        const auto eighth = *reinterpret_cast<const uint2*>(ring + pixels.at[1] + center);
        keep_results(m, {first.x, eighth.x, first.y, eighth.y});
      }
      put(first_channel);
    }
    place = next;
  }
}

/// How many rows of x the ring needs: from the reach above a tile's first row to the last row that
/// comes with a tile, when its first pixel is the last of a row that one can be.
int rows_of_ring(const GeneratedFilterArguments& a) {
  const int width = static_cast<int>(a.width);
  const int dilation = largest_dilation(a);
  return dilation + (width - kOctet + kTile + reach_of(dilation, width) - kOctet) / width + 1;
}

int shared_bytes(const GeneratedFilterArguments& a) {
  const int gap = largest_dilation(a);
  const int ring = (gap + rows_of_ring(a) * (static_cast<int>(a.width) + gap)) * kPixelWords;
  return 4 * (kMatrixWords + kBiasWords + kBoxes * (kSourceWords + kInputWords) +
              kWarps * kScratchWords + ring) +
         (1 + 2 * kBoxes) * static_cast<int>(sizeof(uint64_t));
}

/// Of each branch and group of channels.
int64_t resident_blocks(const GeneratedFilterArguments& a, int processors) {
  return 2 * int64_t{processors} / (a.branches * (a.channels / kGroup));
}

bool encode_maps(const GeneratedFilterArguments& a, Maps* maps) {
  // A dimension of one element is stepped over by nobody, but its stride is looked at.
  const auto step = [](int64_t size, int64_t stride) { return size == 1 ? int64_t{8} : stride; };
  const int64_t plane = a.height * a.width;
  return encode_tensor_map<3>(&maps->x, a.type, a.x, {plane, a.channels, a.batch},
                              {step(a.channels, a.x_stride[1]), step(a.batch, a.x_stride[0])},
                              {kBox, kGroup, 1}, short_rows(CU_TENSOR_MAP_SWIZZLE_128B)) &&
         encode_tensor_map<4>(&maps->y, a.type, a.y, {plane, a.source_channels, a.groups, a.batch},
                              {step(a.source_channels, a.y_stride[2]),
                               step(a.groups, a.y_stride[1]), step(a.batch, a.y_stride[0])},
                              {kBox, kSource, 1, 1}, short_rows(CU_TENSOR_MAP_SWIZZLE_128B));
}

template <typename T>
cudaError_t launch(const GeneratedFilterArguments& a, cudaStream_t stream) {
  const auto kernel = a.width % kPiece == 0 ? &generated_filter_wgmma_runs<T, true>
                                            : &generated_filter_wgmma_runs<T, false>;
  Maps maps{};
  if (!encode_maps(a, &maps)) return launch_generated_filter_mma(a, stream);
  const int plane = static_cast<int>(a.height * a.width);
  Geometry geometry{HalfDivisor(a.width), HalfDivisor(rows_of_ring(a))};
  geometry.plane = plane;
  geometry.runs = static_cast<int>(ceil_div(plane, kTile));
  geometry.tiles = static_cast<unsigned>(a.batch * geometry.runs);
  geometry.groups = static_cast<int>(a.channels / kGroup);
  geometry.gap = largest_dilation(a);
  geometry.pitch = static_cast<int>(a.width) + geometry.gap;
  geometry.out_c = static_cast<int>(a.out_stride[1]);
  geometry.order = kSameOrder;
  const int bytes = shared_bytes(a);
  DeviceFacts device;
  cudaError_t error = ask(&device);
  if (error == cudaSuccess) error = allow_shared_memory(kernel, bytes);
  if (error != cudaSuccess) return error;
  const auto across = static_cast<unsigned>(
      std::clamp<int64_t>(resident_blocks(a, device.processors), 1, geometry.tiles));
  return launch_early(kernel, dim3(across, static_cast<unsigned>(a.branches * geometry.groups)),
                      kThreads, static_cast<size_t>(bytes), stream, a, geometry, maps);
}

}  // namespace

bool generated_filter_runs_pay(const GeneratedFilterArguments& a, std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  const int processors = current_device().processors;
  const int64_t rectangles =
      a.batch * ceil_div(a.height, kTileRows) * ceil_div(a.width, kTileColumns);
  if (a.width % kPiece != 0) {  // boxes of which little lies inside
    return rectangles * a.branches * (a.channels / kGroup) * 4 > int64_t{processors} * 3 ||
           no("tiles for less than 3/4 of the card");
  }
  const int64_t blocks = std::max<int64_t>(resident_blocks(a, processors), 1);
  const int64_t rounds = ceil_div(a.batch * ceil_div(a.height * a.width, kTile), blocks);
  return rounds >= kLongCall || rounds < ceil_div(rectangles, blocks) ||
         no("few rounds of tiles, and no fewer than of rectangles");
}

bool can_run_generated_filter_wgmma_runs(const GeneratedFilterArguments& a, std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (!can_run_generated_filter_wgmma(a, why)) return false;
  if (writes_channels_last(a)) return no("a result in channels_last");
  if (a.width % kOctet != 0) return no("rows that are no multiple of 8 pixels");
  if (a.width > kMostWidth) return no(kTooLong);
  const auto whole = [&](int64_t row_stride) { return a.height == 1 || row_stride == a.width; };
  if (!whole(a.x_stride[2]) || !whole(a.y_stride[3]) || !whole(a.out_stride[2])) {
    return no("rows of x, y or the result do not follow one another");
  }
  if (a.height * a.width > (int64_t{1} << 30)) return no("plane of more than 2^30 pixels");
  if (shared_bytes(a) > kTwoBlocksBytes) return no(kTooLong);
  return true;
}

cudaError_t launch_generated_filter_wgmma_runs(const GeneratedFilterArguments& a,
                                               cudaStream_t stream) {
  return a.type == Type::kHalf ? launch<__half>(a, stream) : launch<__nv_bfloat16>(a, stream);
}

}  // namespace hdfnet::ops::cuda
