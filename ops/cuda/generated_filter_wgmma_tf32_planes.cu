// generated_dynamic_filter in TF32, NCHW, K 3, on warpgroups (compute capability 9.0).
//
// As generated_filter_wgmma_tf32.cu, with y and x as planes: the copy engine fetches boxes of them,
// x with 8 columns on either side, so that boxes begin at whole 16 bytes. Threads read single
// elements where they lie: the engine's exchange of 16-byte pieces puts what a warp reads at a
// time, 8 columns of 4 channels, in 32 banks. y of the next tile is on its way while this one is
// computed; x of the next tile is asked for at the end, and arrives while y turns into operands and
// the first product runs.
//
// FLOPs and bytes: as generated_filter_mma.cu. Figures: ops/README.md.
#include "cuda/device_facts.h"
#include "cuda/generated_filter_arguments.h"
#include "cuda/generated_filter_operands.cuh"
#include "cuda/generated_filter_wgmma_tf32.cuh"
#include "cuda/hopper.cuh"
#include "cuda/shared_limit.h"
#include "cuda/simt.cuh"
#include "cuda/tensor_map.h"
#include "cuda/tile_walk.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kMargin = kMostDilation;  // columns on either side
constexpr int kBoxColumns = kColumns + 2 * kMargin;
constexpr int kBoxRowWords = kGroup * kBoxColumns;
constexpr int kBarrierBytes = (1 + kThreads / 32) * static_cast<int>(sizeof(uint64_t));

struct Geometry {
  TileWalk walk;
  int groups;
  int out_c, out_h;
  int reach;       // of x's box
  unsigned zeros;  // __byte_perm's selector of four bytes of its second word
};

struct Maps {
  CUtensorMap x, y;
};

__global__ void __launch_bounds__(kThreads, 2)
    generated_filter_wgmma_tf32_planes(const __grid_constant__ GeneratedFilterArguments a,
                                       const __grid_constant__ Geometry geometry,
                                       const __grid_constant__ Maps maps) {
  extern __shared__ __align__(1024) unsigned shared[];
  unsigned* const weights = shared;  // [2][taps * 16][32 channels], 128-byte exchange
  unsigned* const biases = weights + 2 * kHalfWords;  // [3 * 16]: kernel row i is products 8*i on
  unsigned* const stages = biases + kBiasWords;
  unsigned* const tile = stages + kThreads / 32 * kStageWords;
  auto* const x_here =
      reinterpret_cast<uint64_t*>(tile + (kRows + 2 * geometry.reach) * kBoxRowWords);
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  uint64_t* const y_here = x_here + 1 + warp;
  const int b = static_cast<int>(blockIdx.y) / geometry.groups;
  const int first_channel = static_cast<int>(blockIdx.y) % geometry.groups * kGroup;
  const int dilation = a.dilation[b];
  const int height = static_cast<int>(a.height);
  const int width = static_cast<int>(a.width);

  const auto fill_operands = [&] {
    // Channels 0, 1, 4, 5, 2, 3, 6, 7 of 8 are k 0 to 7, so that each 4 lie in different banks.
    const int channel = static_cast<int>(threadIdx.x) % kSource;
    const int k = channel / 8 * 8 + channel % 2 + channel / 4 % 2 * 2 + channel / 2 % 2 * 4;
    const bool real = channel < static_cast<int>(a.source_channels);
    unsigned* const to = weights + k / kRowWords * kHalfWords + k % 4;
    const auto* const from = static_cast<const float*>(a.weight) + b * a.weight_stride[0] +
                             static_cast<int64_t>(first_channel) * kTaps * a.weight_stride[1] +
                             channel;
    for (int i = threadIdx.x / kSource; i < kTaps * kGroup; i += kThreads / kSource) {
      const int row = i % kTaps * kGroup + i / kTaps;
      const float value = real ? __ldg(from + i * a.weight_stride[1]) : 0.f;
      to[row * kRowWords + (k % kRowWords / 4 ^ row % 8) * 4] =
          round_to_tf32(__float_as_uint(value));
    }
    for (int i = threadIdx.x; i < kBiasWords; i += kThreads) biases[i] = 0;
    __syncthreads();
    const int i = static_cast<int>(threadIdx.x);
    if (i >= kTaps * kGroup || a.bias == nullptr) return;
    const int64_t at = static_cast<int64_t>(first_channel) * kTaps + i;
    const int tap = i % kTaps;
    const int row = tap % 3 * kGroup + i / kTaps;
    split_for_tf32(static_cast<const float*>(a.bias)[b * a.bias_stride[0] + at * a.bias_stride[1]],
                   biases + row * kRowWords + (tap / 3 * 2 ^ row % 8) * 4);
  };

  TilePlace place(geometry.walk, blockIdx.x);
  // One thread asks for a tile of x, one lane of each warp for its row of y.
  const auto ask_for_x = [&](const TilePlace& to_come) {
    arrive_and_expect(x_here, 4 * (kRows + 2 * geometry.reach) * kBoxRowWords);
    copy_box(tile, &maps.x, x_here, to_come.across * kColumns - kMargin, first_channel,
             to_come.down * kRows - geometry.reach, to_come.n);
  };
  // `read`: made of all of the row before, at the same place; waits for it.
  const auto ask_for_y = [&](const TilePlace& to_come, unsigned read) {
    arrive_and_expect(y_here, 4 * kStageWords);
    copy_box(stages + warp * kStageWords + __byte_perm(read, 0u, geometry.zeros), &maps.y, y_here,
             to_come.across * kColumns, 0, to_come.down * kRows + warp, a.groups == 1 ? 0 : b,
             to_come.n);
  };

  if (threadIdx.x == 0) start_barrier(x_here, 1);
  if (lane == 0) {
    start_barrier(y_here, 1);
    publish_barriers();
  }
  __syncthreads();
  if (lane == 0) ask_for_y(place, 0);
  if (threadIdx.x == 0) ask_for_x(place);
  fill_operands();
  publish_operands();
  __syncthreads();
  const uint64_t weight_operand = operand(weights, 1024);
  const uint64_t bias_operand = operand(biases, 1024);
  const unsigned one = lane % 4 < 3 ? __float_as_uint(1.f) : 0u;
  const unsigned ones[4] = {one, one, 0u, 0u};  // 1 at the first three of the 8 of k

  unsigned round = 0;
  for (unsigned job = blockIdx.x; job < geometry.walk.tiles; job += gridDim.x, ++round) {
    unsigned source[8][4];
    unsigned read = 0;
    wait(y_here, round & 1);
    // From the thread's number anew, here and below: it takes fewer registers than what follows.
    const int of_y = static_cast<int>(computed_here(threadIdx.x) % kThreads);
    // A channel's 16 columns, their 16-byte pieces exchanged by channel / 2 % 4.
    const unsigned* const first =
        stages + of_y / 32 * kStageWords + (of_y % 2 + of_y / 2 % 2 * 4) * kColumns;
    const int piece = (of_y / 16 % 2) ^ (of_y / 2 % 2 * 2);
    const int at = piece * 4 + of_y / 4 % 4;
#pragma unroll
    for (int s = 0; s < 8; ++s) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {  // columns g and g + 8 of a channel, and of the second after
        source[s][e] = first[(s * 8 + e / 2 * 2) * kColumns + (at ^ (e % 2 * 8) ^ (e / 2 * 4))];
        read |= source[s][e];
        source[s][e] = round_to_tf32(source[s][e]);
      }
    }
    __syncwarp();
    const bool more = job + gridDim.x < geometry.walk.tiles;
    if (more && lane == 0) ask_for_y(place.next(geometry.walk), read);
    __syncwarp();

    float taps[2][24];
    const auto start = [&](int i) {
      start_row_of_taps(taps[i % 2], i, ones, source, weight_operand, bias_operand);
    };
    start(0);
    wait(x_here, round & 1);

    const int me = static_cast<int>(computed_here(threadIdx.x) % kThreads);
    // x is [row][channel][column], 16-byte pieces exchanged by the channel's last three bits. The
    // places of channel 2*quad at pixels g and g + 8, moved by a row's taps; those of the channel
    // after it differ in two bits.
    int places[3][2];
    const int first_row = geometry.reach - dilation + me / 32;
#pragma unroll
    for (int j = 0; j < 3; ++j) {
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        const int column = kMargin + (j - 1) * dilation + 8 * p + me / 4 % 8;
        places[j][p] = first_row * kBoxRowWords + me % 4 * 2 * kBoxColumns +
                       ((column / 4) ^ (me % 4 * 2)) * 4 + column % 4;
      }
    }
    // A thread's four channels at pixel g + 8*p, moved by kernel row i, column j.
    const auto x_of = [&](int i, int j, int p) {
      const auto* const row = reinterpret_cast<const float*>(tile) + i * dilation * kBoxRowWords;
      const float* const low = row + places[j][p];
      const float* const high = row + (places[j][p] ^ (kBoxColumns | 4));
      return make_float4(low[0], high[0], low[8 * kBoxColumns], high[8 * kBoxColumns]);
    };
    float sum[2][4] = {};
    use_taps(sum, taps, start, x_of);
    const int row = place.down * kRows + me / 32;
    const int column = place.across * kColumns + me / 4 % 8;
    float* const out = static_cast<float*>(a.out) + place.n * a.out_stride[0] +
                       static_cast<int64_t>(first_channel + me % 4 * 2) * geometry.out_c +
                       static_cast<int64_t>(row) * geometry.out_h + column;
    // All branches have x at hand, and take turns to copy it in front of the results.
    const bool copies =
        a.concat_input && job % static_cast<unsigned>(a.branches) == static_cast<unsigned>(b);
    const auto put = [&](float* to, const float4& value) {
      to[0] = value.x;
      to[geometry.out_c] = value.y;
      to[int64_t{8} * geometry.out_c] = value.z;
      to[int64_t{9} * geometry.out_c] = value.w;
    };
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      if (row >= height || column + 8 * p >= width) continue;
      float* const to = out + 8 * p;
      put(to + (a.output_channel + b * a.channels) * geometry.out_c,
          make_float4(sum[p][0], sum[p][1], sum[p][2], sum[p][3]));
      if (copies) put(to, x_of(1, 1, p));
    }
    __syncthreads();  // nobody reads the tile any more
    place = place.next(geometry.walk);
    if (more && threadIdx.x == 0) ask_for_x(place);
  }
}

int shared_bytes(const GeneratedFilterArguments& a) {
  return 4 * (2 * kHalfWords + kBiasWords + kThreads / 32 * kStageWords +
              (kRows + 2 * largest_dilation(a)) * kBoxRowWords) +
         kBarrierBytes;
}

bool encode_maps(const GeneratedFilterArguments& a, Maps* maps) {
  // A dimension of one element is stepped over by nobody, but its stride is looked at.
  const auto step = [](int64_t size, int64_t stride) { return size == 1 ? int64_t{4} : stride; };
  return encode_tensor_map<4>(&maps->x, a.type, a.x, {a.width, a.channels, a.height, a.batch},
                              {step(a.channels, a.x_stride[1]), step(a.height, a.x_stride[2]),
                               step(a.batch, a.x_stride[0])},
                              {kBoxColumns, kGroup, kRows + 2 * largest_dilation(a), 1},
                              short_rows(CU_TENSOR_MAP_SWIZZLE_128B)) &&
         encode_tensor_map<5>(
             &maps->y, a.type, a.y, {a.width, a.source_channels, a.height, a.groups, a.batch},
             {step(a.source_channels, a.y_stride[2]), step(a.height, a.y_stride[3]),
              step(a.groups, a.y_stride[1]), step(a.batch, a.y_stride[0])},
             {kColumns, kSource, 1, 1, 1}, short_rows(CU_TENSOR_MAP_SWIZZLE_64B));
}

}  // namespace

cudaError_t launch_generated_filter_wgmma_tf32_planes(const GeneratedFilterArguments& a,
                                                      cudaStream_t stream) {
  Maps maps{};
  // The copy engine may not take strides that others do.
  if (!encode_maps(a, &maps)) return launch_generated_filter_mma(a, stream);
  const auto kernel = generated_filter_wgmma_tf32_planes;
  const int bytes = shared_bytes(a);
  DeviceFacts device;
  cudaError_t error = ask(&device);
  if (error == cudaSuccess) {
    error = allow_shared_memory(kernel, bytes);
  }
  if (error != cudaSuccess) return error;
  Geometry geometry{TileWalk(a.batch, a.height, a.width, kRows, kColumns)};
  geometry.groups = static_cast<int>(a.channels / kGroup);
  geometry.reach = largest_dilation(a);
  geometry.zeros = 0x4444;
  const auto narrow = [](int64_t stride) { return static_cast<int>(stride); };
  geometry.out_c = narrow(a.out_stride[1]), geometry.out_h = narrow(a.out_stride[2]);
  // As many blocks as the multiprocessors hold at once.
  const int64_t branches_and_groups = a.branches * geometry.groups;
  const int64_t resident =
      (bytes <= kTwoBlocksBytes ? 2 : 1) * int64_t{device.processors} / branches_and_groups;
  const unsigned across = geometry.walk.share(resident);
  kernel<<<dim3(across, static_cast<unsigned>(branches_and_groups)), kThreads,
           static_cast<size_t>(bytes), stream>>>(a, geometry, maps);
  return cudaGetLastError();
}

}  // namespace hdfnet::ops::cuda
