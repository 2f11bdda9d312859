// NCHW to channels_last and back, two-byte elements: in both a batch of matrices transposed. A
// block moves 64 rows and 64 columns through shared memory, in and out by lines of 128 bytes. 16 or
// 4 bytes an access where sizes, strides and addresses are multiples of that: then a thread has the
// same columns of two rows, makes words of two rows' elements of them, and the tile holds the
// words of a column together. Bytes: the map twice.
#include <climits>
#include <type_traits>

#include "cuda/layout_copy.h"

namespace hdfnet::ops::cuda {
namespace {

using Element = unsigned short;
constexpr int kSide = 64;

/// A batch of matrices, and of their transposes. Elements within a row are dense.
struct Transposition {
  const Element* from;
  Element* to;
  int64_t rows, columns;  // of `from`
  int64_t from_image, from_row, to_image, to_row;
  unsigned row_tiles, column_tiles;
  bool rows_first;  // the tiles that follow each other: the channels'
};

/// So many elements, as one access.
template <int kVector>
using Vector =
    std::conditional_t<kVector == 8, uint4, std::conditional_t<kVector == 2, unsigned, Element>>;

template <int kVector>
struct Shape {
  static constexpr int kThreads = kVector == 8 ? 128 : 256;
  static constexpr int kLeastBlocks = 1024 / kThreads;  // with fewer, loads wait for registers
  static constexpr int kAcross = kSide / kVector;       // vectors of a row
  static constexpr int kRows = kVector == 1 ? 1 : 2;    // of a thread's load
  static constexpr int kLoads = kSide / kRows * kAcross / kThreads;
  static constexpr int kStores = kSide * kAcross / kThreads;
  // What a warp writes at a time, kAcross columns that are kVector apart by 32 / kAcross words, is
  // in 32 banks: the columns lie in this order and this far apart.
  static constexpr int kPitch = kSide + (kVector == 1 ? 2 : kVector);
  static __device__ __forceinline__ int place(int column) {
    return (column % kVector * kAcross + column / kVector) * kPitch;
  }
};

template <int kVector>
__global__ void __launch_bounds__(Shape<kVector>::kThreads, Shape<kVector>::kLeastBlocks)
    transpose(const __grid_constant__ Transposition a) {
  using S = Shape<kVector>;
  using V = Vector<kVector>;
  __shared__ __align__(16) Element tile[kSide * S::kPitch];
  const unsigned first_tiles = a.rows_first ? a.row_tiles : a.column_tiles;
  const unsigned second_tiles = a.rows_first ? a.column_tiles : a.row_tiles;
  const unsigned others = blockIdx.x / first_tiles;
  const unsigned first = blockIdx.x - others * first_tiles;
  const unsigned image = others / second_tiles;
  const unsigned second = others - image * second_tiles;
  const int64_t row_0 = static_cast<int64_t>(a.rows_first ? first : second) * kSide;
  const int64_t column_0 = static_cast<int64_t>(a.rows_first ? second : first) * kSide;
  const int rows = static_cast<int>(min(a.rows - row_0, static_cast<int64_t>(kSide)));
  const int columns = static_cast<int>(min(a.columns - column_0, static_cast<int64_t>(kSide)));

  const Element* const from = a.from + image * a.from_image + row_0 * a.from_row + column_0;
  V values[S::kLoads][S::kRows];
#pragma unroll
  for (int load = 0; load < S::kLoads; ++load) {
    const int index = load * S::kThreads + static_cast<int>(threadIdx.x);
    const int row = index / S::kAcross * S::kRows;
    const int column = index % S::kAcross * kVector;
    const Element* const at = from + row * a.from_row + column;
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      values[load][r] = V{};
      if (row < rows && column < columns) {
        values[load][r] = *reinterpret_cast<const V*>(at + r * a.from_row);
      }
    }
  }
#pragma unroll
  for (int load = 0; load < S::kLoads; ++load) {
    const int index = load * S::kThreads + static_cast<int>(threadIdx.x);
    Element* const at = tile + index / S::kAcross * S::kRows;
    const int column = index % S::kAcross * kVector;
    if constexpr (kVector == 1) {
      at[S::place(column)] = values[load][0];
    } else {
      const auto* const upper = reinterpret_cast<const unsigned*>(&values[load][0]);
      const auto* const lower = reinterpret_cast<const unsigned*>(&values[load][1]);
#pragma unroll
      for (int w = 0; w < kVector / 2; ++w) {
        *reinterpret_cast<unsigned*>(at + S::place(column + 2 * w)) =
            __byte_perm(upper[w], lower[w], 0x5410);
        *reinterpret_cast<unsigned*>(at + S::place(column + 2 * w + 1)) =
            __byte_perm(upper[w], lower[w], 0x7632);
      }
    }
  }
  __syncthreads();

  Element* const to = a.to + image * a.to_image + column_0 * a.to_row + row_0;
#pragma unroll
  for (int store = 0; store < S::kStores; ++store) {
    const int index = store * S::kThreads + static_cast<int>(threadIdx.x);
    const int column = index / S::kAcross;
    const int row = index % S::kAcross * kVector;
    if (row < rows && column < columns) {
      *reinterpret_cast<V*>(to + column * a.to_row + row) =
          *reinterpret_cast<const V*>(tile + S::place(column) + row);
    }
  }
}

int64_t tiles(int64_t size) {
  return (size - 1) / kSide + 1;
}

/// Whether all accesses may be of so many elements.
bool allows(const LayoutCopyArguments& a, int vector) {
  const int64_t steps = a.channels | a.pixels | (a.channels > 1 ? a.plane_stride : 0) |
                        (a.batch > 1 ? a.image_stride : 0);
  const auto addresses = reinterpret_cast<uintptr_t>(a.from) | reinterpret_cast<uintptr_t>(a.to);
  return steps % vector == 0 && addresses % (vector * sizeof(Element)) == 0;
}

template <int kVector>
cudaError_t launch(const Transposition& t, unsigned blocks, cudaStream_t stream) {
  transpose<kVector><<<blocks, Shape<kVector>::kThreads, 0, stream>>>(t);
  return cudaGetLastError();
}

cudaError_t choose(const LayoutCopyArguments& a, bool from_planes, cudaStream_t stream) {
  if (!can_copy_layout(a)) return cudaErrorInvalidValue;
  if (a.batch == 0 || a.channels == 0 || a.pixels == 0) return cudaSuccess;
  Transposition t{};
  t.from = static_cast<const Element*>(a.from);
  t.to = static_cast<Element*>(a.to);
  t.rows = from_planes ? a.channels : a.pixels;
  t.columns = from_planes ? a.pixels : a.channels;
  const int64_t dense_image = a.channels * a.pixels;
  t.from_image = from_planes ? a.image_stride : dense_image;
  t.from_row = from_planes ? a.plane_stride : a.channels;
  t.to_image = from_planes ? dense_image : a.image_stride;
  t.to_row = from_planes ? a.channels : a.plane_stride;
  t.row_tiles = static_cast<unsigned>(tiles(t.rows));
  t.column_tiles = static_cast<unsigned>(tiles(t.columns));
  t.rows_first = from_planes;
  const unsigned blocks = static_cast<unsigned>(a.batch) * t.row_tiles * t.column_tiles;
  if (allows(a, 8)) return launch<8>(t, blocks, stream);
  return allows(a, 2) ? launch<2>(t, blocks, stream) : launch<1>(t, blocks, stream);
}

}  // namespace

bool can_copy_layout(const LayoutCopyArguments& a) {
  if (a.batch < 0 || a.channels < 0 || a.pixels < 0) return false;
  if (a.batch == 0 || a.channels == 0 || a.pixels == 0) return true;
  return tiles(a.pixels) <= INT_MAX / tiles(a.channels) &&
         a.batch <= INT_MAX / (tiles(a.pixels) * tiles(a.channels));
}

cudaError_t launch_to_channels_last(const LayoutCopyArguments& a, cudaStream_t stream) {
  return choose(a, true, stream);
}

cudaError_t launch_to_planes(const LayoutCopyArguments& a, cudaStream_t stream) {
  return choose(a, false, stream);
}

}  // namespace hdfnet::ops::cuda
