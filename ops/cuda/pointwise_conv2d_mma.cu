// 1x1 convolution of one channels_last map in fp16 or bf16, on tensor cores: few products a byte,
// so that the memory bounds it.
//
// A block stays on its multiprocessor and takes one tile of 64 or 128 pixels after the other, in
// any image: the pixels of a batch are one row. Slabs of 64 channels, a pixel's 128 bytes, are
// copied by cp.async in four stages that run on from tile to tile.
// - weight: a block's outputs for all channels, which come into shared memory with the first tile's
//   slabs and stay.
// - operands: by ldmatrix. A row of 128 bytes, of a pixel or an output, is eight chunks, exchanged
//   so that eight rows lie in all banks.
// - result: from the registers in 16-byte stores (eight_outputs.cuh).
//
// FLOPs: 2 * O * I a pixel. Bytes: the input once for each block of outputs, the output once.
#include "cuda/concat_conv2d_arguments.h"
#include "cuda/device_facts.h"
#include "cuda/eight_outputs.cuh"
#include "cuda/scalar.cuh"
#include "cuda/shared_limit.h"
#include "cuda/tensor_core.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kSlab = 64;       // channels
constexpr int kRowBytes = 128;  // of a slab, for a pixel or an output
constexpr int kStages = 4;
constexpr int kFragmentPixels = kThreads / 32 * 16;  // of a tile, for each fragment of a warp
constexpr int kMostShared = 192 * 1024;
constexpr int kSharedOfProcessor = 224 * 1024;

/// Where 16-byte chunk `chunk` of row `row` lies, in bytes.
__device__ __forceinline__ int chunk_at(int row, int chunk) {
  return row * kRowBytes + ((chunk ^ (row & 7)) << 4);
}

int shared_bytes(int fragments, int outputs, int slabs) {
  return kStages * fragments * kFragmentPixels * kRowBytes + slabs * outputs * kRowBytes;
}

/// 64 where their weights fit, else 32.
int outputs_of_block(const ConcatConvolutionArguments& a) {
  const int slabs = static_cast<int>(a.group_inputs) / kSlab;
  return a.group_outputs % 64 == 0 && shared_bytes(2, 64, slabs) <= kMostShared ? 64 : 32;
}

/// Which slab of which of the block's tiles.
struct Item {
  int64_t tile;
  int slab;

  __device__ __forceinline__ void advance(int slabs) {
    if (++slab < slabs) return;
    slab = 0;
    tile += gridDim.x;
  }
};

template <typename T, int kOutputs, int kFragments>
__global__ void __launch_bounds__(kThreads)
    pointwise_conv2d_mma(const __grid_constant__ ConcatConvolutionArguments a, int64_t pixels,
                         int64_t tiles, int slabs) {
  constexpr int kPixels = kFragments * kFragmentPixels;
  constexpr int kStageBytes = kPixels * kRowBytes;
  constexpr int kWeightBytes = kOutputs * kRowBytes;  // of a slab
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ __align__(16) float biases[kOutputs];
  unsigned char* const weights = shared + kStages * kStageBytes;

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int first_output = static_cast<int>(blockIdx.y) * kOutputs;
  const T* const x = static_cast<const T*>(a.input[0].data);
  const int64_t x_step = a.input[0].pixel_stride;
  const int64_t first_tile = blockIdx.x;

  if (threadIdx.x < kOutputs) {
    biases[threadIdx.x] = a.bias == nullptr
                              ? 0.0f
                              : to_sum(static_cast<const T*>(a.bias)[first_output + threadIdx.x]);
  }
  const auto copy = [&](const Item& item, int stage) {
#pragma unroll
    for (int i = threadIdx.x; i < kPixels * 8; i += kThreads) {
      const int64_t pixel = item.tile * kPixels + i / 8;
      const bool real = pixel < pixels;
      const T* const from = x + (real ? pixel : 0) * x_step + item.slab * kSlab + i % 8 * 8;
      copy_async<16>(shared + stage * kStageBytes + chunk_at(i / 8, i % 8), from, real);
    }
    if (item.tile != first_tile) return;
#pragma unroll
    for (int i = threadIdx.x; i < kOutputs * 8; i += kThreads) {
      const T* const from = static_cast<const T*>(a.weight) +
                            (first_output + output_of(i / 8)) * a.group_inputs + item.slab * kSlab +
                            i % 8 * 8;
      copy_async<16>(weights + item.slab * kWeightBytes + chunk_at(i / 8, i % 8), from, true);
    }
  };

  Item next = {first_tile, 0};
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (next.tile < tiles) copy(next, stage);
    next.advance(slabs);
    end_copy_group();
  }
  float sum[kFragments][kOutputs / 8][4];
  int stage = 0;
  for (Item item = {first_tile, 0}; item.tile < tiles; item.advance(slabs)) {
    wait_for_copy_groups<kStages - 2>();
    __syncthreads();  // everyone's copies are there, and the stage before has been read
    if (next.tile < tiles) copy(next, (stage + kStages - 1) % kStages);
    next.advance(slabs);
    end_copy_group();

    if (item.slab == 0) {
#pragma unroll
      for (int f = 0; f < kFragments; ++f) begin_with<kOutputs>(biases, lane, sum[f]);
    }
    const unsigned char* const rows = shared + stage * kStageBytes;
    const unsigned char* const weight = weights + item.slab * kWeightBytes;
#pragma unroll
    for (int step = 0; step < kSlab / 16; ++step) {
      unsigned b[kOutputs / 16][4];
#pragma unroll
      for (int pair = 0; pair < kOutputs / 16; ++pair) {
        const int row = pair * 16 + lane % 8 + lane / 16 * 8;
        load_matrices(b[pair], weight + chunk_at(row, step * 2 + lane / 8 % 2));
      }
#pragma unroll
      for (int f = 0; f < kFragments; ++f) {
        unsigned operand[4];
        const int row = (warp * kFragments + f) * 16 + lane % 16;
        load_matrices(operand, rows + chunk_at(row, step * 2 + lane / 16));
#pragma unroll
        for (int pair = 0; pair < kOutputs / 16; ++pair) {
          multiply_add(sum[f][2 * pair], operand, b[pair][0], b[pair][1], T());
          multiply_add(sum[f][2 * pair + 1], operand, b[pair][2], b[pair][3], T());
        }
      }
    }
    stage = (stage + 1) % kStages;
    if (item.slab != slabs - 1) continue;
#pragma unroll
    for (int f = 0; f < kFragments; ++f) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t pixel =
            item.tile * kPixels + (warp * kFragments + f) * 16 + lane / 4 + half * 8;
        if (pixel >= pixels) continue;
        store_outputs<kOutputs>(
            sum[f], half, a.relu,
            static_cast<T*>(a.out) + pixel * a.group_outputs + first_output + lane % 4 * 8);
      }
    }
  }
}

template <typename T, int kOutputs, int kFragments>
cudaError_t launch(const ConcatConvolutionArguments& a, int processors, cudaStream_t stream) {
  const int slabs = static_cast<int>(a.group_inputs) / kSlab;
  const int bytes = shared_bytes(kFragments, kOutputs, slabs);
  const auto kernel = &pointwise_conv2d_mma<T, kOutputs, kFragments>;
  const cudaError_t error = allow_shared_memory(kernel, bytes);
  if (error != cudaSuccess) return error;
  const int64_t pixels = a.batch * a.height * a.width;
  constexpr int kPixels = kFragments * kFragmentPixels;
  const int64_t tiles = (pixels + kPixels - 1) / kPixels;
  const int64_t most = int64_t{processors} * (kSharedOfProcessor / bytes);
  const dim3 grid(static_cast<unsigned>(tiles < most ? tiles : most),
                  static_cast<unsigned>(a.group_outputs / kOutputs));
  kernel<<<grid, kThreads, bytes, stream>>>(a, pixels, tiles, slabs);
  return cudaGetLastError();
}

template <typename T, int kOutputs>
cudaError_t choose_tile(const ConcatConvolutionArguments& a, cudaStream_t stream) {
  DeviceFacts device;
  const cudaError_t error = ask(&device);
  if (error != cudaSuccess) return error;
  // Where large tiles would leave multiprocessors idle, small ones.
  const int64_t large = a.batch * a.height * a.width / (2 * kFragmentPixels);
  return large >= 2 * device.processors ? launch<T, kOutputs, 2>(a, device.processors, stream)
                                        : launch<T, kOutputs, 1>(a, device.processors, stream);
}

template <typename T>
cudaError_t choose_outputs(const ConcatConvolutionArguments& a, cudaStream_t stream) {
  return outputs_of_block(a) == 64 ? choose_tile<T, 64>(a, stream) : choose_tile<T, 32>(a, stream);
}

int most_shared_of_device() {
  int device = 0;
  int bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  return cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) ==
                 cudaSuccess
             ? bytes
             : 0;
}

}  // namespace

bool can_run_pointwise_conv2d_mma(const ConcatConvolutionArguments& a, std::string* why) {
  const auto no = [why](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (!can_run_concat_conv2d_mma(a, why)) return false;
  if (a.kernel_size != 1) return no("a kernel other than 1x1");
  if (a.inputs != 1 || a.groups != 1) return no("more than one input or group");
  if (a.head_weight != nullptr) return no("a head");
  if (a.group_inputs % kSlab != 0) return no("channels not in sixty-fours");
  if (a.group_outputs % 32 != 0 || a.group_outputs > 65535) return no("outputs not in thirty-twos");
  if (a.group_inputs > 4096) return no("more than 4096 channels");
  const int bytes = shared_bytes(2, outputs_of_block(a), static_cast<int>(a.group_inputs) / kSlab);
  if (bytes > kMostShared || bytes + 256 > most_shared_of_device()) {
    return no("more weights than shared memory holds");
  }
  return true;
}

cudaError_t launch_pointwise_conv2d_mma(const ConcatConvolutionArguments& arguments,
                                        cudaStream_t stream) {
  return arguments.type == Type::kHalf ? choose_outputs<__half>(arguments, stream)
                                       : choose_outputs<__nv_bfloat16>(arguments, stream);
}

}  // namespace hdfnet::ops::cuda
