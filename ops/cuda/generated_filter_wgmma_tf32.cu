// generated_dynamic_filter in TF32, channels_last, K 3, on warpgroups (compute capability 9.0).
//
// The product is generated_filter_wgmma.cu's: 64 pixels are its rows and 3 taps of 16 channels its
// columns, a thread multiplies the taps of its 2 pixels and 4 channels by x and forgets them. What
// float changes: x is 16 bytes a read, the bias comes in three parts that TF32 holds exactly, and
// tiles are half as high, so that y's stage, x's tile and the weights leave room for a second block
// on a multiprocessor. y of the next tile is on its way while this one is computed; x of the next
// tile is asked for at the end, and arrives while y turns into operands and the first product runs.
//
// The order of k within a product is free: a thread's 16 bytes of y, four neighbouring channels,
// are its share of two products.
//
// FLOPs and bytes: as generated_filter_mma.cu. Figures: ops/README.md.
#include "cuda/device_facts.h"
#include "cuda/generated_filter_arguments.h"
#include "cuda/generated_filter_operands.cuh"
#include "cuda/generated_filter_wgmma_tf32.cuh"
#include "cuda/hopper.cuh"
#include "cuda/shared_limit.h"
#include "cuda/tensor_map.h"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kPixelWords = kGroup;  // of x

struct Geometry {
  int tiles_down, tiles_across;
  unsigned tiles;
  int groups;
  int across_step, down_step, batch_step;
  int x_h, x_w, y_h, y_w, out_h, out_w;
};

/// A tile of the block's walk.
struct Place {
  int across, down, n;
};

__global__ void __launch_bounds__(kThreads, 2)
    generated_filter_wgmma_tf32(const __grid_constant__ GeneratedFilterArguments a,
                                const __grid_constant__ Geometry geometry) {
  extern __shared__ __align__(1024) unsigned shared[];
  unsigned* const weights = shared;  // [2][taps * 16][32 channels], 128-byte exchange
  unsigned* const biases = weights + 2 * kHalfWords;  // [3 * 16]: kernel row i is products 8*i on
  unsigned* const stages = biases + kBiasWords;
  unsigned* const tile = stages + kThreads / 32 * kStageWords;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int g = lane / 4;     // pixels g and g + 8 of a row
  const int quad = lane % 4;  // channels 4*quad to 4*quad + 3
  unsigned* const stage = stages + warp * kStageWords;
  const int b = static_cast<int>(blockIdx.y) / geometry.groups;
  const int first_channel = static_cast<int>(blockIdx.y) % geometry.groups * kGroup;
  const int dilation = a.dilation[b];
  const int columns = kColumns + 2 * dilation;
  const int rows = kRows + 2 * dilation;
  const int height = static_cast<int>(a.height);
  const int width = static_cast<int>(a.width);
  const int source_channels = static_cast<int>(a.source_channels);

  // A channel's row of the operand within its tap: a thread's 4 channels are columns 2*quad,
  // 2*quad + 1 and 8 more.
  const auto row_of = [](int channel) {
    return channel / 2 % 2 * 8 + channel / 4 * 2 + channel % 2;
  };
  const auto fill_weights = [&] {
    // Channel 16*j + 4*q + 2*h + e of y is k = q + 4*e of product 2*j + h.
    const int channel = threadIdx.x % kSource;
    const int k = (channel / 16 * 2 + channel / 2 % 2) * 8 + channel % 2 * 4 + channel / 4 % 4;
    unsigned* const to = weights + k / kRowWords * kHalfWords;
    const int chunk = k % kRowWords / 4;
    const float* const from = static_cast<const float*>(a.weight) + b * a.weight_stride[0] +
                              static_cast<int64_t>(first_channel) * kTaps * a.weight_stride[1] +
                              channel;
    for (int i = threadIdx.x / kSource; i < kTaps * kGroup; i += kThreads / kSource) {
      const int row = i % kTaps * kGroup + row_of(i / kTaps);
      const float value = channel < source_channels ? __ldg(from + i * a.weight_stride[1]) : 0.f;
      to[row * kRowWords + (chunk ^ row % 8) * 4 + k % 4] = round_to_tf32(__float_as_uint(value));
    }
    for (int i = threadIdx.x; i < kBiasWords; i += kThreads) biases[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < kTaps * kGroup; i += kThreads) {
      if (a.bias == nullptr) break;
      const int64_t at = static_cast<int64_t>(first_channel) * kTaps + i;
      const float bias =
          static_cast<const float*>(a.bias)[b * a.bias_stride[0] + at * a.bias_stride[1]];
      const int tap = i % kTaps;
      const int row = tap % 3 * kGroup + row_of(i / kTaps);
      unsigned* const parts = biases + row * kRowWords + (tap / 3 * 2 ^ row % 8) * 4;
      split_for_tf32(bias, parts);
    }
  };

  Place next{static_cast<int>(blockIdx.x) % geometry.tiles_across,
             static_cast<int>(blockIdx.x) / geometry.tiles_across % geometry.tiles_down,
             static_cast<int>(blockIdx.x) / geometry.tiles_across / geometry.tiles_down};
  const auto copy_tile = [&] {  // 128 threads a row: a quarter of a pixel's channels each
    const int c = static_cast<int>(threadIdx.x) / 4 % 32;
    const int chunk = static_cast<int>(threadIdx.x) % 4;
    const int r = static_cast<int>(threadIdx.x) / 128;
    if (c >= columns) return;
    const int column = next.across * kColumns - dilation + c;
    const bool column_inside = static_cast<unsigned>(column) < static_cast<unsigned>(width);
    int row = next.down * kRows - dilation + r;
    const int end = next.down * kRows - dilation + rows;
    const float* from = static_cast<const float*>(a.x) + next.n * a.x_stride[0] + first_channel +
                        static_cast<int64_t>(row) * geometry.x_h +
                        static_cast<int64_t>(column) * geometry.x_w + chunk * 4;
    unsigned* to = tile + (r * columns + c) * kPixelWords + chunk * 4;
#pragma unroll 4
    for (; row < end; row += 2) {  // not read where it lies outside
      copy_async<16>(to, from,
                     column_inside && static_cast<unsigned>(row) < static_cast<unsigned>(height));
      from += int64_t{2} * geometry.x_h;
      to += 2 * columns * kPixelWords;
    }
  };
  // A warp's row of pixels; the halves of odd ones change places, so that 8 lanes read every bank.
  const auto copy_source = [&] {
    const int chunk = lane % 16;
    const int row = next.down * kRows + warp;
    const int column = next.across * kColumns + lane / 16;
    const bool real = chunk * 4 < source_channels && row < height;
    const float* from = static_cast<const float*>(a.y) + next.n * a.y_stride[0] +
                        (a.groups == 1 ? 0 : b * a.y_stride[1]) +
                        static_cast<int64_t>(row) * geometry.y_h +
                        static_cast<int64_t>(column) * geometry.y_w + chunk * 4;
    unsigned* const to = stage + lane / 16 * kSource + (chunk ^ lane / 16 * 4) * 4;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      copy_async<16>(to + 2 * i * kSource, from, real && column + 2 * i < width);
      from += int64_t{2} * geometry.y_w;
    }
  };

  if (blockIdx.x >= geometry.tiles) return;
  copy_source();
  end_copy_group();
  copy_tile();
  end_copy_group();
  fill_weights();
  publish_operands();
  __syncthreads();
  const uint64_t weight_operand = operand(weights, 1024);
  const uint64_t bias_operand = operand(biases, 1024);
  const unsigned one = quad < 3 ? __float_as_uint(1.f) : 0u;
  const unsigned ones[4] = {one, one, 0u, 0u};  // 1 at the first three of the 8 of k

  for (unsigned job = blockIdx.x; job < geometry.tiles; job += gridDim.x) {
    const Place place = next;
    wait_for_copy_groups<1>();  // y is here; x may still be under way
    __syncwarp();
    unsigned source[8][4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const auto four_of = [&](int pixel) {
        return as_operand<float>(*reinterpret_cast<const uint4*>(
            stage + pixel * kSource + ((4 * j + quad) ^ pixel % 2 * 4) * 4));
      };
      const uint4 low = four_of(g);
      const uint4 high = four_of(g + 8);
      source[2 * j][0] = low.x, source[2 * j][1] = high.x;
      source[2 * j][2] = low.y, source[2 * j][3] = high.y;
      source[2 * j + 1][0] = low.z, source[2 * j + 1][1] = high.z;
      source[2 * j + 1][2] = low.w, source[2 * j + 1][3] = high.w;
    }
    __syncwarp();
    next.across += geometry.across_step;
    next.down += geometry.down_step;
    next.n += geometry.batch_step;
    if (next.across >= geometry.tiles_across) next.across -= geometry.tiles_across, ++next.down;
    if (next.down >= geometry.tiles_down) next.down -= geometry.tiles_down, ++next.n;
    const bool more = job + gridDim.x < geometry.tiles;
    if (more) copy_source();
    end_copy_group();

    float taps[2][24];
    const auto start = [&](int i) {
      start_row_of_taps(taps[i % 2], i, ones, source, weight_operand, bias_operand);
    };
    start(0);
    wait_for_copy_groups<1>();  // x is here; y of the next tile may be under way
    __syncthreads();

    const unsigned* const pixels = tile + (warp * columns + g) * kPixelWords + 4 * quad;
    const auto x_of = [&](int i, int j, int p) {
      return *reinterpret_cast<const float4*>(
          pixels + (i * dilation * columns + j * dilation + 8 * p) * kPixelWords);
    };
    float sum[2][4] = {};
    use_taps(sum, taps, start, x_of);
    const int row = place.down * kRows + warp;
    const int column = place.across * kColumns + g;
    float* const out = static_cast<float*>(a.out) + place.n * a.out_stride[0] + first_channel +
                       4 * quad + static_cast<int64_t>(row) * geometry.out_h +
                       static_cast<int64_t>(column) * geometry.out_w;
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      if (row >= height || column + 8 * p >= width) continue;
      float* const to = out + 8 * p * geometry.out_w;
      *reinterpret_cast<float4*>(to + a.output_channel + b * a.channels) =
          make_float4(sum[p][0], sum[p][1], sum[p][2], sum[p][3]);
      if (a.concat_input && b == 0) {  // x in front of the results
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(
            pixels + (dilation * columns + dilation + 8 * p) * kPixelWords);
      }
    }
    __syncthreads();  // nobody reads the tile any more
    if (more) copy_tile();
    end_copy_group();
  }
}

int shared_bytes(const GeneratedFilterArguments& a) {
  const int reach = largest_dilation(a);
  return 4 * (2 * kHalfWords + kBiasWords + kThreads / 32 * kStageWords +
              (kRows + 2 * reach) * (kColumns + 2 * reach) * kPixelWords);
}

}  // namespace

bool can_run_generated_filter_wgmma_tf32(const GeneratedFilterArguments& a, std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (!can_run_generated_filter_mma(a, why)) return false;
  if (a.type != Type::kFloat) return no("not float");
  if (a.kernel_size != 3) return no("kernel size other than 3");
  const int unit = writes_channels_last(a) ? 1 : 3;  // the axis whose elements are neighbours
  if (a.x_stride[unit] != 1 || a.y_stride[unit + 1] != 1 || a.out_stride[unit] != 1) {
    return no("x or y is not in the result's format");
  }
  for (int i = 0; i < 5; ++i) {
    if ((i < 4 && i != unit && (a.x_stride[i] % 4 != 0 || a.out_stride[i] % 4 != 0)) ||
        (i != unit + 1 && a.y_stride[i] % 4 != 0)) {
      return no("strides of x, y or the result are no multiples of 4");
    }
  }
  if (!aligned(a.x) || !aligned(a.y) || !aligned(a.out)) {
    return no("x, y or the result is not 16-byte aligned");
  }
  if (largest_dilation(a) > kMostDilation) return no("dilation above 8");
  if (!current_device().is_hopper()) return no("compute capability other than 9.0");
  if (unit == 3 && tensor_map_encoder() == nullptr) return no("a driver without tensor maps");
  return true;
}

cudaError_t launch_generated_filter_wgmma_tf32(const GeneratedFilterArguments& a,
                                               cudaStream_t stream) {
  if (!writes_channels_last(a)) return launch_generated_filter_wgmma_tf32_planes(a, stream);
  const int bytes = shared_bytes(a);
  DeviceFacts device;
  cudaError_t error = ask(&device);
  if (error == cudaSuccess) {
    error = allow_shared_memory(generated_filter_wgmma_tf32, bytes);
  }
  if (error != cudaSuccess) return error;
  Geometry geometry{};
  geometry.tiles_down = static_cast<int>((a.height + kRows - 1) / kRows);
  geometry.tiles_across = static_cast<int>((a.width + kColumns - 1) / kColumns);
  geometry.tiles = static_cast<unsigned>(a.batch * geometry.tiles_down * geometry.tiles_across);
  geometry.groups = static_cast<int>(a.channels / kGroup);
  const auto narrow = [](int64_t stride) { return static_cast<int>(stride); };
  geometry.x_h = narrow(a.x_stride[2]), geometry.x_w = narrow(a.x_stride[3]);
  geometry.y_h = narrow(a.y_stride[3]), geometry.y_w = narrow(a.y_stride[4]);
  geometry.out_h = narrow(a.out_stride[2]), geometry.out_w = narrow(a.out_stride[3]);
  // As many blocks as the multiprocessors hold at once.
  const int64_t branches_and_groups = a.branches * geometry.groups;
  const int64_t resident =
      (bytes <= kTwoBlocksBytes ? 2 : 1) * int64_t{device.processors} / branches_and_groups;
  const int64_t across = std::clamp<int64_t>(resident, 1, geometry.tiles);
  geometry.across_step = static_cast<int>(across % geometry.tiles_across);
  geometry.down_step = static_cast<int>(across / geometry.tiles_across % geometry.tiles_down);
  geometry.batch_step = static_cast<int>(across / geometry.tiles_across / geometry.tiles_down);
  generated_filter_wgmma_tf32<<<dim3(static_cast<unsigned>(across),
                                     static_cast<unsigned>(branches_and_groups)),
                                kThreads, static_cast<size_t>(bytes), stream>>>(a, geometry);
  return cudaGetLastError();
}

}  // namespace hdfnet::ops::cuda
