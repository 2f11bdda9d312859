// A network's first convolution, from 1 or 3 channels to 64 (or more, in blocks of 64) in fp16 or
// bf16, on tensor cores.
//
// The reduction is so short (9 to 147 products) that the result's bytes bound it. A block stays on
// its multiprocessor and makes one tile of 32 x 8 results after the other; a warp has two rows.
// - x: any strides, each value read once for a tile (and its halo), rounded to the result's type
//   and laid into shared memory by planes. Where the reduction is short the next tile's values are
//   on their way while this one is multiplied.
// - operand A: 16 neighbouring pixels x 16 products (channel, row, column of the kernel), gathered
//   from the planes value by value.
// - operand B: the weight in shared memory, padded with zeros to sixteens of products; of a short
//   reduction it stays in registers. Its outputs are ordered so that a lane ends up with eight
//   neighbouring outputs of a pixel, which leave in one 16-byte access, four lanes side by side.
//
// FLOPs: 2 * O * C * K * K a result. Bytes: x once (the halo from the L2), the result once.
#include "cuda/device_facts.h"
#include "cuda/eight_outputs.cuh"
#include "cuda/scalar.cuh"
#include "cuda/stem_conv2d_arguments.h"
#include "cuda/tensor_core.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kOutputs = 64;  // of a block
constexpr int kColumns = 32;  // of a tile of results
constexpr int kRows = 8;
constexpr int kTileFragments = 4;  // of a warp: 16 pixels each, two in a row
constexpr int kPadding = -1;       // in the place of a product

template <int kChannels, int kKernel, int kStride>
struct Shape {
  static constexpr int kDepth = kChannels * kKernel * kKernel;
  static constexpr int kSteps = (kDepth + 15) / 16;
  static constexpr int kTileColumns = (kColumns - 1) * kStride + kKernel;
  static constexpr int kTileRows = (kRows - 1) * kStride + kKernel;
  static constexpr int kPlane = kTileColumns * kTileRows;
  static constexpr int kTile = kChannels * kPlane;
  static constexpr int kLoads = (kTile + kThreads - 1) / kThreads;
  static constexpr int kWeightPitch = kSteps * 16 + 8;  // elements; spreads the banks
  static constexpr bool kShort = kSteps <= 2;
  static constexpr int kFragments = kShort ? 1 : 2;  // that share an operand B
  static constexpr int kBlocks = kShort ? 4 : 3;     // on a multiprocessor
};

/// The two values of an operand's register; kPadding stands for a product that is only padding.
template <bool kPadded>
__device__ __forceinline__ unsigned gather(const unsigned short* pixel, int first, int second) {
  const unsigned low = kPadded && first == kPadding ? 0 : pixel[first];
  const unsigned high = kPadded && second == kPadding ? 0 : pixel[second];
  return low | high << 16;
}

template <typename T, typename In, int kChannels, int kKernel, int kStride>
__global__ void __launch_bounds__(kThreads, (Shape<kChannels, kKernel, kStride>::kBlocks))
    stem_conv2d_mma(const __grid_constant__ StemConvolutionArguments a, int tiles_across,
                    int tiles_down, int tiles) {
  using S = Shape<kChannels, kKernel, kStride>;
  __shared__ __align__(16) T weights[kOutputs * S::kWeightPitch];
  __shared__ __align__(16) float biases[kOutputs];
  __shared__ T planes[S::kTile];

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int height = static_cast<int>(a.height);
  const int width = static_cast<int>(a.width);
  const int first_output = static_cast<int>(blockIdx.y) * kOutputs;

  for (int i = threadIdx.x; i < kOutputs * S::kSteps * 16; i += kThreads) {
    const int row = i / (S::kSteps * 16);
    const int k = i % (S::kSteps * 16);
    const int64_t at = (first_output + output_of(row)) * a.weight_stride[0] +
                       k / (kKernel * kKernel) * a.weight_stride[1] +
                       k / kKernel % kKernel * a.weight_stride[2] +
                       k % kKernel * a.weight_stride[3];
    weights[row * S::kWeightPitch + k] =
        k < S::kDepth ? static_cast<const T*>(a.weight)[at] : from_sum<T>(0.0f);
  }
  if (threadIdx.x < kOutputs) {
    biases[threadIdx.x] =
        a.bias == nullptr
            ? 0.0f
            : to_sum(static_cast<const T*>(a.bias)[(first_output + threadIdx.x) * a.bias_stride]);
  }

  // Where the products that this lane gathers lie, from a pixel's first one.
  int place[S::kSteps][4];
#pragma unroll
  for (int step = 0; step < S::kSteps; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int k = step * 16 + i / 2 * 8 + lane % 4 * 2 + i % 2;
      place[step][i] = k < S::kDepth ? k / (kKernel * kKernel) * S::kPlane +
                                           k / kKernel % kKernel * S::kTileColumns + k % kKernel
                                     : kPadding;
    }
  }

  // Value i of a tile's planes, zero outside of x.
  const auto read = [&](int tile, int i) {
    const int channel = i / S::kPlane;
    const int row = tile / tiles_across % tiles_down * kRows * kStride - kKernel / 2 +
                    i % S::kPlane / S::kTileColumns;
    const int column =
        tile % tiles_across * kColumns * kStride - kKernel / 2 + i % S::kPlane % S::kTileColumns;
    const bool inside = i < S::kTile && row >= 0 && row < static_cast<int>(a.x_height) &&
                        column >= 0 && column < static_cast<int>(a.x_width);
    if (!inside) return from_sum<In>(0.0f);
    const In* const image =
        static_cast<const In*>(a.x) + tile / tiles_across / tiles_down * a.x_stride[0];
    return image[channel * static_cast<int>(a.x_stride[1]) + row * static_cast<int>(a.x_stride[2]) +
                 column * static_cast<int>(a.x_stride[3])];
  };
  In ahead[S::kShort ? S::kLoads : 1];
  const auto read_ahead = [&](int tile) {
#pragma unroll
    for (int j = 0; j < S::kLoads; ++j) {
      ahead[j] = read(tile, j * kThreads + static_cast<int>(threadIdx.x));
    }
  };

  unsigned b[S::kShort ? S::kSteps : 1][kOutputs / 16][4];
  const auto load_b = [&](int step, unsigned(&to)[kOutputs / 16][4]) {
#pragma unroll
    for (int pair = 0; pair < kOutputs / 16; ++pair) {
      const int row = pair * 16 + lane % 8 + lane / 16 * 8;
      load_matrices(to[pair], weights + row * S::kWeightPitch + step * 16 + lane / 8 % 2 * 8);
    }
  };
  __syncthreads();
  if constexpr (S::kShort) {
    read_ahead(static_cast<int>(blockIdx.x));
#pragma unroll
    for (int step = 0; step < S::kSteps; ++step) load_b(step, b[step]);
  }

  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += gridDim.x) {
    __syncthreads();  // the tile before has been read
    if constexpr (S::kShort) {
#pragma unroll
      for (int j = 0; j < S::kLoads; ++j) {
        const int i = j * kThreads + static_cast<int>(threadIdx.x);
        if (i < S::kTile) planes[i] = from_sum<T>(to_sum(ahead[j]));
      }
    } else {
#pragma unroll 8
      for (int i = threadIdx.x; i < S::kTile; i += kThreads) {
        planes[i] = from_sum<T>(to_sum(read(tile, i)));
      }
    }
    __syncthreads();
    if constexpr (S::kShort) {
      if (tile + static_cast<int>(gridDim.x) < tiles) read_ahead(tile + gridDim.x);
    }

    const int first_column = tile % tiles_across * kColumns;
    const int first_row = tile / tiles_across % tiles_down * kRows;
    T* const out =
        static_cast<T*>(a.out) +
        static_cast<int64_t>(tile / tiles_across / tiles_down) * height * width * a.outputs +
        first_output + lane % 4 * 8;
#pragma unroll
    for (int first = 0; first < kTileFragments; first += S::kFragments) {
      const int tile_row = warp * 2 + first / 2;
      const int row = first_row + tile_row;
      if (row >= height) continue;

      float sum[S::kFragments][kOutputs / 8][4];
#pragma unroll
      for (int f = 0; f < S::kFragments; ++f) begin_with<kOutputs>(biases, lane, sum[f]);

#pragma unroll
      for (int step = 0; step < S::kSteps; ++step) {
        if constexpr (!S::kShort) load_b(step, b[0]);
        unsigned(&operand_b)[kOutputs / 16][4] = b[S::kShort ? step : 0];
#pragma unroll
        for (int f = 0; f < S::kFragments; ++f) {
          const unsigned short* const pixel = reinterpret_cast<const unsigned short*>(planes) +
                                              tile_row * kStride * S::kTileColumns +
                                              ((first + f) % 2 * 16 + lane / 4) * kStride;
          const int(&at)[4] = place[step];
          unsigned operand[4];
          if (step * 16 + 16 <= S::kDepth) {
            operand[0] = gather<false>(pixel, at[0], at[1]);
            operand[1] = gather<false>(pixel + 8 * kStride, at[0], at[1]);
            operand[2] = gather<false>(pixel, at[2], at[3]);
            operand[3] = gather<false>(pixel + 8 * kStride, at[2], at[3]);
          } else {
            operand[0] = gather<true>(pixel, at[0], at[1]);
            operand[1] = gather<true>(pixel + 8 * kStride, at[0], at[1]);
            operand[2] = gather<true>(pixel, at[2], at[3]);
            operand[3] = gather<true>(pixel + 8 * kStride, at[2], at[3]);
          }
#pragma unroll
          for (int pair = 0; pair < kOutputs / 16; ++pair) {
            multiply_add(sum[f][2 * pair], operand, operand_b[pair][0], operand_b[pair][1], T());
            multiply_add(sum[f][2 * pair + 1], operand, operand_b[pair][2], operand_b[pair][3],
                         T());
          }
        }
      }

#pragma unroll
      for (int f = 0; f < S::kFragments; ++f) {
#pragma unroll
        for (int p = 0; p < 2; ++p) {
          const int column = first_column + (first + f) % 2 * 16 + lane / 4 + p * 8;
          if (column >= width) continue;
          store_outputs<kOutputs>(sum[f], p, a.relu,
                                  out + (static_cast<int64_t>(row) * width + column) * a.outputs);
        }
      }
    }
  }
}

int64_t tiles_of(const StemConvolutionArguments& a) {
  return (a.width + kColumns - 1) / kColumns * ((a.height + kRows - 1) / kRows) * a.batch;
}

template <typename T, typename In, int kChannels, int kKernel, int kStride>
cudaError_t launch(const StemConvolutionArguments& a, cudaStream_t stream) {
  using S = Shape<kChannels, kKernel, kStride>;
  DeviceFacts device;
  const cudaError_t error = ask(&device);
  if (error != cudaSuccess) return error;
  const int tiles = static_cast<int>(tiles_of(a));
  const int blocks =
      tiles < device.processors * S::kBlocks ? tiles : device.processors * S::kBlocks;
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(a.outputs / kOutputs));
  stem_conv2d_mma<T, In, kChannels, kKernel, kStride>
      <<<grid, kThreads, 0, stream>>>(a, static_cast<int>((a.width + kColumns - 1) / kColumns),
                                      static_cast<int>((a.height + kRows - 1) / kRows), tiles);
  return cudaGetLastError();
}

template <typename T, typename In>
cudaError_t choose_shape(const StemConvolutionArguments& a, cudaStream_t stream) {
  if (a.kernel_size == 3) {
    return a.channels == 1 ? launch<T, In, 1, 3, 1>(a, stream) : launch<T, In, 3, 3, 1>(a, stream);
  }
  return a.channels == 1 ? launch<T, In, 1, 7, 2>(a, stream) : launch<T, In, 3, 7, 2>(a, stream);
}

template <typename T>
cudaError_t choose_input(const StemConvolutionArguments& a, cudaStream_t stream) {
  return a.x_type == Type::kFloat ? choose_shape<T, float>(a, stream)
                                  : choose_shape<T, T>(a, stream);
}

}  // namespace

bool can_run_stem_conv2d_mma(const StemConvolutionArguments& a, std::string* why) {
  const auto no = [why](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (a.type != Type::kHalf && a.type != Type::kBFloat16) return no("not fp16 or bf16");
  if (a.x_type != Type::kFloat && a.x_type != a.type) return no("x is of another 16-bit type");
  if (!(a.kernel_size == 3 && a.stride == 1) && !(a.kernel_size == 7 && a.stride == 2)) {
    return no("neither 3x3 with stride 1 nor 7x7 with stride 2");
  }
  if (a.channels != 1 && a.channels != 3) return no("neither 1 nor 3 channels");
  if (a.outputs % kOutputs != 0 || a.outputs > 65535) return no("outputs not in sixty-fours");
  if (tiles_of(a) > (1 << 30)) return no("more than 2^30 tiles");
  const int64_t last = (a.channels - 1) * a.x_stride[1] + (a.x_height - 1) * a.x_stride[2] +
                       (a.x_width - 1) * a.x_stride[3];
  if (last > (1 << 30)) return no("an image of more than 2^30 values");
  if (reinterpret_cast<uintptr_t>(a.out) % 16 != 0) return no("the output is not aligned");
  if (!current_device().is_ampere_or_later()) return no("compute capability below 8.0");
  return true;
}

cudaError_t launch_stem_conv2d_mma(const StemConvolutionArguments& arguments, cudaStream_t stream) {
  return arguments.type == Type::kHalf ? choose_input<__half>(arguments, stream)
                                       : choose_input<__nv_bfloat16>(arguments, stream);
}

}  // namespace hdfnet::ops::cuda
