// A network's first 3x3 convolution in exact float32: 1 or 3 channels to 64 (or more, in blocks).
//
// Block: eight warps, a tile of 8 rows x 32 results; a warp has one row, a lane two outputs, whose
// weights stay in registers. Four results at a time read 3 x 6 values of each channel, the same for
// all lanes, from the tile in shared memory. A pixel's outputs leave as one row of 256 bytes.
//
// FLOPs: 2 * O * C * 9 a result. Bytes: x once (the halo from the L2), the result once, which
// bounds it with 1 channel; with 3 the multiplications do.
#include "cuda/device_facts.h"
#include "cuda/stem_conv2d_arguments.h"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 32;  // of a tile of results
constexpr int kRows = kThreads / 32;
constexpr int kOutputs = 64;  // of a block
constexpr int kKernel = 3;
constexpr int kAtOnce = 4;  // results of a lane
constexpr int kPitch = kColumns + 4;
constexpr int kTileRows = kRows + kKernel - 1;
constexpr int kMaxGrid = 65535;

template <int kChannels>
__global__ void __launch_bounds__(kThreads)
    stem_conv2d_scalar(const __grid_constant__ StemConvolutionArguments a, int tiles_across,
                       int tiles_down, int64_t tiles) {
  __shared__ __align__(16) float planes[kChannels][kTileRows][kPitch];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first_output = static_cast<int>(blockIdx.y) * kOutputs + lane * 2;
  float weight[kChannels][kKernel][kKernel][2];
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
#pragma unroll
    for (int i = 0; i < kKernel; ++i) {
#pragma unroll
      for (int j = 0; j < kKernel; ++j) {
#pragma unroll
        for (int o = 0; o < 2; ++o) {
          weight[c][i][j][o] = static_cast<const float*>(
              a.weight)[(first_output + o) * a.weight_stride[0] + c * a.weight_stride[1] +
                        i * a.weight_stride[2] + j * a.weight_stride[3]];
        }
      }
    }
  }
  float bias[2] = {0, 0};
  if (a.bias != nullptr) {
    for (int o = 0; o < 2; ++o) {
      bias[o] = static_cast<const float*>(a.bias)[(first_output + o) * a.bias_stride];
    }
  }
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int first_column = static_cast<int>(tile % tiles_across) * kColumns;
    const int first_row = static_cast<int>(tile / tiles_across % tiles_down) * kRows;
    const int64_t image = tile / tiles_across / tiles_down;
    const float* const x = static_cast<const float*>(a.x) + image * a.x_stride[0];
    __syncthreads();  // the tile before has been read
    for (int i = static_cast<int>(threadIdx.x); i < kChannels * kTileRows * kPitch; i += kThreads) {
      const int c = i / (kTileRows * kPitch);
      const int tile_row = i / kPitch % kTileRows;
      const int row = first_row + tile_row - 1;
      const int column = first_column + i % kPitch - 1;
      const bool inside = row >= 0 && row < a.x_height && column >= 0 && column < a.x_width;
      planes[c][tile_row][i % kPitch] =
          inside ? x[c * a.x_stride[1] + row * a.x_stride[2] + column * a.x_stride[3]] : 0.0f;
    }
    __syncthreads();
    const int row = first_row + warp;
    if (row >= a.height) continue;
    for (int column = 0; column < kColumns && first_column + column < a.width; column += kAtOnce) {
      float sum[kAtOnce][2];
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
        sum[p][0] = bias[0];
        sum[p][1] = bias[1];
      }
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
#pragma unroll
        for (int i = 0; i < kKernel; ++i) {
          float value[kAtOnce + 2];
#pragma unroll
          for (int v = 0; v < kAtOnce + 2; v += 2) {
            const float2 pair = *reinterpret_cast<const float2*>(&planes[c][warp + i][column + v]);
            value[v] = pair.x;
            value[v + 1] = pair.y;
          }
#pragma unroll
          for (int j = 0; j < kKernel; ++j) {
#pragma unroll
            for (int p = 0; p < kAtOnce; ++p) {
#pragma unroll
              for (int o = 0; o < 2; ++o) sum[p][o] += weight[c][i][j][o] * value[p + j];
            }
          }
        }
      }
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
        if (first_column + column + p >= a.width) break;
        float2 result = make_float2(sum[p][0], sum[p][1]);
        if (a.relu) {
          if (result.x < 0) result.x = 0;  // NaN stays
          if (result.y < 0) result.y = 0;
        }
        const int64_t pixel = (image * a.height + row) * a.width + first_column + column + p;
        *reinterpret_cast<float2*>(static_cast<float*>(a.out) + pixel * a.outputs + first_output) =
            result;
      }
    }
  }
}

template <int kChannels>
cudaError_t launch(const StemConvolutionArguments& a, cudaStream_t stream) {
  DeviceFacts device;
  const cudaError_t error = ask(&device);
  if (error != cudaSuccess) return error;
  const int across = static_cast<int>((a.width + kColumns - 1) / kColumns);
  const int down = static_cast<int>((a.height + kRows - 1) / kRows);
  const int64_t tiles = int64_t{across} * down * a.batch;
  const int64_t most = int64_t{device.processors} * 4;
  const dim3 grid(static_cast<unsigned>(tiles < most ? tiles : most),
                  static_cast<unsigned>(a.outputs / kOutputs));
  stem_conv2d_scalar<kChannels><<<grid, kThreads, 0, stream>>>(a, across, down, tiles);
  return cudaGetLastError();
}

}  // namespace

bool can_run_stem_conv2d_scalar(const StemConvolutionArguments& a, std::string* why) {
  const auto no = [why](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (a.type != Type::kFloat || a.x_type != Type::kFloat) return no("not float32");
  if (a.kernel_size != kKernel || a.stride != 1) return no("other than 3x3 with stride 1");
  if (a.channels != 1 && a.channels != 3) return no("channels other than 1 or 3");
  if (a.outputs == 0 || a.outputs % kOutputs != 0 || a.outputs / kOutputs > kMaxGrid) {
    return no("outputs not in sixty-fours");
  }
  if (a.height > (1 << 24) || a.width > (1 << 24)) return no("more than 2^24 rows or columns");
  return true;
}

cudaError_t launch_stem_conv2d_scalar(const StemConvolutionArguments& a, cudaStream_t stream) {
  return a.channels == 1 ? launch<1>(a, stream) : launch<3>(a, stream);
}

}  // namespace hdfnet::ops::cuda
