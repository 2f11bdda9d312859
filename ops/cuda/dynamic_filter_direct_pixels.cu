// dynamic_filter where channels are innermost, K 3.
//
// Layout: as dynamic_filter_pixels.cu: kernels are one run of units, the 9 taps of some channels of
// a branch of a pixel. Mapping: one thread a unit of 8 bytes of results, or of 4 where no more are
// aligned. A warp copies its 32 units, 16 bytes a lane and instruction, to a part of shared memory
// that no other warp sees, and its threads ask for x at the same time: one latency, no barrier of
// the block, and no warp waits for another. A thread's words lie 9 words (or pairs of words) from
// the next thread's, so a warp finds them in separate banks. x comes through the L1. What comes
// before the first read runs while the launch before ends. Bytes and FLOPs: as
// dynamic_filter_pixels.cu. Figures: ops/README.md.
#include "cuda/early_launch.cuh"
#include "cuda/filter_words.cuh"
#include "cuda/tensor_core.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kK = 3;
constexpr int kTaps = kK * kK;
constexpr int kPiece = 4;  // words that a lane copies at once
/// HalfDivisor is exact below 2^31, and the last block goes beyond the units.
constexpr int64_t kMostUnits = (int64_t{1} << 31) - kThreads;
/// Blocks of a multiprocessor for which nvcc must keep registers: as in dynamic_filter_direct.cu.
constexpr int kLeastBlocks = 1;

struct Order {
  HalfDivisor units, branches, width, height;  // units: of a branch of a pixel
};

/// What is read where x lies outside: so every load is there, without conditions.
__device__ const uint2 zero = {0, 0};

template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads, kLeastBlocks)
    filter_direct_pixels(const __grid_constant__ FilterArguments a,
                         const __grid_constant__ Order order, unsigned units) {
  using W = Word<T, kVector>;
  using Bits = typename W::Bits;
  constexpr int kUnitWords = kTaps * static_cast<int>(sizeof(Bits)) / 4;
  constexpr int kWarpWords = 32 * kUnitWords;
  __shared__ __align__(16) unsigned shared[kThreads * kUnitWords];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const unsigned unit = blockIdx.x * kThreads + threadIdx.x;
  const bool real = unit < units;
  const unsigned first = unit - lane;  // of the warp
  unsigned* const taps_of_warp = shared + (threadIdx.x - lane) * kUnitWords;
  unsigned* piece_here = taps_of_warp + kPiece * lane;
  const unsigned* piece_there = static_cast<const unsigned*>(a.kernels) +
                                static_cast<int64_t>(first) * kUnitWords + kPiece * lane;
  const int words_left =
      static_cast<int>(min(units - min(first, units), 32u)) * kUnitWords - kPiece * lane;
  unsigned rest = unit;
  const int c = order.units.split(rest) * kVector;
  const int b = order.branches.split(rest);
  const int64_t pixel = rest;
  const int w = order.width.split(rest);
  const int h = order.height.split(rest);
  const int dilation = a.dilation[b];
  // Offsets within an image fit in 32 bits.
  const int x_h = static_cast<int>(a.x_stride[2]);
  const int x_w = static_cast<int>(a.x_stride[3]);
  const int step_h = x_h * dilation;
  const int step_w = x_w * dilation;
  const T* const x = static_cast<const T*>(a.x) + rest * a.x_stride[0] + c + (h * x_h + w * x_w);
  T* const out = static_cast<T*>(a.out) + pixel * a.out_stride[3] + c;
  const Bits* from[kTaps];
#pragma unroll
  for (int i = 0; i < kK; ++i) {
    const int row = h + (i - kK / 2) * dilation;
    const bool row_inside = real && static_cast<unsigned>(row) < static_cast<unsigned>(a.height);
#pragma unroll
    for (int j = 0; j < kK; ++j) {
      const int column = w + (j - kK / 2) * dilation;
      const bool inside =
          row_inside && static_cast<unsigned>(column) < static_cast<unsigned>(a.width);
      const T* const there = x + ((i - kK / 2) * step_h + (j - kK / 2) * step_w);
      from[i * kK + j] = reinterpret_cast<const Bits*>(inside ? static_cast<const void*>(there)
                                                              : static_cast<const void*>(&zero));
    }
  }

  compute_early(piece_here);
  compute_early(piece_there);
#pragma unroll
  for (int t = 0; t < kTaps; ++t) compute_early(from[t]);
  let_next_launch_begin();
  wait_for_launch_before();
  Bits values[kTaps];
#pragma unroll
  for (int t = 0; t < kTaps; ++t) values[t] = load_inside(from[t], true);
#pragma unroll
  for (int i = 0; i < kWarpWords; i += kPiece * 32) {
    if (i >= words_left) continue;
#if HDFNET_ASYNCHRONOUS_COPIES
    copy_async<16>(piece_here + i, piece_there + i, true);
#else
    *reinterpret_cast<uint4*>(piece_here + i) = *reinterpret_cast<const uint4*>(piece_there + i);
#endif
  }
  wait_for_copies();
  __syncwarp();
  if (!real) return;

  // Element e of the unit is tap e % K*K of channel e / K*K.
  const auto* const taps = reinterpret_cast<const Bits*>(taps_of_warp + lane * kUnitWords);
  float tap[kVector][kTaps];
#pragma unroll
  for (int i = 0; i < kTaps; ++i) {
    float elements[kVector];
    W::unpack(taps[i], elements);
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      const int e = i * kVector + v;
      tap[e / kTaps][e % kTaps] = elements[v];
    }
  }
  float sum[kVector] = {};
#pragma unroll
  for (int i = 0; i < kK; ++i) {
    float row_sum[kVector] = {};
#pragma unroll
    for (int j = 0; j < kK; ++j) {
      float value[kVector];
      W::unpack(values[i * kK + j], value);
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        row_sum[v] = fmaf(value[v], tap[v][i * kK + j], row_sum[v]);
      }
    }
#pragma unroll
    for (int v = 0; v < kVector; ++v) sum[v] += row_sum[v];
  }
  *reinterpret_cast<Bits*>(out + a.output_channel + b * a.channels) = W::pack(sum);
  if (a.concat_input && b == 0) *reinterpret_cast<Bits*>(out) = values[kTaps / 2];
}

/// Bytes of results of a thread.
int bytes_of_thread(const FilterArguments& a) {
  return a.channels * size_of(a.type) % 8 == 0 && pixels_aligned(a, 8) ? 8 : 4;
}

template <typename T, int kBytes>
cudaError_t launch(const FilterArguments& a, cudaStream_t stream) {
  constexpr int kVector = kBytes / static_cast<int>(sizeof(T));
  const int64_t units = a.channels / kVector;
  const int64_t all = a.batch * a.height * a.width * a.branches * units;
  const Order order{HalfDivisor(units), HalfDivisor(a.branches), HalfDivisor(a.width),
                    HalfDivisor(a.height)};
  return launch_early(filter_direct_pixels<T, kVector>,
                      dim3(static_cast<unsigned>(ceil_div(all, kThreads))), kThreads, 0, stream, a,
                      order, static_cast<unsigned>(all));
}

}  // namespace

bool can_run_filter_direct_pixels(const FilterArguments& a, std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (!can_run_filter_pixels(a, why)) return false;
  if (a.kernel_size != kK) return no("kernel size other than 3");
  const int64_t words = words_of_results(a);
  if (words > kMostUnits) return no("more than 2^31 - 256 words of results");
  if (words * kTaps % 4 != 0) return no("kernels are no multiple of 16 bytes");
  return true;
}

cudaError_t launch_filter_direct_pixels(const FilterArguments& a, cudaStream_t stream) {
  return with_fast_type(a.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return bytes_of_thread(a) == 8 ? launch<T, 8>(a, stream) : launch<T, 4>(a, stream);
  });
}

}  // namespace hdfnet::ops::cuda
