// [relu](1x1 convolution + bias + other) of channels_last maps on compute capability 9.0: the end
// of a residual block, which is bound by memory, mostly that of `other` and of the result.
//
// Block: one warpgroup copies, two multiply; tiles of 128 pixels, in any image, by 128 outputs.
// Blocks stay, each with its own block of outputs, whose weights come once.
// - x: slabs of 64 channels through the tensor copy engine, in a ring that runs on from tile to
// tile;
// - other: straight into registers, 16 bytes at a time, one tile ahead, and exchanged among four
//   lanes into the places of the sums, where it is added in float32;
// - the result leaves as it came, by the same exchange.
//
// FLOPs: 2 * O * I a pixel. Bytes: other and the result once, x once from memory and once from the
// L2 for each further block of outputs. Figures: ops/README.md.
#include <algorithm>

#include "cuda/conv2d_add_arguments.h"
#include "cuda/device_facts.h"
#include "cuda/hopper.cuh"
#include "cuda/ring.cuh"
#include "cuda/shared_limit.h"
#include "cuda/tensor_map.h"
#include "cuda/warpgroup_result.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 384;
constexpr int kPixels = 128;  // of a tile
constexpr int kOutputs = 128;
constexpr int kSlab = 64;  // channels
constexpr int kMostSlabs = 8;
constexpr int kTileBytes = kPixels * kSlab * 2;
constexpr int kWeightBytes = kOutputs * kSlab * 2;  // of a slab
constexpr int kEightRows = 8 * kSlab * 2;
constexpr int kMostStages = 6;
constexpr int kMostSharedBytes = 227 * 1024;
constexpr int kBarrierBytes = 128;
constexpr int kAlignment = 1024;  // of the exchange
constexpr int kChunks = kOutputs / 8;

struct TensorMaps {
  CUtensorMap x;
  CUtensorMap weight;
};

/// What does not change within a launch.
struct Plan {
  int slabs;
  int stages;
  int output_blocks;
  int tiles;  ///< of pixels
};

template <typename T>
__global__ void __launch_bounds__(kThreads, 1)
    pointwise_add_wgmma(const __grid_constant__ PointwiseAddArguments a,
                        const __grid_constant__ TensorMaps maps, const Plan plan) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
  extern __shared__ unsigned char raw[];
  unsigned char* const shared = raw + (kAlignment - shared_address(raw) % kAlignment) % kAlignment;
  unsigned char* const tiles = shared;
  unsigned char* const weights = tiles + plan.stages * kTileBytes;
  auto* const full = reinterpret_cast<uint64_t*>(weights + plan.slabs * kWeightBytes);
  uint64_t* const empty = full + kMostStages;
  uint64_t* const once = empty + kMostStages;

  if (threadIdx.x == 0) {
    start_ring(full, empty, plan.stages, 8);
    start_barrier(once, 1);
    publish_barriers();
  }
  __syncthreads();

  const int first_output = static_cast<int>(blockIdx.x) % plan.output_blocks * kOutputs;
  const int first_tile = static_cast<int>(blockIdx.x) / plan.output_blocks;
  const int next_tile = static_cast<int>(gridDim.x) / plan.output_blocks;
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (group == 0) {
    give_registers<40>();
    if (threadIdx.x != 0) return;
    arrive_and_expect(once, plan.slabs * kWeightBytes);
    for (int slab = 0; slab < plan.slabs; ++slab) {
      copy_box(weights + slab * kWeightBytes, &maps.weight, once, slab * kSlab, first_output, 0);
    }
    Ring ring;
    for (int tile = first_tile; tile < plan.tiles; tile += next_tile) {
      for (int slab = 0; slab < plan.slabs; ++slab) {
        wait(&empty[ring.stage], ring.parity ^ 1);
        arrive_and_expect(&full[ring.stage], kTileBytes);
        copy_box(tiles + ring.stage * kTileBytes, &maps.x, &full[ring.stage], slab * kSlab,
                 tile * kPixels, 0);
        ring.advance(plan.stages);
      }
    }
    return;
  }

  take_registers<232>();
  const int half = group - 1;  // of the tile's pixels
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = half * 64 + static_cast<int>(threadIdx.x) / 32 % 4 * 16 + lane / 4;
  const auto pixel_of = [&](int tile, int r) {
    return static_cast<int64_t>(tile) * kPixels + row + 8 * r;
  };
  // Piece p of row r: the chunk 4 * p + lane % 4 of that pixel.
  uint4 ahead[2][kChunks / 4];
  const auto read_other = [&](int tile) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int64_t pixel = pixel_of(tile, r);
      const bool real = pixel < a.pixels;
      const T* const from = static_cast<const T*>(a.other) + pixel * a.outputs + first_output;
#pragma unroll
      for (int p = 0; p < kChunks / 4; ++p) {
        ahead[r][p] = real ? __ldcs(reinterpret_cast<const uint4*>(from) + 4 * p + lane % 4)
                           : make_uint4(0, 0, 0, 0);
      }
    }
  };
  uint32_t bias[kChunks];
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    bias[chunk] = a.bias == nullptr
                      ? 0
                      : *reinterpret_cast<const uint32_t*>(static_cast<const T*>(a.bias) +
                                                           first_output + chunk * 8 + lane % 4 * 2);
  }
  if (first_tile < plan.tiles) read_other(first_tile);
  wait(once, 0);
  Ring ring;
  for (int tile = first_tile; tile < plan.tiles; tile += next_tile) {
    uint4 other[2][kChunks / 4];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int p = 0; p < kChunks / 4; ++p) other[r][p] = ahead[r][p];
    }
    if (tile + next_tile < plan.tiles) read_other(tile + next_tile);

    float sum[kOutputs / 2];
    int former = -1;
    for (int slab = 0; slab < plan.slabs; ++slab) {
      wait(&full[ring.stage], ring.parity);
      const uint64_t pixels =
          operand(tiles + ring.stage * kTileBytes + half * (kTileBytes / 2), kEightRows);
      const uint64_t taps = operand(weights + slab * kWeightBytes, kEightRows);
      begin_products();
#pragma unroll
      for (int k = 0; k < kSlab / 16; ++k) {
        multiply_add(sum, pixels + 2 * k, taps + 2 * k, slab > 0 || k > 0 ? 1 : 0, T());
      }
      commit_products();
      wait_for_products<1>();  // of the slab before: its stage may be filled again
      if (former >= 0 && lane == 0) arrive(&empty[former]);
      former = ring.stage;
      ring.advance(plan.stages);
    }
    wait_for_products<0>();
    if (lane == 0) arrive(&empty[former]);

#pragma unroll
    for (int r = 0; r < 2; ++r) {
      uint32_t value[kChunks];
#pragma unroll
      for (int p = 0; p < kChunks / 4; ++p) {
        uint32_t v[4] = {other[r][p].x, other[r][p].y, other[r][p].z, other[r][p].w};
        exchange(v, lane);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int chunk = 4 * p + i;
          float added[2];
          float of_bias[2];
          unpack<T>(v[i], added);
          unpack<T>(bias[chunk], of_bias);
          float result[2];
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            result[j] = sum[chunk * 4 + r * 2 + j] + of_bias[j] + added[j];
            if (a.relu && result[j] < 0) result[j] = 0;  // NaN stays
          }
          value[chunk] = pack<T>(result[0], result[1]);
        }
      }
      const int64_t pixel = pixel_of(tile, r);
      store_pixel(value, static_cast<T*>(a.out) + pixel * a.outputs + first_output,
                  pixel < a.pixels, lane);
    }
  }
#endif
}

int64_t tiles_of(const PointwiseAddArguments& a) {
  return (a.pixels + kPixels - 1) / kPixels;
}

template <typename T>
cudaError_t launch(const PointwiseAddArguments& a, cudaStream_t stream) {
  Plan plan{};
  plan.slabs = static_cast<int>(a.channels) / kSlab;
  plan.output_blocks = static_cast<int>(a.outputs) / kOutputs;
  plan.tiles = static_cast<int>(tiles_of(a));
  const int fixed = kAlignment + kBarrierBytes + plan.slabs * kWeightBytes;
  plan.stages = std::min(kMostStages, (kMostSharedBytes - fixed) / kTileBytes);
  const int bytes = fixed + plan.stages * kTileBytes;

  TensorMaps maps;
  if (!encode_tensor_map<3>(&maps.x, a.type, a.x, {a.channels, a.pixels, 1},
                            {a.pixel_stride, a.pixel_stride * a.pixels}, {kSlab, kPixels, 1}) ||
      !encode_tensor_map<3>(&maps.weight, a.type, a.weight, {a.channels, a.outputs, 1},
                            {a.channels, a.channels * a.outputs}, {kSlab, kOutputs, 1})) {
    return cudaErrorInvalidValue;
  }
  const auto kernel = &pointwise_add_wgmma<T>;
  const cudaError_t error = allow_shared_memory(kernel, bytes);
  if (error != cudaSuccess) return error;
  const int most = std::max(1, current_device().processors / plan.output_blocks);
  const int blocks = plan.output_blocks * std::min(most, plan.tiles);
  kernel<<<blocks, kThreads, bytes, stream>>>(a, maps, plan);
  return cudaGetLastError();
}

}  // namespace

bool can_run_pointwise_add_wgmma(const PointwiseAddArguments& a, std::string* why) {
  const auto no = [why](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (a.type != Type::kHalf && a.type != Type::kBFloat16) return no("not fp16 or bf16");
  if (a.channels == 0 || a.channels % kSlab != 0 || a.channels > kMostSlabs * kSlab) {
    return no("channels not in 64s up to 512");
  }
  if (a.outputs == 0 || a.outputs % kOutputs != 0 || a.outputs > 65536) {
    return no("outputs not in 128s");
  }
  if (a.pixel_stride < a.channels) return no("pixels overlap");
  if (!aligned(a.x) || a.pixel_stride % 8 != 0 || !aligned(a.other) || !aligned(a.weight) ||
      !aligned(a.bias)) {
    return no("an operand is not aligned");
  }
  if (a.pixels > (int64_t{1} << 30)) return no("more than 2^30 pixels");
  const char* const reason = why_not_by_tensor_maps(tiles_of(a) * (a.outputs / kOutputs));
  return reason == nullptr || no(reason);
}

cudaError_t launch_pointwise_add_wgmma(const PointwiseAddArguments& arguments,
                                       cudaStream_t stream) {
  return arguments.type == Type::kHalf ? launch<__half>(arguments, stream)
                                       : launch<__nv_bfloat16>(arguments, stream);
}

}  // namespace hdfnet::ops::cuda
