// concat_conv2d for 3x3 on compute capability 9.0: an implicit GEMM of warpgroups that reads its
// inputs where they lie, through the tensor copy engine.
//
// Block: one warpgroup copies, two multiply; a tile of 16 x 16 pixels of one image, all 64 or 128
// outputs of a block of outputs; blocks stay and take tile after tile. The reduction walks over
// slabs of 64 channels of one input and, within a slab, over the three columns of the kernel (a
// step): one copy of 18 rows x 16 pixels x 128 bytes, shifted by that column, serves the column's
// three taps, since a row is 2,048 bytes and so moving down by a row keeps the 128-byte exchange.
// What lies outside the image is zero by the copy engine. Weights of the step's three taps come
// with it or, where all of them fit, once for all tiles.
//
// - a warpgroup multiplies 8 columns of the tile: 128 pixels, as two products of 64 rows;
// - the result goes from registers to memory in 16-byte pieces, exchanged among 4 lanes. In its
// place,
//   or with it: the 2x2 maximum, whose four pixels are two in a thread and two in a lane four
//   further, and a 1x1 convolution of the result, whose operand the registers already are.
//
// FLOPs: 2 * O * I * 9 a pixel. Bytes: 54 KB a tile and slab from the L2, 27/16 of the input three
// times; the input once from memory, the output once. Figures: ops/README.md.
#include <algorithm>

#include "cuda/concat_conv2d_arguments.h"
#include "cuda/device_facts.h"
#include "cuda/hopper.cuh"
#include "cuda/ring.cuh"
#include "cuda/shared_limit.h"
#include "cuda/tensor_map.h"
#include "cuda/warpgroup_result.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 384;
constexpr int kSide = 16;  // of a tile, pixels
constexpr int kSlab = 64;  // channels
constexpr int kRowBytes = kSide * kSlab * 2;
constexpr int kTileBytes = (kSide + 2) * kRowBytes;
constexpr int kMostStages = 4;
constexpr int kMostSharedBytes = 227 * 1024;
constexpr int kBarrierBytes = 128;
constexpr int kAlignment = 1024;  // of the exchange

struct TensorMaps {
  CUtensorMap input[kMaxConvolutionInputs];
  CUtensorMap weight;
  CUtensorMap side_weight;
};

/// What does not change within a launch.
struct Plan {
  int slabs;
  int stages;
  int tiles_across;
  int tiles_down;
  int output_blocks;
  int tiles;  ///< of all images and output blocks
};

struct Tile {
  int image, row, column, first_output;
};

__device__ __forceinline__ Tile tile_at(int index, const Plan& plan, int outputs) {
  Tile tile;
  tile.first_output = index % plan.output_blocks * outputs;
  index /= plan.output_blocks;
  tile.column = index % plan.tiles_across * kSide;
  index /= plan.tiles_across;
  tile.row = index % plan.tiles_down * kSide;
  tile.image = index / plan.tiles_down;
  return tile;
}

template <int kOutputs>
constexpr int kTapBytes = kOutputs* kSlab * 2;

__device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b, __half) {
  const __half2 result =
      __hmax2_nan(*reinterpret_cast<__half2*>(&a), *reinterpret_cast<__half2*>(&b));
  return *reinterpret_cast<const uint32_t*>(&result);
}
__device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b, __nv_bfloat16) {
  const __nv_bfloat162 result =
      __hmax2_nan(*reinterpret_cast<__nv_bfloat162*>(&a), *reinterpret_cast<__nv_bfloat162*>(&b));
  return *reinterpret_cast<const uint32_t*>(&result);
}

template <typename T, int kOutputs, bool kResident, bool kFull, bool kPool, int kSideOutputs>
__global__ void __launch_bounds__(kThreads, 1)
    concat_conv2d_wgmma(const __grid_constant__ ConcatConvolutionArguments a,
                        const __grid_constant__ TensorMaps maps, const Plan plan) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
  extern __shared__ unsigned char raw[];
  unsigned char* const shared = raw + (kAlignment - shared_address(raw) % kAlignment) % kAlignment;
  constexpr int kStepWeightBytes = 3 * kTapBytes<kOutputs>;
  constexpr int kSideSlabBytes = kSideOutputs * kSlab * 2;
  const int steps = plan.slabs * 3;
  const int weight_buffers = kResident ? steps : plan.stages;
  unsigned char* const tiles = shared;
  unsigned char* const weights = tiles + plan.stages * kTileBytes;
  unsigned char* const side_weights = weights + weight_buffers * kStepWeightBytes;
  auto* const full = reinterpret_cast<uint64_t*>(side_weights + kOutputs / kSlab * kSideSlabBytes);
  uint64_t* const empty = full + kMostStages;
  uint64_t* const once = empty + kMostStages;

  if (threadIdx.x == 0) {
    start_ring(full, empty, plan.stages, 8);
    start_barrier(once, 1);
    publish_barriers();
  }
  __syncthreads();

  const int group = static_cast<int>(threadIdx.x) / 128;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (group == 0) {
    give_registers<40>();
    if (threadIdx.x != 0) return;
    const auto copy_weights = [&](unsigned char* to, uint64_t* barrier, int step,
                                  int first_output) {
      for (int row = 0; row < 3; ++row) {
        copy_box(to + row * kTapBytes<kOutputs>, &maps.weight, barrier, step / 3 * kSlab,
                 row * 3 + step % 3, first_output);
      }
    };
    if constexpr (kResident || kSideOutputs > 0) {
      arrive_and_expect(
          once, (kResident ? steps * kStepWeightBytes : 0) + kOutputs / kSlab * kSideSlabBytes);
      if constexpr (kResident) {
        for (int step = 0; step < steps; ++step) {
          copy_weights(weights + step * kStepWeightBytes, once, step, 0);
        }
      }
      if constexpr (kSideOutputs > 0) {
        for (int slab = 0; slab < kOutputs / kSlab; ++slab) {
          copy_box(side_weights + slab * kSideSlabBytes, &maps.side_weight, once, slab * kSlab, 0,
                   0);
        }
      }
    }
    Ring ring;
    for (int index = static_cast<int>(blockIdx.x); index < plan.tiles;
         index += static_cast<int>(gridDim.x)) {
      const Tile tile = tile_at(index, plan, kOutputs);
      int input = 0;
      int channel = 0;
      for (int step = 0; step < steps; ++step) {
        wait(&empty[ring.stage], ring.parity ^ 1);
        uint64_t* const barrier = &full[ring.stage];
        arrive_and_expect(barrier, kTileBytes + (kResident ? 0 : kStepWeightBytes));
        copy_box(tiles + ring.stage * kTileBytes, &maps.input[input], barrier, channel,
                 tile.column + step % 3 - 1, tile.row - 1, tile.image);
        if constexpr (!kResident) {
          copy_weights(weights + ring.stage * kStepWeightBytes, barrier, step, tile.first_output);
        }
        if (step % 3 == 2) {
          channel += kSlab;
          if (channel >= static_cast<int>(a.input[input].group_channels)) {
            channel = 0;
            ++input;
          }
        }
        ring.advance(plan.stages);
      }
    }
    return;
  }

  take_registers<232>();
  const int half = group - 1;  // of the tile's columns
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int height = static_cast<int>(a.height);
  const int width = static_cast<int>(a.width);
  if constexpr (kResident || kSideOutputs > 0) wait(once, 0);
  Ring ring;
  for (int index = static_cast<int>(blockIdx.x); index < plan.tiles;
       index += static_cast<int>(gridDim.x)) {
    const Tile tile = tile_at(index, plan, kOutputs);
    float sum[2][kOutputs / 2];
    int former = -1;
    for (int step = 0; step < steps; ++step) {
      wait(&full[ring.stage], ring.parity);
      const uint64_t pixels =
          operand(tiles + ring.stage * kTileBytes + half * (kRowBytes / 2), kRowBytes);
      const uint64_t taps =
          operand(weights + (kResident ? step : ring.stage) * kStepWeightBytes, 8 * kSlab * 2);
      begin_products();
#pragma unroll
      for (int row = 0; row < 3; ++row) {
#pragma unroll
        for (int k = 0; k < kSlab / 16; ++k) {
#pragma unroll
          for (int m = 0; m < 2; ++m) {
            multiply_add(sum[m], pixels + (((row + 8 * m) * kRowBytes) >> 4) + 2 * k,
                         taps + ((row * kTapBytes<kOutputs>) >> 4) + 2 * k,
                         step > 0 || row > 0 || k > 0 ? 1 : 0, T());
          }
        }
      }
      commit_products();
      wait_for_products<1>();  // of the step before: its stage may be filled again
      if (former >= 0 && lane == 0) arrive(&empty[former]);
      former = ring.stage;
      ring.advance(plan.stages);
    }
    wait_for_products<0>();
    if (lane == 0) arrive(&empty[former]);

    // A thread has, of every 8 outputs, two neighbouring ones of the pixels of two rows.
    const int column = tile.column + half * 8 + lane / 4;
    const int output_of_lane = tile.first_output + lane % 4 * 2;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const int first_row = tile.row + 8 * m + 2 * warp;
      uint32_t value[2][kOutputs / 8];
#pragma unroll
      for (int chunk = 0; chunk < kOutputs / 8; ++chunk) {
        float bias[2] = {0, 0};
        if (a.bias != nullptr) {
          unpack<T>(static_cast<const T*>(a.bias) + output_of_lane + chunk * 8, bias);
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float v[2];
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            v[i] = sum[m][chunk * 4 + r * 2 + i] + bias[i];
            if (a.relu && v[i] < 0) v[i] = 0;  // NaN stays
          }
          value[r][chunk] = pack<T>(v[0], v[1]);
        }
      }
      const auto pixel_of = [&](void* map, int row, int col, int h, int w, int64_t channels) {
        return static_cast<T*>(map) +
               ((static_cast<int64_t>(tile.image) * h + row) * w + col) * channels;
      };
      if constexpr (kFull) {
        const int64_t outputs = a.group_outputs;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          store_pixel(
              value[r],
              pixel_of(a.out, first_row + r, column, height, width, outputs) + tile.first_output,
              first_row + r < height && column < width, lane);
        }
      }
      if constexpr (kPool) {
        uint32_t most[kOutputs / 8];
#pragma unroll
        for (int chunk = 0; chunk < kOutputs / 8; ++chunk) {
          const uint32_t own = larger(value[0][chunk], value[1][chunk], T());
          most[chunk] = larger(own, __shfl_xor_sync(0xffffffffu, own, 4), T());
        }
        store_pixel(most,
                    pixel_of(a.pool_out, first_row / 2, column / 2, height / 2, width / 2,
                             a.group_outputs) +
                        tile.first_output,
                    lane / 4 % 2 == 0 && first_row / 2 < height / 2 && column / 2 < width / 2,
                    lane);
      }
      if constexpr (kSideOutputs > 0) {
        float side[kSideOutputs / 2];
        begin_products();
#pragma unroll
        for (int k = 0; k < kOutputs / 16; ++k) {
          const uint32_t left[4] = {value[0][2 * k], value[1][2 * k], value[0][2 * k + 1],
                                    value[1][2 * k + 1]};
          multiply_add(side, left,
                       operand(side_weights + k / 4 * kSideSlabBytes, 8 * kSlab * 2) + 2 * (k % 4),
                       k > 0 ? 1 : 0, T());
        }
        commit_products();
        wait_for_products<0>();
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          uint32_t result[kSideOutputs / 8];
#pragma unroll
          for (int chunk = 0; chunk < kSideOutputs / 8; ++chunk) {
            float bias[2];
            unpack<T>(static_cast<const T*>(a.side_bias) + chunk * 8 + lane % 4 * 2, bias);
            result[chunk] =
                pack<T>(side[chunk * 4 + r * 2] + bias[0], side[chunk * 4 + r * 2 + 1] + bias[1]);
          }
          store_pixel(result,
                      pixel_of(a.side_out, first_row + r, column, height, width, kSideOutputs),
                      first_row + r < height && column < width, lane);
        }
      }
    }
  }
#endif
}

bool encode_all(const ConcatConvolutionArguments& a, int outputs, TensorMaps* maps) {
  for (int i = 0; i < a.inputs; ++i) {
    const ConvolutionInput& input = a.input[i];
    const int64_t row = a.width * input.pixel_stride;
    if (!encode_tensor_map<4>(
            &maps->input[i], a.type, input.data, {input.group_channels, a.width, a.height, a.batch},
            {input.pixel_stride, row, row * a.height}, {kSlab, kSide, kSide + 2, 1})) {
      return false;
    }
  }
  if (!encode_tensor_map<3>(&maps->weight, a.type, a.weight, {a.group_inputs, 9, a.group_outputs},
                            {a.group_inputs, 9 * a.group_inputs}, {kSlab, 1, outputs})) {
    return false;
  }
  return a.side_weight == nullptr ||
         encode_tensor_map<3>(&maps->side_weight, a.type, a.side_weight,
                              {a.group_outputs, a.side_outputs, 1},
                              {a.group_outputs, a.group_outputs * a.side_outputs},
                              {kSlab, static_cast<int>(a.side_outputs), 1});
}

int outputs_of_block(const ConcatConvolutionArguments& a) {
  return a.group_outputs % 128 == 0 ? 128 : 64;
}

int64_t tiles_of(const ConcatConvolutionArguments& a) {
  return (a.width + kSide - 1) / kSide * ((a.height + kSide - 1) / kSide) * a.batch *
         (a.group_outputs / outputs_of_block(a));
}

template <typename T, int kOutputs, bool kResident, bool kFull, bool kPool, int kSideOutputs>
cudaError_t launch(const ConcatConvolutionArguments& a, cudaStream_t stream) {
  const auto kernel = &concat_conv2d_wgmma<T, kOutputs, kResident, kFull, kPool, kSideOutputs>;
  constexpr int kStepWeightBytes = 3 * kTapBytes<kOutputs>;
  Plan plan{};
  plan.slabs = static_cast<int>(a.group_inputs) / kSlab;
  plan.tiles_across = static_cast<int>((a.width + kSide - 1) / kSide);
  plan.tiles_down = static_cast<int>((a.height + kSide - 1) / kSide);
  plan.output_blocks = static_cast<int>(a.group_outputs) / kOutputs;
  plan.tiles = static_cast<int>(tiles_of(a));
  const int fixed = kAlignment + kBarrierBytes + kOutputs / kSlab * kSideOutputs * kSlab * 2 +
                    (kResident ? plan.slabs * 3 * kStepWeightBytes : 0);
  const int stage = kTileBytes + (kResident ? 0 : kStepWeightBytes);
  plan.stages = (kMostSharedBytes - fixed) / stage;
  if (plan.stages > kMostStages) plan.stages = kMostStages;
  const int bytes = fixed + plan.stages * stage;

  TensorMaps maps;
  if (!encode_all(a, kOutputs, &maps)) return cudaErrorInvalidValue;
  const cudaError_t error = allow_shared_memory(kernel, bytes);
  if (error != cudaSuccess) return error;
  const int processors = current_device().processors;
  const int blocks = std::min(plan.tiles, processors);
  kernel<<<blocks, kThreads, bytes, stream>>>(a, maps, plan);
  return cudaGetLastError();
}

/// Whether the weights of all steps and two stages fit into the shared memory.
bool weights_fit(const ConcatConvolutionArguments& a) {
  const int outputs = outputs_of_block(a);
  const int64_t weights = a.group_inputs * 9 * outputs * 2;
  const int64_t side = a.side_weight != nullptr ? outputs * a.side_outputs * 2 : 0;
  return a.group_outputs == outputs &&
         weights + side + 2 * kTileBytes + kAlignment + kBarrierBytes <= kMostSharedBytes;
}

template <typename T, int kOutputs, bool kResident>
cudaError_t choose_results(const ConcatConvolutionArguments& a, cudaStream_t stream) {
  if (a.pool_out == nullptr) return launch<T, kOutputs, kResident, true, false, 0>(a, stream);
  if (a.side_out == nullptr) return launch<T, kOutputs, kResident, false, true, 0>(a, stream);
  return launch<T, kOutputs, kResident, false, true, kOutputs / 2>(a, stream);
}

template <typename T>
cudaError_t choose(const ConcatConvolutionArguments& a, cudaStream_t stream) {
  const bool resident = weights_fit(a);
  if (outputs_of_block(a) == 128) {
    return resident ? choose_results<T, 128, true>(a, stream)
                    : choose_results<T, 128, false>(a, stream);
  }
  return resident ? choose_results<T, 64, true>(a, stream)
                  : choose_results<T, 64, false>(a, stream);
}

}  // namespace

bool can_run_concat_conv2d_wgmma(const ConcatConvolutionArguments& a, std::string* why) {
  const auto no = [why](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (a.type != Type::kHalf && a.type != Type::kBFloat16) return no("not fp16 or bf16");
  if (a.kernel_size != 3 || a.groups != 1) return no("a kernel other than 3x3, or groups");
  if (!a.inputs_are_dense) return no("an input is not channels_last");
  if (a.group_outputs % 64 != 0) return no("outputs not in 64s");
  if (a.head_weight != nullptr) return no("a head");
  for (int i = 0; i < a.inputs; ++i) {
    const ConvolutionInput& input = a.input[i];
    if (input.group_channels == 0 || input.group_channels % kSlab != 0) {
      return no("channels of an input not in 64s");
    }
    // An expanded map, whose strides the tensor maps may not take.
    if (input.pixel_stride < input.group_channels) return no("pixels of an input overlap");
    if (!aligned(input.data) || input.pixel_stride % 8 != 0) return no("an input is not aligned");
  }
  if (!aligned(a.weight) || !aligned(a.bias) || !aligned(a.side_bias)) {
    return no("weight or bias are not aligned");
  }
  if (a.side_weight != nullptr &&
      (a.side_outputs * 2 != outputs_of_block(a) || a.group_outputs != outputs_of_block(a) ||
       !aligned(a.side_weight))) {
    return no("a side of other than half the outputs");
  }
  if (a.height > (1 << 20) || a.width > (1 << 20) || tiles_of(a) > (int64_t{1} << 30)) {
    return no("more than 2^30 tiles");
  }
  const char* const reason = why_not_by_tensor_maps(tiles_of(a));
  return reason == nullptr || no(reason);
}

cudaError_t launch_concat_conv2d_wgmma(const ConcatConvolutionArguments& arguments,
                                       cudaStream_t stream) {
  return arguments.type == Type::kHalf ? choose<__half>(arguments, stream)
                                       : choose<__nv_bfloat16>(arguments, stream);
}

}  // namespace hdfnet::ops::cuda
