// dynamic_filter where channels are innermost, K 3 (compute capability 9.0).
//
// Layout: as dynamic_filter_pixels.cu: kernels are one run of units, each the 9 words of the taps
// of one channel (float) or of two (two-byte types); a pixel has the same number of units, all
// branches and channels of it. Mapping: one thread a unit, a block a few whole pixels at a time, so
// that a thread keeps its branch and channel, and with them all of its offsets, while it walks over
// the pixels. One warp asks the copy engine for the next pixels' units, as one run, into a ring. x
// comes through the L1, for which the rings leave room. Bytes and FLOPs: as
// dynamic_filter_pixels.cu, which spends 390 instructions on a unit; this one 230. Figures:
// ops/README.md.
#include <algorithm>

#include "cuda/early_launch.cuh"
#include "cuda/filter_words.cuh"
#include "cuda/hopper.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kK = 3;
constexpr int kTaps = kK * kK;
constexpr int kMostUnits = 256;  // of a block's step
constexpr int kThreads = kMostUnits + 32;
constexpr int kLeastBlocks = 4;  // of a multiprocessor
constexpr int kBarrierBytes = 128;
constexpr int kStages = 3;  // more leave less for the L1: 6 cost 6 %

struct Walk {
  int units;   // of a pixel
  int pixels;  // of a step
  int users;   // threads that filter, in whole warps; one warp more copies
  int stage_bytes;
  unsigned steps;                         // of the whole call
  unsigned order;                         // kSameOrder
  int batch_step, row_step, column_step;  // from a block's step to its next
};

template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads, kLeastBlocks)
    filter_pixel_ring(const __grid_constant__ FilterArguments a,
                      const __grid_constant__ Walk walk) {
  using W = Word<T, kVector>;
  extern __shared__ __align__(128) unsigned char shared[];
  uint64_t* const full = reinterpret_cast<uint64_t*>(shared);
  uint64_t* const empty = full + kStages;
  unsigned char* const ring = shared + kBarrierBytes;
  let_next_launch_begin();
  const unsigned pixels = static_cast<unsigned>(a.batch * a.height * a.width);
  const int users = walk.users;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      start_barrier(full + i, 1);
      start_barrier(empty + i, users);
    }
    publish_barriers();
  }
  __syncthreads();
  wait_for_launch_before();

  int stage = 0;
  uint32_t parity = 0;
  const auto advance = [&] {
    if (++stage == kStages) stage = 0, parity ^= 1;
  };
  if (static_cast<int>(threadIdx.x) >= users) {
    if (static_cast<int>(threadIdx.x) != users) return;
    for (unsigned step = blockIdx.x; step < walk.steps; step += gridDim.x) {
      const unsigned first = step * static_cast<unsigned>(walk.pixels);
      const int count = static_cast<int>(min(static_cast<unsigned>(walk.pixels), pixels - first));
      const int bytes = count * walk.units * kTaps * 4;
      wait(empty + stage, parity ^ 1);
      arrive_and_expect(full + stage, bytes);
      copy_run(ring + stage * walk.stage_bytes,
               static_cast<const unsigned*>(a.kernels) +
                   static_cast<int64_t>(first) * walk.units * kTaps,
               bytes, full + stage);
      advance();
    }
    return;
  }

  const int width = static_cast<int>(a.width);
  const int height = static_cast<int>(a.height);
  const int unit = static_cast<int>(threadIdx.x) % walk.units;
  const int of_step = static_cast<int>(threadIdx.x) / walk.units;
  const int words = static_cast<int>(a.channels) / kVector;
  const int b = unit / words;
  const int c = (unit - b * words) * kVector;
  const int dilation = a.dilation[b];
  const int x_h = static_cast<int>(a.x_stride[2]);
  const int x_w = static_cast<int>(a.x_stride[3]);
  unsigned pixel = blockIdx.x * static_cast<unsigned>(walk.pixels) + of_step;
  int w = static_cast<int>(pixel % static_cast<unsigned>(width));
  int h = static_cast<int>(pixel / static_cast<unsigned>(width) % static_cast<unsigned>(height));
  int n = static_cast<int>(pixel / static_cast<unsigned>(width) / static_cast<unsigned>(height));
  const bool used = of_step < walk.pixels;
  const T* const x = static_cast<const T*>(a.x) + c;
  T* const out = static_cast<T*>(a.out) + c;
  const int64_t result = a.output_channel + b * a.channels;
  const unsigned* const taps_of_thread =
      reinterpret_cast<const unsigned*>(ring) + threadIdx.x * kTaps;

  for (unsigned step = blockIdx.x; step < walk.steps; step += gridDim.x) {
    // x is asked for before the taps are waited for.
    const bool inside = used && pixel < pixels;
    unsigned values[kTaps];
    bool column_inside[kK];
#pragma unroll
    for (int j = 0; j < kK; ++j) {
      column_inside[j] =
          static_cast<unsigned>(w + (j - kK / 2) * dilation) < static_cast<unsigned>(width);
    }
    const T* const from = x + n * a.x_stride[0] + (h * x_h + w * x_w);
#pragma unroll
    for (int i = 0; i < kK; ++i) {
      const bool row_inside = inside && static_cast<unsigned>(h + (i - kK / 2) * dilation) <
                                            static_cast<unsigned>(height);
#pragma unroll
      for (int j = 0; j < kK; ++j) {
        values[i * kK + j] =
            load_inside(reinterpret_cast<const unsigned*>(
                            from + ((i - kK / 2) * x_h + (j - kK / 2) * x_w) * dilation),
                        row_inside && column_inside[j]);
      }
    }
    wait(full + stage, parity);
    const unsigned* const taps = taps_of_thread + stage * (walk.stage_bytes / 4);
    // Element e of the unit is tap e % K*K of channel e / K*K, two to a word in two-byte types.
    float tap[kVector][kTaps];
#pragma unroll
    for (int i = 0; i < kTaps; ++i) {
      float elements[kVector];
      W::unpack(static_cast<typename W::Bits>(taps[i]), elements);
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
        W::unpack(static_cast<typename W::Bits>(values[i * kK + j]), value);
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          row_sum[v] = fmaf(value[v], tap[v][i * kK + j], row_sum[v]);
        }
      }
#pragma unroll
      for (int v = 0; v < kVector; ++v) sum[v] += row_sum[v];
    }
    float all = 0;
#pragma unroll
    for (int v = 0; v < kVector; ++v) all += sum[v];
    arrive_after(empty + stage, all, walk.order);
    advance();
    if (inside) {
      T* const to = out + static_cast<int64_t>(pixel) * a.out_stride[3];
      *reinterpret_cast<unsigned*>(to + result) = static_cast<unsigned>(W::pack(sum));
      if (a.concat_input && b == 0) *reinterpret_cast<unsigned*>(to) = values[kTaps / 2];
    }
    pixel += gridDim.x * static_cast<unsigned>(walk.pixels);
    w += walk.column_step;
    h += walk.row_step;
    n += walk.batch_step;
    if (w >= width) w -= width, ++h;
    if (h >= height) h -= height, ++n;
  }
}

int vector_in_word(const FilterArguments& a) {
  return a.type == Type::kFloat ? 1 : 2;
}

int64_t units_of_pixel(const FilterArguments& a) {
  return a.branches * (a.channels / vector_in_word(a));
}

template <typename T, int kVector>
cudaError_t launch(const FilterArguments& a, cudaStream_t stream) {
  Walk walk{};
  walk.order = kSameOrder;
  walk.units = static_cast<int>(units_of_pixel(a));
  walk.pixels = kMostUnits / walk.units;
  walk.users = (walk.pixels * walk.units + 31) / 32 * 32;
  // Every lane reads taps, also those of a last warp that is not full.
  walk.stage_bytes = (walk.users * kTaps * 4 + 127) / 128 * 128;
  const int64_t pixels = a.batch * a.height * a.width;
  walk.steps = static_cast<unsigned>((pixels + walk.pixels - 1) / walk.pixels);
  const int bytes = kBarrierBytes + kStages * walk.stage_bytes;
  DeviceFacts device;
  const auto kernel = filter_pixel_ring<T, kVector>;
  const int threads = walk.users + 32;
  // As many as fit, no fewer: where one more did, the next launch's would begin there early, and
  // some multiprocessors would end up with one more of its blocks than others. Blocks of a step of
  // 129 to 224 words (6 to 8 warps) fit five or six times.
  int resident = 0;
  cudaError_t error = ask(&device);
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads,
                                                          static_cast<size_t>(bytes));
  }
  if (error != cudaSuccess) return error;
  const auto blocks = std::min(walk.steps, static_cast<unsigned>(resident * device.processors));
  const int64_t apart = static_cast<int64_t>(blocks) * walk.pixels;
  walk.column_step = static_cast<int>(apart % a.width);
  walk.row_step = static_cast<int>(apart / a.width % a.height);
  walk.batch_step = static_cast<int>(apart / a.width / a.height);
  return launch_early(kernel, dim3(blocks), threads, static_cast<size_t>(bytes), stream, a, walk);
}

}  // namespace

bool can_run_filter_pixel_ring(const FilterArguments& a, std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (!can_run_filter_pixels(a, why)) return false;
  if (a.kernel_size != kK) return no("kernel size other than 3");
  if (units_of_pixel(a) > kMostUnits) return no("more than 256 words of results a pixel");
  if (units_of_pixel(a) % 4 != 0) return no("a pixel's taps are no multiple of 16 bytes");
  if (!current_device().is_hopper()) return no("compute capability other than 9.0");
  return true;
}

cudaError_t launch_filter_pixel_ring(const FilterArguments& a, cudaStream_t stream) {
  switch (a.type) {
    case Type::kFloat:
      return launch<float, 1>(a, stream);
    case Type::kHalf:
      return launch<__half, 2>(a, stream);
    default:
      return launch<__nv_bfloat16, 2>(a, stream);
  }
}

}  // namespace hdfnet::ops::cuda
