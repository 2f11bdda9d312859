// dynamic_filter for planes whose rows follow one another, beyond the L2 (compute capability 9.0).
//
// Layout: as dynamic_filter_planes.cu, everything aligned to 16 bytes. Mapping: as many blocks as
// the multiprocessors hold walk over the bands (some whole rows of one plane of x) and in each over
// the branches. Two warps ask the copy engine for what is to come: one for a band of x with its
// halo, row by row between margins that stay zero, into one of two tiles; one for the taps, a
// kernel row of some pixels at a time, into a ring. Eight warps use them: two neighbouring pixels a
// lane in two-byte types, one in float. Taps are in flight up to the ring's size at all times,
// whatever the warps do, and cost one instruction to read. Bands are low: the blocks that run at
// the same time then read whole planes of taps within a short time, as the memory likes it. Every
// thread gives back by itself what it has read: one for its warp would do on the device, but
// racecheck could not see it. Bytes and FLOPs: as dynamic_filter_planes.cu. Figures: ops/README.md.
#include <algorithm>

#include "cuda/early_launch.cuh"
#include "cuda/filter_words.cuh"
#include "cuda/hopper.cuh"
#include "cuda/shared_limit.h"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kUsers = 256;  // threads that filter; two warps more copy
constexpr int kThreads = kUsers + 64;
constexpr int kSteps = 2;   // of a thread in a part of a band
constexpr int kBlocks = 2;  // of a multiprocessor, or one where two leave the taps little room
constexpr int kSharedBytes = 220 * 1024;  // of both
constexpr int kBarrierBytes = 1024;
constexpr int kMostStages = 32;
constexpr int kPixels = 4096;  // of a band, about
constexpr int kMostRowBytes = 16 * 1024;

// What it was measured to be faster from.
constexpr int64_t kLeastBytes = 64'000'000;  // of kernels
constexpr int kLeastRowBytes = 512;
constexpr int kLeastInFlight = 48 * 1024;  // bytes of taps of a multiprocessor

/// A row outside of the plane.
__device__ uint4 zeros[kMostRowBytes / 16];

/// How a call is cut into bands and a block's shared memory into tiles and stages.
struct Bands {
  int rows;         // of a band
  int down;         // bands of a plane
  int part;         // pixels of a band whose taps are one stage (a kernel row of them)
  int pitch;        // of a tile's rows, in elements
  int margin;       // zeros left and right of them
  int reach;        // the largest
  int tile_bytes;   // of the largest reach
  int stage_bytes;  // a multiple of 128
  int stages;
  int blocks;      // of a multiprocessor
  unsigned jobs;   // bands of the whole call
  unsigned order;  // kSameOrder
};

/// A stage or tile of a ring, and the parity of its barriers' phase.
struct Turn {
  int index = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void advance(int count) {
    if (++index == count) index = 0, parity ^= 1;
  }
};

struct Band {
  int first_row, rows;
  int64_t n, c;
  __device__ __forceinline__ Band(unsigned job, const FilterArguments& a, const Bands& g) {
    first_row = static_cast<int>(job % static_cast<unsigned>(g.down)) * g.rows;
    job /= static_cast<unsigned>(g.down);
    c = job % static_cast<unsigned>(a.channels);
    n = job / static_cast<unsigned>(a.channels);
    rows = min(g.rows, static_cast<int>(a.height) - first_row);
  }
};

template <typename T, int kVector, int kK>
__global__ void __launch_bounds__(kThreads, kBlocks)
    filter_ring(const __grid_constant__ FilterArguments a, const __grid_constant__ Bands bands,
                const Divisor by_words) {
  using W = Word<T, kVector>;
  using Bits = typename W::Bits;
  constexpr int kPart = kUsers * kVector * kSteps;  // the room for a tap in a stage
  extern __shared__ __align__(128) unsigned char shared[];
  let_next_launch_begin();
  uint64_t* const full = reinterpret_cast<uint64_t*>(shared);
  uint64_t* const empty = full + kMostStages;
  uint64_t* const tile_full = empty + kMostStages;  // 2
  uint64_t* const tile_empty = tile_full + 2;
  unsigned char* const tiles = shared + kBarrierBytes;
  unsigned char* const ring = tiles + 2 * bands.tile_bytes;
  const int width = static_cast<int>(a.width);

  if (threadIdx.x == 0) {
    for (int i = 0; i < bands.stages; ++i) {
      start_barrier(full + i, 1);
      start_barrier(empty + i, kUsers);
    }
    for (int i = 0; i < 2; ++i) {
      start_barrier(tile_full + i, 1);
      start_barrier(tile_empty + i, kUsers);
    }
    publish_barriers();
  }
  // The margins, which no copy touches.
  const int pieces = bands.margin * static_cast<int>(sizeof(T)) / 16;
  const int tile_rows = bands.rows + 2 * bands.reach;
  for (int i = threadIdx.x; i < 2 * tile_rows; i += kThreads) {
    T* const row = reinterpret_cast<T*>(tiles + (i < tile_rows ? 0 : bands.tile_bytes)) +
                   (i < tile_rows ? i : i - tile_rows) * bands.pitch;
    for (int piece = 0; piece < pieces; ++piece) {
      reinterpret_cast<uint4*>(row)[piece] = make_uint4(0, 0, 0, 0);
      reinterpret_cast<uint4*>(row + bands.margin + width)[piece] = make_uint4(0, 0, 0, 0);
    }
  }
  __syncthreads();
  wait_for_launch_before();

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int branches = static_cast<int>(a.branches);
  if (threadIdx.x >= kUsers + 32) {  // the warp that asks for x
    const int row_bytes = width * static_cast<int>(sizeof(T));
    Turn tile;
    for (unsigned job = blockIdx.x; job < bands.jobs; job += gridDim.x) {
      const Band band(job, a, bands);
      const T* const x =
          static_cast<const T*>(a.x) + band.n * a.x_stride[0] + band.c * a.x_stride[1];
      const int from = band.first_row - bands.reach;
      const int to = band.first_row + band.rows + bands.reach;
      wait(tile_empty + tile.index, tile.parity ^ 1);
      if (lane == 0) arrive_and_expect(tile_full + tile.index, (to - from) * row_bytes);
      __syncwarp();
      T* row = reinterpret_cast<T*>(tiles + tile.index * bands.tile_bytes) + bands.margin +
               lane * bands.pitch;
      for (int r = from + lane; r < to; r += 32, row += 32 * bands.pitch) {
        const void* const source = r >= 0 && r < a.height
                                       ? static_cast<const void*>(x + r * a.x_stride[2])
                                       : static_cast<const void*>(zeros);
        copy_run(row, source, row_bytes, tile_full + tile.index);
      }
      tile.advance(2);
    }
    return;
  }
  if (threadIdx.x >= kUsers) {  // the warp that asks for taps
    const int64_t stride = a.kernel_stride[3];
    Turn stage;
    for (unsigned job = blockIdx.x; job < bands.jobs; job += gridDim.x) {
      const Band band(job, a, bands);
      const int pixels = band.rows * width;
      for (int b = 0; b < branches; ++b) {
        const T* taps = static_cast<const T*>(a.kernels) + band.n * a.kernel_stride[0] +
                        b * a.kernel_stride[1] + band.c * a.kernel_stride[2] +
                        static_cast<int64_t>(band.first_row) * width + lane * stride;
        for (int first = 0; first < pixels; first += bands.part, taps += bands.part) {
          const int bytes = min(bands.part, pixels - first) * static_cast<int>(sizeof(T));
          const T* tap = taps;
          for (int r = 0; r < kK; ++r, tap += kK * stride) {
            wait(empty + stage.index, stage.parity ^ 1);
            if (lane == 0) arrive_and_expect(full + stage.index, kK * bytes);
            __syncwarp();
            if (lane < kK) {
              unsigned char* const slot =
                  ring + stage.index * bands.stage_bytes + lane * kPart * sizeof(T);
              copy_run(slot, tap, bytes, full + stage.index);
            }
            stage.advance(bands.stages);
          }
        }
      }
    }
    return;
  }

  Turn stage, tile;
  const auto run = [&](const Band& band, int b, auto odd) {
    constexpr bool kOdd = decltype(odd)::value;
    const int dilation = a.dilation[b];
    const int reach = kK / 2 * dilation;
    const T* const x = reinterpret_cast<const T*>(tiles + tile.index * bands.tile_bytes) +
                       (bands.reach - reach) * bands.pitch + bands.margin - reach;
    T* const image = static_cast<T*>(a.out) + band.n * a.out_stride[0];
    T* const out = image + (a.output_channel + b * a.channels + band.c) * a.out_stride[1] +
                   static_cast<int64_t>(band.first_row) * width;
    const bool also_copy = a.concat_input && b == 0;
    T* const copy = image + band.c * a.out_stride[1] + static_cast<int64_t>(band.first_row) * width;
    const int row_step = dilation * bands.pitch;
    const int pixels = band.rows * width;
    for (int first = 0; first < pixels; first += bands.part) {
      const int end = min(bands.part, pixels - first);
      const T* source[kSteps];
      float sum[kSteps][kVector];
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        // Past the end: the last pixels once more, whose results nobody stores.
        const int i =
            first + min((s * kUsers + static_cast<int>(threadIdx.x)) * kVector, end - kVector);
        const int row = by_words.quotient(i / kVector);
        source[s] = x + row * bands.pitch + (i - row * width);
#pragma unroll
        for (int v = 0; v < kVector; ++v) sum[s][v] = 0;
      }
#pragma unroll(kK == 3 ? 3 : 1)
      for (int r = 0; r < kK; ++r) {
        wait(full + stage.index, stage.parity);
        const T* const taps = reinterpret_cast<const T*>(ring + stage.index * bands.stage_bytes) +
                              threadIdx.x * kVector;
        float row_sum[kSteps][kVector] = {};
#pragma unroll
        for (int q = 0; q < kK; ++q) {
#pragma unroll
          for (int s = 0; s < kSteps; ++s) {
            float tap[kVector];
            float value[kVector];
            W::unpack(*reinterpret_cast<const Bits*>(taps + q * kPart + s * kUsers * kVector), tap);
            const T* const from = source[s] + q * dilation;
            if (kVector == 1 || !kOdd || (kK / 2 + q) % 2 == 0) {
              W::unpack(*reinterpret_cast<const Bits*>(from), value);
            } else {
#pragma unroll
              for (int v = 0; v < kVector; ++v) value[v] = to_sum(from[v]);
            }
#pragma unroll
            for (int v = 0; v < kVector; ++v) {
              row_sum[s][v] = fmaf(value[v], tap[v], row_sum[s][v]);
            }
          }
        }
        float all = 0;
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
#pragma unroll
          for (int v = 0; v < kVector; ++v) all += row_sum[s][v];
        }
        arrive_after(empty + stage.index, all, bands.order);
        stage.advance(bands.stages);
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
          source[s] += row_step;
#pragma unroll
          for (int v = 0; v < kVector; ++v) sum[s][v] += row_sum[s][v];
        }
      }
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const int i = (s * kUsers + static_cast<int>(threadIdx.x)) * kVector;
        if (i >= end) continue;
        *reinterpret_cast<Bits*>(out + first + i) = W::pack(sum[s]);
        if (also_copy) {
          const T* const middle = source[s] - (kK - kK / 2) * row_step + reach;
          *reinterpret_cast<Bits*>(copy + first + i) = *reinterpret_cast<const Bits*>(middle);
        }
      }
    }
  };
  for (unsigned job = blockIdx.x; job < bands.jobs; job += gridDim.x) {
    const Band band(job, a, bands);
    wait(tile_full + tile.index, tile.parity);
    for (int b = 0; b < branches; ++b) {
      if (a.dilation[b] % 2 != 0) {
        run(band, b, std::true_type());
      } else {
        run(band, b, std::false_type());
      }
    }
    arrive(tile_empty + tile.index);
    tile.advance(2);
  }
}

/// Bytes of taps on their way to a multiprocessor.
int in_flight(const Bands& g) {
  return g.blocks * g.stages * g.stage_bytes;
}

/// No stages: it does not fit.
Bands bands_of(const FilterArguments& a) {
  Bands g{};
  const int size = size_of(a.type);
  const int64_t part = kUsers * kSteps * (size == 2 ? 2 : 1);
  const int64_t reach =
      int64_t{a.kernel_size / 2} * *std::max_element(a.dilation, a.dilation + a.branches);
  g.down = static_cast<int>(ceil_div(a.height * a.width, kPixels));
  g.down = static_cast<int>(std::min<int64_t>(std::max(g.down, 1), a.height));
  g.rows = static_cast<int>(ceil_div(a.height, g.down));
  g.down = static_cast<int>(ceil_div(a.height, g.rows));
  const int64_t pixels = g.rows * a.width;
  const int64_t chunk = 16 / size;
  g.part = static_cast<int>(ceil_div(ceil_div(pixels, ceil_div(pixels, part)), chunk) * chunk);
  const int64_t margin = ceil_div(reach, chunk) * chunk;
  const int64_t pitch = a.width + 2 * margin;
  const int64_t tile_bytes = ceil_div((g.rows + 2 * reach) * pitch * size, 128) * 128;
  g.order = kSameOrder;
  g.stage_bytes = static_cast<int>(a.kernel_size * part * size);
  for (g.blocks = kBlocks;; --g.blocks) {
    const int64_t room = kSharedBytes / g.blocks - kBarrierBytes - 2 * tile_bytes;
    const int64_t stages = std::min<int64_t>(room / g.stage_bytes, kMostStages);
    g.stages = static_cast<int>(std::max<int64_t>(stages, 0));
    if (in_flight(g) >= kLeastInFlight || g.blocks == 1) break;
  }
  const int64_t jobs = a.batch * a.channels * g.down;
  if (g.stages < 2 || a.width * size > kMostRowBytes || jobs > 0x7fffffff) {
    g.stages = 0;
    return g;
  }
  g.margin = static_cast<int>(margin);
  g.reach = static_cast<int>(reach);
  g.pitch = static_cast<int>(pitch);
  g.tile_bytes = static_cast<int>(tile_bytes);
  g.jobs = static_cast<unsigned>(jobs);
  return g;
}

template <typename T, int kVector, int kK>
cudaError_t launch(const FilterArguments& a, cudaStream_t stream) {
  const Bands g = bands_of(a);
  const int bytes = kBarrierBytes + 2 * g.tile_bytes + g.stages * g.stage_bytes;
  DeviceFacts device;
  cudaError_t error = ask(&device);
  if (error == cudaSuccess) {
    error = allow_shared_memory(filter_ring<T, kVector, kK>, bytes);
  }
  if (error != cudaSuccess) return error;
  const auto blocks = std::min(g.jobs, static_cast<unsigned>(g.blocks * device.processors));
  return launch_early(filter_ring<T, kVector, kK>, dim3(blocks), kThreads,
                      static_cast<size_t>(bytes), stream, a, g,
                      Divisor(static_cast<int>(a.width) / kVector));
}

template <typename T, int kVector>
cudaError_t launch_kernel_size(const FilterArguments& a, cudaStream_t stream) {
  return a.kernel_size == 3   ? launch<T, kVector, 3>(a, stream)
         : a.kernel_size == 5 ? launch<T, kVector, 5>(a, stream)
                              : launch<T, kVector, 7>(a, stream);
}

}  // namespace

bool can_run_filter_ring(const FilterArguments& a, std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (!can_run_filter_planes(a, why)) return false;
  if (a.kernel_size != 3 && a.kernel_size != 5 && a.kernel_size != 7) {
    return no("kernel size other than 3, 5 and 7");
  }
  const int64_t chunk = 16 / size_of(a.type);
  const auto whole = [&](int64_t stride) { return stride % chunk == 0; };
  if (!whole(a.width) || !whole(a.x_stride[0]) || !whole(a.x_stride[1]) || !whole(a.x_stride[2]) ||
      !whole(a.kernel_stride[0]) || !whole(a.kernel_stride[1]) || !whole(a.kernel_stride[2]) ||
      !whole(a.kernel_stride[3]) || !aligned(a.x) || !aligned(a.kernels)) {
    return no("rows of x or kernels are not aligned to 16 bytes");
  }
  if (size_of(a.type) == 2 && vector_of(a) != 2) return no("result is not aligned to 4 bytes");
  if (bands_of(a).stages == 0) return no("reach of the taps exceeds shared memory");
  if (!current_device().is_hopper()) return no("compute capability other than 9.0");
  return true;
}

bool filter_ring_pays(const FilterArguments& a, std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  const int64_t taps = int64_t{1} * a.kernel_size * a.kernel_size;
  if (a.batch * a.branches * a.channels * taps * a.height * a.width * size_of(a.type) <
      kLeastBytes) {
    return no("kernels of less than 64 MB");
  }
  if (a.width * size_of(a.type) < kLeastRowBytes) return no("rows of less than 512 bytes");
  const Bands g = bands_of(a);
  if (in_flight(g) < kLeastInFlight) return no("reach leaves room for few taps");
  return true;
}

cudaError_t launch_filter_ring(const FilterArguments& a, cudaStream_t stream) {
  switch (a.type) {
    case Type::kFloat:
      return launch_kernel_size<float, 1>(a, stream);
    case Type::kHalf:
      return launch_kernel_size<__half, 2>(a, stream);
    default:
      return launch_kernel_size<__nv_bfloat16, 2>(a, stream);
  }
}

}  // namespace hdfnet::ops::cuda
