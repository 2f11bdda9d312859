// concat_conv2d on tensor cores: an implicit GEMM that reads its inputs where they lie.
//
// The concatenation of the inputs is never made: the reduction simply walks over the inputs, 16
// channels of one input at a time (a slab). Groups are grid rows, so a grouped convolution costs no
// more than its own products.
//
// Block: 4 warps, a tile of 16 columns x 4*kRows rows of one image, kOutputs channels of one group.
// For each slab the tile of that input, with its halo, and the slab's weights come to shared memory
// by cp.async, three slabs under way; every tap is then the same tile, shifted.
//
// - operand A: a row of 16 pixels x 16 channels, by ldmatrix. A pixel's 16 channels are two 16-byte
//   chunks, exchanged for every second four pixels, so that 8 neighbouring pixels lie in all banks.
// - operand B: 16 outputs x 16 channels of one tap, by ldmatrix, with the same exchange. The weight
//   must be channels_last for that: (O, K, K, I).
// - result: through shared memory, so that it leaves in 16-byte accesses; or, with a head, reduced
//   in registers to one value a pixel.
//
// FLOPs: 2 * O * I * K * K a pixel (of a group). Bytes: every input once for each block of outputs,
// the halo from the L2; the output once. Figures: ops/README.md.
#include "cuda/concat_conv2d_arguments.h"
#include "cuda/device_facts.h"
#include "cuda/scalar.cuh"
#include "cuda/shared_limit.h"
#include "cuda/tensor_core.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kColumns = 16;
constexpr int kSlab = 16;        // channels
constexpr int kPixelBytes = 32;  // of a slab
constexpr int kStages = 3;
constexpr unsigned kMaxGridZ = 65535;

/// Where a 16-byte half of pixel (or output) `row` lies, in bytes.
__device__ __forceinline__ int chunk_at(int row, int half) {
  return row * kPixelBytes + ((half ^ ((row >> 2) & 1)) << 4);
}

template <int kTaps, int kOutputs, int kRows>
struct Shape {
  static constexpr int kReach = kTaps == 9 ? 1 : 0;
  static constexpr int kTileColumns = kColumns + 2 * kReach;
  static constexpr int kTileRows = 4 * kRows + 2 * kReach;
  static constexpr int kTileBytes = kTileColumns * kTileRows * kPixelBytes;
  static constexpr int kWeightBytes = kTaps * kOutputs * kPixelBytes;
  static constexpr int kStageBytes = kTileBytes + kWeightBytes;
  static constexpr int kResultPitch = kOutputs * 2 + 16;  // bytes of a pixel; spreads the banks
  static constexpr int kResultBytes = kColumns * 4 * kRows * kResultPitch;
  static constexpr int kSharedBytes =
      kStages * kStageBytes > kResultBytes ? kStages* kStageBytes : kResultBytes;
};

/// The slabs of the reduction, one after the other.
struct SlabWalk {
  int input = 0;
  int channel = 0;         // within the group, of this input
  int weight_channel = 0;  // within the group, of all inputs

  __device__ __forceinline__ void advance(const ConcatConvolutionArguments& a) {
    channel += kSlab;
    weight_channel += kSlab;
    if (channel >= static_cast<int>(a.input[input].group_channels)) {
      channel = 0;
      ++input;
    }
  }
};

__device__ __forceinline__ float sigmoid(float value) {
  return 1.0f / (1.0f + expf(-value));
}

template <typename T, int kTaps, int kOutputs, int kRows, bool kHead>
__global__ void __launch_bounds__(kThreads)
    concat_conv2d_mma(const __grid_constant__ ConcatConvolutionArguments a, int tiles_across,
                      int output_blocks) {
  using S = Shape<kTaps, kOutputs, kRows>;
  extern __shared__ __align__(128) unsigned char shared[];

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int height = static_cast<int>(a.height);
  const int width = static_cast<int>(a.width);
  const int first_row = static_cast<int>(blockIdx.x) / tiles_across * (4 * kRows);
  const int first_column = static_cast<int>(blockIdx.x) % tiles_across * kColumns;
  const int group = static_cast<int>(blockIdx.y) / output_blocks;
  const int first_output = group * static_cast<int>(a.group_outputs) +
                           static_cast<int>(blockIdx.y) % output_blocks * kOutputs;
  const int slabs = static_cast<int>(a.group_inputs) / kSlab;

  for (int64_t n = blockIdx.z; n < a.batch; n += gridDim.z) {
    const auto copy_slab = [&](const SlabWalk& at, unsigned char* stage) {
      const ConvolutionInput& input = a.input[at.input];
      const T* const base = static_cast<const T*>(input.data) +
                            n * height * width * input.pixel_stride + group * input.group_channels +
                            at.channel;
      for (int i = threadIdx.x; i < S::kTileColumns * S::kTileRows * 2; i += kThreads) {
        const int pixel = i / 2;
        const int half = i % 2;
        const int row = first_row + pixel / S::kTileColumns - S::kReach;
        const int column = first_column + pixel % S::kTileColumns - S::kReach;
        const bool inside = row >= 0 && row < height && column >= 0 && column < width;
        const T* const from =
            base + (static_cast<int64_t>(row) * width + column) * input.pixel_stride + half * 8;
        copy_async<16>(stage + chunk_at(pixel, half), inside ? from : base, inside);
      }
      unsigned char* const weights = stage + S::kTileBytes;
      const T* const weight = static_cast<const T*>(a.weight) + at.weight_channel;
      for (int i = threadIdx.x; i < kTaps * kOutputs * 2; i += kThreads) {
        const int row = i / 2;  // tap * kOutputs + output
        const int half = i % 2;
        const int tap = row / kOutputs;
        const int output = first_output + row % kOutputs;
        copy_async<16>(
            weights + chunk_at(row, half),
            weight + (static_cast<int64_t>(output) * kTaps + tap) * a.group_inputs + half * 8,
            true);
      }
    };

    float sum[kRows][kOutputs / 8][4] = {};
    SlabWalk next;
    for (int i = 0; i < kStages - 1; ++i) {
      if (i < slabs) {
        copy_slab(next, shared + i * S::kStageBytes);
        next.advance(a);
      }
      end_copy_group();
    }
    for (int slab = 0; slab < slabs; ++slab) {
      wait_for_copy_groups<kStages - 2>();
      __syncthreads();
      if (slab + kStages - 1 < slabs) {
        copy_slab(next, shared + (slab + kStages - 1) % kStages * S::kStageBytes);
        next.advance(a);
      }
      end_copy_group();

      const unsigned char* const tile = shared + slab % kStages * S::kStageBytes;
      const unsigned char* const weights = tile + S::kTileBytes;
      const int pixel_of_lane = warp * kRows * S::kTileColumns + lane % 16;
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        unsigned b[kOutputs / 16][4];
#pragma unroll
        for (int pair = 0; pair < kOutputs / 16; ++pair) {
          const int output = tap * kOutputs + pair * 16 + lane % 8 + lane / 16 * 8;
          load_matrices(b[pair], weights + chunk_at(output, lane / 8 % 2));
        }
        const int shift = kTaps == 9 ? tap / 3 * S::kTileColumns + tap % 3 : 0;
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          unsigned operand[4];
          load_matrices(operand,
                        tile + chunk_at(pixel_of_lane + r * S::kTileColumns + shift, lane / 16));
#pragma unroll
          for (int pair = 0; pair < kOutputs / 16; ++pair) {
            multiply_add(sum[r][2 * pair], operand, b[pair][0], b[pair][1], T());
            multiply_add(sum[r][2 * pair + 1], operand, b[pair][2], b[pair][3], T());
          }
        }
      }
    }
    __syncthreads();  // the result, or the next image, overwrites the tiles

    // A thread has, for each 8 outputs, two neighbouring ones of two pixels: lane / 4 and that + 8.
    const int output_of_lane = lane % 4 * 2;
#pragma unroll
    for (int o = 0; o < kOutputs / 8; ++o) {
      float bias[2] = {0, 0};
      if (a.bias != nullptr) {
        const T* const from = static_cast<const T*>(a.bias) + first_output + o * 8 + output_of_lane;
        bias[0] = to_sum(from[0]);
        bias[1] = to_sum(from[1]);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          sum[r][o][v] += bias[v % 2];
          if (a.relu && sum[r][o][v] < 0.0f) sum[r][o][v] = 0.0f;  // NaN stays
        }
      }
    }

    if constexpr (kHead) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        float logit[2] = {0, 0};
#pragma unroll
        for (int o = 0; o < kOutputs / 8; ++o) {
          const T* const from = static_cast<const T*>(a.head_weight) + o * 8 + output_of_lane;
          const float weight[2] = {to_sum(from[0]), to_sum(from[1])};
          logit[0] += sum[r][o][0] * weight[0] + sum[r][o][1] * weight[1];
          logit[1] += sum[r][o][2] * weight[0] + sum[r][o][3] * weight[1];
        }
#pragma unroll
        for (int p = 0; p < 2; ++p) {
          logit[p] += __shfl_xor_sync(0xffffffffu, logit[p], 1);
          logit[p] += __shfl_xor_sync(0xffffffffu, logit[p], 2);
          const int row = first_row + warp * kRows + r;
          const int column = first_column + lane / 4 + p * 8;
          if (lane % 4 == 0 && row < height && column < width) {
            a.head_out[(n * height + row) * width + column] =
                sigmoid(logit[p] + to_sum(*static_cast<const T*>(a.head_bias)));
          }
        }
      }
    } else {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int o = 0; o < kOutputs / 8; ++o) {
#pragma unroll
          for (int p = 0; p < 2; ++p) {
            const T pair[2] = {from_sum<T>(sum[r][o][2 * p]), from_sum<T>(sum[r][o][2 * p + 1])};
            const int pixel = (warp * kRows + r) * kColumns + lane / 4 + p * 8;
            *reinterpret_cast<unsigned*>(shared + pixel * S::kResultPitch +
                                         (o * 8 + output_of_lane) * 2) =
                *reinterpret_cast<const unsigned*>(pair);
          }
        }
      }
      __syncthreads();
      constexpr int kChunks = kOutputs / 8;
      const int64_t out_channels = a.groups * a.group_outputs;
      T* const out = static_cast<T*>(a.out) + n * height * width * out_channels + first_output;
      for (int i = threadIdx.x; i < kColumns * 4 * kRows * kChunks; i += kThreads) {
        const int pixel = i / kChunks;
        const int chunk = i % kChunks;
        const int row = first_row + pixel / kColumns;
        const int column = first_column + pixel % kColumns;
        if (row >= height || column >= width) continue;
        *reinterpret_cast<uint4*>(
            out + (static_cast<int64_t>(row) * width + column) * out_channels + chunk * 8) =
            *reinterpret_cast<const uint4*>(shared + pixel * S::kResultPitch + chunk * 16);
      }
      __syncthreads();
    }
  }
}

template <typename T, int kTaps, int kOutputs, int kRows, bool kHead>
cudaError_t launch(const ConcatConvolutionArguments& a, cudaStream_t stream) {
  using S = Shape<kTaps, kOutputs, kRows>;
  const auto kernel = &concat_conv2d_mma<T, kTaps, kOutputs, kRows, kHead>;
  const cudaError_t error = allow_shared_memory(kernel, S::kSharedBytes);
  if (error != cudaSuccess) return error;
  const int tiles_across = static_cast<int>((a.width + kColumns - 1) / kColumns);
  const int tiles_down = static_cast<int>((a.height + 4 * kRows - 1) / (4 * kRows));
  const int output_blocks = static_cast<int>(a.group_outputs) / kOutputs;
  const dim3 grid(static_cast<unsigned>(tiles_across) * tiles_down,
                  static_cast<unsigned>(a.groups) * output_blocks,
                  a.batch < kMaxGridZ ? static_cast<unsigned>(a.batch) : kMaxGridZ);
  kernel<<<grid, kThreads, S::kSharedBytes, stream>>>(a, tiles_across, output_blocks);
  return cudaGetLastError();
}

/// Blocks of the tall tile; where they would leave multiprocessors idle the low tile is taken.
int64_t tall_blocks(const ConcatConvolutionArguments& a, int outputs) {
  return (a.width + kColumns - 1) / kColumns * ((a.height + 15) / 16) * a.groups *
         (a.group_outputs / outputs) * a.batch;
}

template <typename T, int kTaps, int kOutputs, bool kHead>
cudaError_t choose_rows(const ConcatConvolutionArguments& a, cudaStream_t stream) {
  DeviceFacts device;
  const cudaError_t error = ask(&device);
  if (error != cudaSuccess) return error;
  return tall_blocks(a, kOutputs) >= 2 * device.processors
             ? launch<T, kTaps, kOutputs, 4, kHead>(a, stream)
             : launch<T, kTaps, kOutputs, 1, kHead>(a, stream);
}

template <typename T, int kTaps>
cudaError_t choose_outputs(const ConcatConvolutionArguments& a, cudaStream_t stream) {
  if (a.head_weight != nullptr) {
    return a.group_outputs == 32 ? choose_rows<T, kTaps, 32, true>(a, stream)
                                 : choose_rows<T, kTaps, 64, true>(a, stream);
  }
  if (a.group_outputs % 64 == 0) return choose_rows<T, kTaps, 64, false>(a, stream);
  if (a.group_outputs % 48 == 0) return choose_rows<T, kTaps, 48, false>(a, stream);
  if (a.group_outputs % 32 == 0) return choose_rows<T, kTaps, 32, false>(a, stream);
  return choose_rows<T, kTaps, 16, false>(a, stream);
}

template <typename T>
cudaError_t choose_taps(const ConcatConvolutionArguments& a, cudaStream_t stream) {
  return a.kernel_size == 3 ? choose_outputs<T, 9>(a, stream) : choose_outputs<T, 1>(a, stream);
}

}  // namespace

bool can_run_concat_conv2d_mma(const ConcatConvolutionArguments& a, std::string* why) {
  const auto no = [why](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (a.type != Type::kHalf && a.type != Type::kBFloat16) return no("not fp16 or bf16");
  if (a.kernel_size != 1 && a.kernel_size != 3) return no("a kernel other than 1x1 or 3x3");
  if (!a.inputs_are_dense) return no("an input is not channels_last");
  if (a.group_outputs % 16 != 0) return no("outputs of a group not in sixteens");
  if (a.head_weight != nullptr &&
      (a.groups != 1 || (a.group_outputs != 32 && a.group_outputs != 64))) {
    return no("a head on other than 32 or 64 channels");
  }
  if (a.height * a.width > (int64_t{1} << 30)) return no("a plane of more than 2^30 pixels");
  if (a.groups * (a.group_outputs / 16) > 65535) return no("more outputs than a grid holds");
  for (int i = 0; i < a.inputs; ++i) {
    const ConvolutionInput& input = a.input[i];
    if (input.group_channels == 0 || input.group_channels % kSlab != 0) {
      return no("channels of an input not in sixteens");
    }
    if (!aligned(input.data) || input.pixel_stride % 8 != 0) return no("an input is not aligned");
  }
  if (!aligned(a.weight) || !aligned(a.out)) return no("weight or output are not aligned");
  if (!current_device().is_ampere_or_later()) return no("compute capability below 8.0");
  return true;
}

cudaError_t launch_concat_conv2d_mma(const ConcatConvolutionArguments& arguments,
                                     cudaStream_t stream) {
  return arguments.type == Type::kHalf ? choose_taps<__half>(arguments, stream)
                                       : choose_taps<__nv_bfloat16>(arguments, stream);
}

}  // namespace hdfnet::ops::cuda
