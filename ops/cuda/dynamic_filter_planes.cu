// dynamic_filter for planes whose rows follow one another (NCHW).
//
// Layout: x (N, C, H, W) with unit column stride; kernels (N, B, C, K*K, H, W) and out with dense
// planes. Mapping: one block computes one tile (some rows, all or 256 columns) of one plane of one
// branch. The branches of a tile are neighbours in the grid, so x comes from the L2 cache for all
// but the first. The tile of x, with zeros around the plane, lies in shared memory: no bounds
// checks in the sums, and every shift is read at the cost of an aligned access. The taps go
// straight to registers, one 4-byte word (two halves or one float) a lane and tap, so that a warp's
// access is one full line; all rows of taps of a pixel are requested before the first is used. They
// are used once: they pass by the L1. Bytes: (B*K*K + 1 + B) elements a pixel and channel. FLOPs: 2
// a tap, nothing beside the bytes. Figures against the copy ceiling: ops/README.md.
#include "cuda/filter_words.cuh"
#include "cuda/instructions.cuh"
#include "cuda/shared_limit.h"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWidestTile = 256;
constexpr int kSharedLimit = 64 * 1024;

/// How a call is cut into tiles.
struct Tiling {
  int rows, columns;  // of a tile
  int tiles_down, tiles_across;
  int pitch;   // of the tile in shared memory, in elements
  int margin;  // zeros and neighbours left of the tile, a multiple of the vector
  int largest_reach;
};

/// The taps of one pixel (pair). A row's registers are asked to fill with the next pixel's taps as
/// soon as they have been used, so that about K*K words a lane are on their way at any time: the
/// memory's latency under load takes some 60 KB in flight on each multiprocessor.
template <typename T, int kVector, int kK>
struct Taps {
  using Bits = typename Word<T, kVector>::Bits;
  Bits taps[kK][kK];

  __device__ __forceinline__ void request(int row, const T*& address, int64_t stride) {
#pragma unroll
    for (int column = 0; column < kK; ++column) {
      taps[row][column] = load_once(reinterpret_cast<const Bits*>(address));
      address += stride;
    }
  }
};

/// The filtered value of one pixel (pair), from taps requested before; requests those of the pixel
/// at `next` unless that is null. `source` is where tap 0 reads in the tile. Taps of odd columns
/// start at an odd element where the dilation is odd: kOdd says so at compile time.
template <typename T, int kVector, int kK, bool kOdd>
__device__ __forceinline__ void filter_pixel(Taps<T, kVector, kK>& taps, const T* next,
                                             int64_t stride, const T* source, int row_step,
                                             int dilation, float (&sum)[kVector]) {
  using W = Word<T, kVector>;
#pragma unroll
  for (int v = 0; v < kVector; ++v) sum[v] = 0;
#pragma unroll
  for (int row = 0; row < kK; ++row) {
    float row_sum[kVector] = {};
#pragma unroll
    for (int column = 0; column < kK; ++column) {
      float tap[kVector];
      float value[kVector];
      W::unpack(taps.taps[row][column], tap);
      const T* from = source + column * dilation;
      if (kVector == 1 || !kOdd || (kK / 2 + column) % 2 == 0) {
        W::unpack(*reinterpret_cast<const typename W::Bits*>(from), value);
      } else {
#pragma unroll
        for (int v = 0; v < kVector; ++v) value[v] = to_sum(from[v]);
      }
#pragma unroll
      for (int v = 0; v < kVector; ++v) row_sum[v] = fmaf(value[v], tap[v], row_sum[v]);
    }
    source += row_step;
    if (next != nullptr) taps.request(row, next, stride);
#pragma unroll
    for (int v = 0; v < kVector; ++v) sum[v] += row_sum[v];
  }
}

template <typename T, int kVector, int kK>
__global__ void __launch_bounds__(kThreads)
    filter_planes(const __grid_constant__ FilterArguments a, const __grid_constant__ Tiling tiling,
                  const Divisor by_words, const Divisor by_pitch) {
  using W = Word<T, kVector>;
  using Bits = typename W::Bits;
  extern __shared__ __align__(16) unsigned char shared[];
  T* tile = reinterpret_cast<T*>(shared);

  const int branches = static_cast<int>(a.branches);
  const int height = static_cast<int>(a.height);
  const int width = static_cast<int>(a.width);
  unsigned rest = blockIdx.x;
  const int jobs = branches + (a.concat_input ? 1 : 0);
  const int b = rest % jobs;
  rest /= jobs;
  const int first_column = rest % tiling.tiles_across * tiling.columns;
  rest /= tiling.tiles_across;
  const int first_row = rest % tiling.tiles_down * tiling.rows;
  rest /= tiling.tiles_down;
  const int channels = static_cast<int>(a.channels);
  const int c = rest % channels;
  const int64_t n = rest / channels;

  const T* x = static_cast<const T*>(a.x) + n * a.x_stride[0] + c * a.x_stride[1];
  T* out = static_cast<T*>(a.out) + n * a.out_stride[0];
  const int words = tiling.columns / kVector;  // in a row of the tile
  const int rows = min(tiling.rows, height - first_row);
  const int count = rows * words;

  if (b == branches) {  // the copy of x in front of the results
    out += c * a.out_stride[1];
    for (int i = threadIdx.x; i < count; i += kThreads) {
      const int row = by_words.quotient(i);
      const int column = first_column + (i - row * words) * kVector;
      if (column >= width) continue;
      *reinterpret_cast<Bits*>(out + (first_row + row) * width + column) =
          *reinterpret_cast<const Bits*>(x + (first_row + row) * a.x_stride[2] + column);
    }
    return;
  }

  const T* taps = static_cast<const T*>(a.kernels) + n * a.kernel_stride[0] +
                  b * a.kernel_stride[1] + c * a.kernel_stride[2];
  out += (a.output_channel + static_cast<int64_t>(b) * channels + c) * a.out_stride[1];
  const int64_t stride = a.kernel_stride[3];
  const int dilation = a.dilation[b];
  const int reach = kK / 2 * dilation;

  // The pixel (pair) of each step of the loop below, as an offset into a plane; -1 past the end.
  const auto pixel_of = [&](int i, int& row, int& column) {
    row = by_words.quotient(i);
    column = (i - row * words) * kVector;
    return i < count && first_column + column < width
               ? (first_row + row) * width + first_column + column
               : -1;
  };

  // Ask for the first taps before the tile is filled, so that both waits overlap.
  Taps<T, kVector, kK> in_flight;
  int row, column;
  int pixel = pixel_of(threadIdx.x, row, column);
  if (pixel >= 0) {
    const T* address = taps + pixel;
#pragma unroll
    for (int r = 0; r < kK; ++r) in_flight.request(r, address, stride);
  }

  const int fill_words = tiling.pitch / kVector;
  const int fill_count = (rows + 2 * reach) * fill_words;
#pragma unroll 4
  for (int i = threadIdx.x; i < fill_count; i += kThreads) {
    const int r = by_pitch.quotient(i);
    const int from_row = first_row - reach + r;
    const int from_column = first_column - tiling.margin + (i - r * fill_words) * kVector;
    Bits bits = 0;
    if (from_row >= 0 && from_row < height && from_column >= 0 && from_column < width) {
      bits = __ldg(reinterpret_cast<const Bits*>(x + from_row * a.x_stride[2] + from_column));
    }
    reinterpret_cast<Bits*>(tile)[i] = bits;
  }
  __syncthreads();

  const auto run = [&](auto odd) {
    for (int i = threadIdx.x; i < count; i += kThreads) {
      int next_row, next_column;
      const int next = pixel_of(i + kThreads, next_row, next_column);
      if (pixel >= 0) {
        float sum[kVector];
        filter_pixel<T, kVector, kK, decltype(odd)::value>(
            in_flight, next >= 0 ? taps + next : nullptr, stride,
            tile + row * tiling.pitch + column + tiling.margin - reach, dilation * tiling.pitch,
            dilation, sum);
        *reinterpret_cast<Bits*>(out + pixel) = W::pack(sum);
      } else if (next >= 0) {  // past the right edge of the plane here, but not in the next step
        const T* address = taps + next;
#pragma unroll
        for (int r = 0; r < kK; ++r) in_flight.request(r, address, stride);
      }
      pixel = next;
      row = next_row;
      column = next_column;
    }
  };
  if (dilation % 2 != 0) {
    run(std::true_type());
  } else {
    run(std::false_type());
  }
}

int ceil_div(int64_t a, int64_t b) {
  return static_cast<int>((a + b - 1) / b);
}

Tiling tiling_of(const FilterArguments& a, int vector) {
  Tiling t{};
  int largest = 0;
  for (int64_t b = 0; b < a.branches; ++b)
    largest = a.dilation[b] > largest ? a.dilation[b] : largest;
  t.largest_reach = a.kernel_size / 2 * largest;
  const int width = static_cast<int>(a.width);
  t.columns = width <= kWidestTile ? width : kWidestTile;
  t.tiles_across = ceil_div(width, t.columns);
  t.margin = ceil_div(t.largest_reach, vector) * vector;
  t.pitch = t.columns + 2 * t.margin;
  // About eight steps a thread: long enough to hide the filling of the tile, short enough to share
  // the work out evenly. Small calls are cut finer, to have a block or two for each multiprocessor.
  const int64_t planes = a.batch * a.channels * (a.branches + (a.concat_input ? 1 : 0));
  const int64_t steps_in_plane = ceil_div(a.width * a.height, kThreads * vector);
  int64_t steps = 8;
  while (steps > 1 && planes * ceil_div(steps_in_plane, steps) < 512) steps /= 2;
  // Rounded down: a step for a few pixels more costs as much as a full one.
  const int64_t rows = steps * kThreads * vector / t.columns;
  t.rows = static_cast<int>(rows < 1 ? 1 : rows < a.height ? rows : a.height);
  t.tiles_down = ceil_div(a.height, t.rows);
  t.rows = ceil_div(a.height, t.tiles_down);
  return t;
}

int64_t shared_bytes(const FilterArguments& a, const Tiling& t) {
  const int64_t size = size_of(a.type);
  return (t.rows + int64_t{2} * t.largest_reach) * t.pitch * size;
}

int64_t blocks_of(const FilterArguments& a, const Tiling& t) {
  return a.batch * a.channels * (a.branches + (a.concat_input ? 1 : 0)) * t.tiles_down *
         t.tiles_across;
}

template <typename T, int kVector, int kK>
cudaError_t launch(const FilterArguments& a, cudaStream_t stream) {
  const Tiling t = tiling_of(a, kVector);
  const auto bytes = static_cast<size_t>(shared_bytes(a, t));
  const cudaError_t error =
      allow_shared_memory(filter_planes<T, kVector, kK>, static_cast<int>(bytes));
  if (error != cudaSuccess) return error;
  filter_planes<T, kVector, kK>
      <<<static_cast<unsigned>(blocks_of(a, t)), kThreads, bytes, stream>>>(
          a, t, Divisor(t.columns / kVector), Divisor(t.pitch / kVector));
  return cudaGetLastError();
}

template <typename T, int kVector>
cudaError_t launch_kernel_size(const FilterArguments& a, cudaStream_t stream) {
  switch (a.kernel_size) {
    case 1:
      return launch<T, kVector, 1>(a, stream);
    case 3:
      return launch<T, kVector, 3>(a, stream);
    case 5:
      return launch<T, kVector, 5>(a, stream);
    default:
      return launch<T, kVector, 7>(a, stream);
  }
}

}  // namespace

bool can_run_filter_planes(const FilterArguments& a, std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (a.type == Type::kDouble) return no("float64");
  if (a.kernel_size > 7) return no("kernel size above 7");
  if (a.height * a.width > (int64_t{1} << 30)) return no("plane of more than 2^30 pixels");
  if (a.width > 1 && (a.x_stride[3] != 1 || a.kernel_stride[5] != 1 || a.out_stride[3] != 1)) {
    return no("columns are not neighbours in memory");
  }
  if (a.height > 1 && (a.kernel_stride[4] != a.width || a.out_stride[2] != a.width)) {
    return no("rows of kernels do not follow one another");
  }
  if (a.x_stride[2] < 0 || a.x_stride[2] > (int64_t{1} << 30)) return no("row stride of x");
  if (a.channels > (int64_t{1} << 30)) return no("more than 2^30 channels");
  for (int64_t b = 0; b < a.branches; ++b) {
    if (a.dilation[b] > 1024) return no("reach of the taps");
  }
  const Tiling t = tiling_of(a, vector_of(a));
  if (shared_bytes(a, t) > kSharedLimit) return no("reach of the taps exceeds shared memory");
  if (blocks_of(a, t) > 0x7fffffff) return no("more tiles than a grid holds");
  return true;
}

cudaError_t launch_filter_planes(const FilterArguments& a, cudaStream_t stream) {
  switch (a.type) {
    case Type::kFloat:
      return launch_kernel_size<float, 1>(a, stream);
    case Type::kHalf:
      return vector_of(a) == 2 ? launch_kernel_size<__half, 2>(a, stream)
                               : launch_kernel_size<__half, 1>(a, stream);
    default:
      return vector_of(a) == 2 ? launch_kernel_size<__nv_bfloat16, 2>(a, stream)
                               : launch_kernel_size<__nv_bfloat16, 1>(a, stream);
  }
}

}  // namespace hdfnet::ops::cuda
