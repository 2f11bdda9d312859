// generated_dynamic_filter in two-byte types, K 3, on warpgroups (compute capability 9.0).
//
// taps = y * weight^T: 64 pixels are the rows of a product (y in registers, 16 pixels a warp), 3
// taps of 16 channels its 48 columns, so that a thread holds all 9 taps of its 2 pixels and 4
// channels: it multiplies them by x and forgets them. Against generated_filter_mma.cu: weights are
// read from shared memory once for 64 pixels, not for 32, and by the tensor cores themselves; x is
// 8 bytes a read; a kernel row's product runs while the one before meets x. The bias is a fifth
// product: one times the bias, which two-byte types hold exactly.
//
// Block: 8 warps, tiles of 16 x 16 pixels of one branch and group of 16 channels. The copies are as
// in generated_filter_mma.cu: y to a stage of each warp, x with its halo to one of two tiles. NCHW:
// x comes as planes, and ldmatrix turns it into a tile with channels innermost, once for 9 taps;
// threads exchange halves of their results to write two columns at a time.
//
// FLOPs and bytes: as generated_filter_mma.cu. Figures: ops/README.md.
#include "cuda/device_facts.h"
#include "cuda/generated_filter_arguments.h"
#include "cuda/generated_filter_operands.cuh"
#include "cuda/hopper.cuh"
#include "cuda/shared_limit.h"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 16;   // columns and rows of a tile
constexpr int kGroup = 16;  // channels of a block
constexpr int kTaps = 9;
constexpr int kRowWords = 32;  // 64 channels of y
constexpr int kMatrixWords = kTaps * kGroup * kRowWords;
constexpr int kStageWords = 32 * kRowWords;  // 32 pixels of a warp
constexpr int kPixelWords = 8;               // 16 channels of x
constexpr int kBiasWords = 3 * kGroup * kRowWords;
constexpr int kMostDilation = 8;             // 32 columns with the halo, which 64 threads copy
constexpr int kTwoBlocksBytes = 113 * 1024;  // of a block that leaves room for a second one

struct Geometry {
  int tiles_down, tiles_across;
  unsigned tiles;
  int groups;
  int tile_words;
  int across_step, down_step, batch_step;
  int x_c, x_h, x_w, y_c, y_h, y_w, out_c, out_h, out_w;
};

/// Of a channel of x's planes: rows of 32 columns, 8 channels in separate banks.
__host__ __device__ constexpr int plane_words(int rows) {
  return rows * 16 + 4;
}

template <typename T, bool kChannelsLast>
__global__ void __launch_bounds__(kThreads, 2)
    generated_filter_wgmma(const __grid_constant__ GeneratedFilterArguments a,
                           const __grid_constant__ Geometry geometry) {
  extern __shared__ __align__(1024) unsigned shared[];
  unsigned* const weights = shared;  // [taps * 16][64 channels], 128-byte exchange
  unsigned* const biases =
      weights + kMatrixWords;  // [3 * 16][..]: kernel row i is products 16*i on
  unsigned* const stages = biases + kBiasWords;
  unsigned* const tiles = stages + kThreads / 32 * kStageWords;  // two, or one and x's planes
  unsigned* const planes = tiles + geometry.tile_words;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int g = lane / 4;     // pixels g and g + 8 of a row
  const int quad = lane % 4;  // channels 4*quad to 4*quad + 3
  unsigned* const stage = stages + warp * kStageWords;
  const int b = static_cast<int>(blockIdx.y) / geometry.groups;
  const int first_channel = static_cast<int>(blockIdx.y) % geometry.groups * kGroup;
  const int dilation = a.dilation[b];
  const int columns = kTile + 2 * dilation;
  const int rows = kTile + 2 * dilation;
  const int height = static_cast<int>(a.height);
  const int width = static_cast<int>(a.width);
  const int source_channels = static_cast<int>(a.source_channels);

  // A channel's row of the operand within its tap: a thread's 4 channels are columns 2*quad,
  // 2*quad + 1 and 8 more.
  const auto row_of = [](int channel) {
    return channel / 2 % 2 * 8 + channel / 4 * 2 + channel % 2;
  };
  const auto copy_weights = [&] {
    const int chunk = threadIdx.x % 8;
    const bool real = chunk * 8 < source_channels;
    const T* const from = static_cast<const T*>(a.weight) + b * a.weight_stride[0] +
                          static_cast<int64_t>(first_channel) * kTaps * a.weight_stride[1] +
                          (real ? chunk * 8 : 0);
    for (int i = threadIdx.x / 8; i < kTaps * kGroup; i += kThreads / 8) {
      const int row = i % kTaps * kGroup + row_of(i / kTaps);
      copy_async<16>(weights + row * kRowWords + (chunk ^ row % 8) * 4,
                     from + i * a.weight_stride[1], real);
    }
    for (int i = threadIdx.x; i < kTaps * kGroup; i += kThreads) {
      const int tap = i % kTaps;
      const int row = tap % 3 * kGroup + row_of(i / kTaps);
      const T* const bias = static_cast<const T*>(a.bias);
      const int64_t at = static_cast<int64_t>(first_channel) * kTaps + i;
      const T pair[2] = {
          a.bias == nullptr ? from_sum<T>(0.f) : bias[b * a.bias_stride[0] + at * a.bias_stride[1]],
          from_sum<T>(0.f)};
      for (int word = 0; word < 8; ++word) {
        biases[row * kRowWords + ((tap / 3 * 2 + word / 4) ^ row % 8) * 4 + word % 4] =
            word == 0 ? *reinterpret_cast<const unsigned*>(pair) : 0u;
      }
    }
  };

  struct {
    int across, down, n;
  } next{static_cast<int>(blockIdx.x) % geometry.tiles_across,
         static_cast<int>(blockIdx.x) / geometry.tiles_across % geometry.tiles_down,
         static_cast<int>(blockIdx.x) / geometry.tiles_across / geometry.tiles_down};
  const auto copy_tile = [&](unsigned* tile) {
    if constexpr (!kChannelsLast) {  // 16 threads a channel, 4 pieces of 8 columns a row
      const int channel = static_cast<int>(threadIdx.x) / 16;
      const int piece = static_cast<int>(threadIdx.x) % 4;
      const int column = next.across * kTile - 8 + piece * 8;
      const bool column_inside = static_cast<unsigned>(column) < static_cast<unsigned>(width);
      const T* const plane = static_cast<const T*>(a.x) + next.n * a.x_stride[0] +
                             static_cast<int64_t>(first_channel + channel) * geometry.x_c + column;
      for (int r = static_cast<int>(threadIdx.x) / 4 % 4; r < rows; r += 4) {
        const int row = next.down * kTile - dilation + r;
        copy_async<16>(planes + channel * plane_words(rows) + r * 16 + piece * 4,
                       plane + static_cast<int64_t>(row) * geometry.x_h,
                       column_inside && static_cast<unsigned>(row) < static_cast<unsigned>(height));
      }
      return;
    }
    // 64 threads a row: half of a pixel's channels each
    const int c = static_cast<int>(threadIdx.x) / 2 % 32;
    const int chunk = static_cast<int>(threadIdx.x) % 2;
    const int r = static_cast<int>(threadIdx.x) / 64;
    if (c >= columns) return;
    const int column = next.across * kTile - dilation + c;
    const bool column_inside = static_cast<unsigned>(column) < static_cast<unsigned>(width);
    int row = next.down * kTile - dilation + r;
    const int end = next.down * kTile - dilation + rows;
    const T* from = static_cast<const T*>(a.x) + next.n * a.x_stride[0] + first_channel +
                    static_cast<int64_t>(row) * geometry.x_h + column * geometry.x_w + chunk * 8;
    unsigned* to = tile + (r * columns + c) * kPixelWords + chunk * 4;
#pragma unroll 4
    for (; row < end; row += 4) {  // not read where it lies outside
      copy_async<16>(to, from,
                     column_inside && static_cast<unsigned>(row) < static_cast<unsigned>(height));
      from += int64_t{4} * geometry.x_h;
      to += 4 * columns * kPixelWords;
    }
  };
  [[maybe_unused]] const auto turn_planes = [&] {
    for (int job = warp; job < 2 * rows; job += kThreads / 32) {
      const int r = job / 2;
      const int octet = job % 2 * 2;  // of columns, and the one after it
      unsigned four[4];               // channels 0 to 7 and 8 to 15 of each
      load_matrices<true>(four, planes + (lane / 8 % 2 * 8 + lane % 8) * plane_words(rows) +
                                    r * 16 + (octet + lane / 16) * 4);
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const int column = (octet + q / 2) * 8 + g - 8 + dilation;
        if (column >= 0 && column < columns) {
          tiles[(r * columns + column) * kPixelWords + q % 2 * 4 + quad] = four[q];
        }
      }
    }
  };
  const auto copy_source = [&] {
    if constexpr (!kChannelsLast) {  // a piece is 8 pixels of a channel
      const int half = lane % 2;
      const int row = next.down * kTile + warp * 2;
      const int column = next.across * kTile + half * 8;
      const T* const y = static_cast<const T*>(a.y) + next.n * a.y_stride[0] +
                         (a.groups == 1 ? 0 : b * a.y_stride[1]) +
                         static_cast<int64_t>(row) * geometry.y_h + column +
                         static_cast<int64_t>(lane / 2) * geometry.y_c;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int channel = lane / 2 + i % 4 * 16;
        copy_async<16>(stage + ((i / 4 * 2 + half) * 64 + channel) * 4,
                       y + i / 4 * geometry.y_h + static_cast<int64_t>(i % 4 * 16) * geometry.y_c,
                       column < width && row + i / 4 < height && channel < source_channels);
      }
      return;
    }
    const int chunk = lane % 8;
    const int row0 = next.down * kTile + warp * 2;
    const int column = next.across * kTile + lane / 8;
    const bool real = chunk * 8 < source_channels;
    const T* from = static_cast<const T*>(a.y) + next.n * a.y_stride[0] +
                    (a.groups == 1 ? 0 : b * a.y_stride[1]) +
                    static_cast<int64_t>(row0) * geometry.y_h +
                    static_cast<int64_t>(column) * geometry.y_w + chunk * 8;
    const int64_t step = int64_t{4} * geometry.y_w;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i == 4) from += geometry.y_h - 4 * step;
      const int pixel = lane / 8 + 4 * i;
      copy_async<16>(stage + pixel * kRowWords + (chunk ^ pixel % 8) * 4, from,
                     real && row0 + i / 4 < height && column + i % 4 * 4 < width);
      from += step;
    }
  };

  if (blockIdx.x >= geometry.tiles) return;
  copy_weights();
  copy_tile(tiles);
  copy_source();
  wait_for_copies();
  publish_operands();  // the loop's first barrier follows
  const uint64_t weight_operand = operand(weights, 1024);
  const uint64_t bias_operand = operand(biases, 1024);
  const T one_pair[2] = {from_sum<T>(1.f), from_sum<T>(0.f)};
  const unsigned one = quad == 0 ? *reinterpret_cast<const unsigned*>(one_pair) : 0u;
  const unsigned ones[4] = {one, one, 0u, 0u};  // 1 at the first of the 16 of k

  int buffer = 0;
  for (unsigned job = blockIdx.x; job < geometry.tiles; job += gridDim.x, buffer ^= 1) {
    const auto place = next;
    wait_for_copies();
    __syncthreads();  // this tile's x and y are here; nobody uses the one before any more

    // y of the warp's two rows of pixels: rows g and g + 8 of a product, 4 times 16 channels.
    unsigned source[2][4][4];
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
          load_matrices<true>(source[m][s], stage + (octet * 64 + channel) * 4);
        }
      }
    }
    __syncwarp();
    if constexpr (!kChannelsLast) {
      turn_planes();
      __syncthreads();
    }
    next.across += geometry.across_step;
    next.down += geometry.down_step;
    next.n += geometry.batch_step;
    if (next.across >= geometry.tiles_across) next.across -= geometry.tiles_across, ++next.down;
    if (next.down >= geometry.tiles_down) next.down -= geometry.tiles_down, ++next.n;
    if (job + gridDim.x < geometry.tiles) {
      copy_tile(tiles + (buffer ^ 1) * geometry.tile_words);
      copy_source();
    }

    // Batch 3*m + i: kernel row i of pixel row m.
    float taps[2][24];
    const auto start = [&](int batch) {
      const int m = batch / 3;
      const uint64_t offset = static_cast<uint64_t>(batch % 3) * (3 * kGroup * 128 / 16);
      begin_products();
      multiply_add(taps[batch % 2], ones, bias_operand + 2 * (batch % 3), 0, T());
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        multiply_add(taps[batch % 2], source[m][s], weight_operand + offset + 2 * s, 1, T());
      }
      commit_products();
    };
    const unsigned* const pixels = tiles + (kChannelsLast ? buffer * geometry.tile_words : 0) +
                                   (warp * 2 * columns + g) * kPixelWords + 2 * quad;
    const int row0 = place.down * kTile + warp * 2;
    const int column0 = place.across * kTile + g;
    const int channel0 = a.output_channel + b * a.channels + first_channel + 4 * quad;
    T* const out = static_cast<T*>(a.out) + place.n * a.out_stride[0] +
                   static_cast<int64_t>(channel0) * geometry.out_c +
                   static_cast<int64_t>(row0) * geometry.out_h +
                   static_cast<int64_t>(column0) * geometry.out_w;
    // Writes four channels of a pixel, two to a word. NCHW: threads of neighbouring columns
    // exchange halves first; the even one writes both columns of the first channel, the odd one of
    // the second.
    const auto put = [&](T* to, bool inside, unsigned first, unsigned second) {
      if constexpr (kChannelsLast) {
        if (inside) {
          reinterpret_cast<unsigned*>(to)[0] = first;
          reinterpret_cast<unsigned*>(to)[1] = second;
        }
      } else {
        const unsigned other_first = __shfl_xor_sync(0xffffffffu, first, 4);
        const unsigned other_second = __shfl_xor_sync(0xffffffffu, second, 4);
        const unsigned selector = g % 2 == 0 ? 0x5410u : 0x3276u;
        if (inside) {
          T* const at = to + g % 2 * (static_cast<int64_t>(geometry.out_c) - 1);
          *reinterpret_cast<unsigned*>(at) = __byte_perm(first, other_first, selector);
          *reinterpret_cast<unsigned*>(at + int64_t{2} * geometry.out_c) =
              __byte_perm(second, other_second, selector);
        }
      }
    };
    const auto pair_of = [](float low, float high) {
      const T pair[2] = {from_sum<T>(low), from_sum<T>(high)};
      return *reinterpret_cast<const unsigned*>(pair);
    };
    float sum[2][4];
    __syncwarp();
    start(0);
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
      float(&tap)[24] = taps[batch % 2];
      hold(tap);
      if (i == 0) {
#pragma unroll
        for (int e = 0; e < 8; ++e) sum[e / 4][e % 4] = 0;
      }
#pragma unroll
      for (int j = 0; j < 3; ++j) {
#pragma unroll
        for (int p = 0; p < 2; ++p) {
          const uint2 bits = *reinterpret_cast<const uint2*>(
              pixels + ((m + i * dilation) * columns + j * dilation + 8 * p) * kPixelWords);
          const float2 low = load_pair(&bits.x, T());
          const float2 high = load_pair(&bits.y, T());
          sum[p][0] = fmaf(tap[8 * j + 2 * p], low.x, sum[p][0]);
          sum[p][1] = fmaf(tap[8 * j + 2 * p + 1], low.y, sum[p][1]);
          sum[p][2] = fmaf(tap[8 * j + 4 + 2 * p], high.x, sum[p][2]);
          sum[p][3] = fmaf(tap[8 * j + 4 + 2 * p + 1], high.y, sum[p][3]);
        }
      }
      if (i == 2 && row0 + m < height) {
#pragma unroll
        for (int p = 0; p < 2; ++p) {
          const bool inside = column0 + 8 * p < width;
          T* const to = out + m * geometry.out_h + 8 * p * geometry.out_w;
          put(to, inside, pair_of(sum[p][0], sum[p][1]), pair_of(sum[p][2], sum[p][3]));
          if (a.concat_input && b == 0) {  // x in front of the results
            const uint2 bits = *reinterpret_cast<const uint2*>(
                pixels + ((m + dilation) * columns + dilation + 8 * p) * kPixelWords);
            put(to - a.output_channel * geometry.out_c, inside, bits.x, bits.y);
          }
        }
        __syncwarp();  // products take whole warps
      }
    }
  }
}

int tile_words(const GeneratedFilterArguments& a) {
  const int side = kTile + 2 * largest_dilation(a);
  return side * side * kPixelWords;
}

int shared_bytes(const GeneratedFilterArguments& a) {
  const int second = writes_channels_last(a)
                         ? tile_words(a)
                         : kGroup * plane_words(kTile + 2 * largest_dilation(a));
  return 4 * (kMatrixWords + kBiasWords + kThreads / 32 * kStageWords + tile_words(a) + second);
}

template <typename T, bool kChannelsLast>
cudaError_t launch(const GeneratedFilterArguments& a, cudaStream_t stream) {
  const auto kernel = generated_filter_wgmma<T, kChannelsLast>;
  const int bytes = shared_bytes(a);
  DeviceFacts device;
  cudaError_t error = ask(&device);
  if (error == cudaSuccess) {
    error = allow_shared_memory(kernel, bytes);
  }
  if (error != cudaSuccess) return error;
  Geometry geometry{};
  geometry.tiles_down = static_cast<int>((a.height + kTile - 1) / kTile);
  geometry.tiles_across = static_cast<int>((a.width + kTile - 1) / kTile);
  geometry.tiles = static_cast<unsigned>(a.batch * geometry.tiles_down * geometry.tiles_across);
  geometry.groups = static_cast<int>(a.channels / kGroup);
  geometry.tile_words = tile_words(a);
  const auto narrow = [](int64_t stride) { return static_cast<int>(stride); };
  geometry.x_c = narrow(a.x_stride[1]), geometry.x_h = narrow(a.x_stride[2]);
  geometry.x_w = narrow(a.x_stride[3]), geometry.y_c = narrow(a.y_stride[2]);
  geometry.y_h = narrow(a.y_stride[3]), geometry.y_w = narrow(a.y_stride[4]);
  geometry.out_c = narrow(a.out_stride[1]), geometry.out_h = narrow(a.out_stride[2]);
  geometry.out_w = narrow(a.out_stride[3]);
  // As many blocks as the multiprocessors hold at once.
  const int64_t branches_and_groups = a.branches * geometry.groups;
  const int64_t resident =
      (bytes <= kTwoBlocksBytes ? 2 : 1) * int64_t{device.processors} / branches_and_groups;
  const int64_t across = std::clamp<int64_t>(resident, 1, geometry.tiles);
  geometry.across_step = static_cast<int>(across % geometry.tiles_across);
  geometry.down_step = static_cast<int>(across / geometry.tiles_across % geometry.tiles_down);
  geometry.batch_step = static_cast<int>(across / geometry.tiles_across / geometry.tiles_down);
  kernel<<<dim3(static_cast<unsigned>(across), static_cast<unsigned>(branches_and_groups)),
           kThreads, bytes, stream>>>(a, geometry);
  return cudaGetLastError();
}

}  // namespace

bool can_run_generated_filter_wgmma(const GeneratedFilterArguments& a, std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (!can_run_generated_filter_mma(a, why) || !can_stage_generated_filter(a, why)) return false;
  if (!writes_channels_last(a) &&
      (a.out_stride[3] != 1 || a.out_stride[0] % 2 != 0 || a.out_stride[1] % 2 != 0 ||
       a.out_stride[2] % 2 != 0 || reinterpret_cast<uintptr_t>(a.out) % 4 != 0)) {
    return no("result cannot be written two columns at a time");
  }
  if (largest_dilation(a) > kMostDilation) return no("dilation above 8");
  if (!current_device().is_hopper()) return no("compute capability other than 9.0");
  return true;
}

cudaError_t launch_generated_filter_wgmma(const GeneratedFilterArguments& a, cudaStream_t stream) {
  if (writes_channels_last(a)) {
    return a.type == Type::kHalf ? launch<__half, true>(a, stream)
                                 : launch<__nv_bfloat16, true>(a, stream);
  }
  return a.type == Type::kHalf ? launch<__half, false>(a, stream)
                               : launch<__nv_bfloat16, false>(a, stream);
}

}  // namespace hdfnet::ops::cuda
