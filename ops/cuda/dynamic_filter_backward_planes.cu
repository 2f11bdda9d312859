// The gradients of dynamic_filter (dynamic_filter_backward.cu defines them) for planes whose
// columns are neighbours in memory (NCHW).
//
// Mapping, of both: a thread has kVector neighbouring elements of a row, 8 bytes where all is
// aligned to that and one element otherwise; a block has a tile, some rows of one plane, whole or,
// where they are long, in parts.
//
// d kernels: a thread writes the taps of its pixels as words, one branch after another; in small
// calls a block has one branch. It has asked for all values of x under a row of taps (for K 1 and
// 3: of all rows) before it needs the first. Bytes: K*K + 1 elements a pixel, channel and branch,
// K*K of them written; x comes from caches.
//
// d x: each tap is read where it lies, and multiplied by the gradient at its own pixel, so every
// access is aligned, and one gradient serves a row of taps. Products whose results lie in the same
// column are summed in registers. The sums of the K columns of taps belong to results that are
// dilation columns apart: they are handed over in shared memory. Tiles that are a part of a row
// read a margin on both sides, as wide as the reach. As soon as registers have been used they are
// asked to fill with what comes next, so that K rows of taps (for K 5 and 7: 2) of a thread
// are on their way at any time: the memory's latency under load takes some 60 KB in flight on each
// multiprocessor. Calls with few threads have several branches computed side by side, by groups of
// a block's threads. Bytes: B*(K*K + 1) + 1 elements a pixel and channel.
#include <type_traits>

#include "cuda/early_launch.cuh"
#include "cuda/filter_words.cuh"
#include "cuda/instructions.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kMostThreads = 256;
constexpr int kWarp = 32;
/// Threads of a block unless a row takes more.
constexpr int kThreads = 128;
constexpr int kMostGroups = 4;
/// Threads without groups that fill the multiprocessors of large cards once.
constexpr int64_t kManyThreads = 132 * 1024;
/// Elements of a plane, with the gaps between rows: offsets in bytes fit into 32 bits.
constexpr int64_t kMostOfPlane = (int64_t{1} << 30) - 1;
constexpr int64_t kMostOfGrid = 65535;

/// What lies `bytes` behind the address: where the address is the same for all threads, their own
/// part stays 32 bits.
template <typename To, typename T>
__device__ __forceinline__ To* behind(T* address, unsigned bytes) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return reinterpret_cast<To*>(reinterpret_cast<Byte*>(address) + bytes);
}

/// How a plane is cut into tiles. Words are of kVector elements.
struct Tiling {
  int rows, words;   // of a tile, margins included
  int margin;        // words on each side that give no results
  int across, down;  // tiles of a plane
  int threads;       // of a block and group
};

/// What a thread has of a plane.
template <int kVector>
struct Place {
  int row, column;
  bool inside;   // of the plane
  bool results;  // and of what the tile gives results for

  __device__ Place(const FilterArguments& f, const Tiling& tiling, const Divisor& by_words) {
    const int tile = static_cast<int>(blockIdx.x);
    const int down = tiling.across == 1 ? tile : tile / tiling.across;
    const int part = tile - down * tiling.across;
    const int i = static_cast<int>(threadIdx.x);
    const int row_of_tile = by_words.quotient(i);
    const int word = i - row_of_tile * tiling.words;
    row = down * tiling.rows + row_of_tile;
    column = (part * (tiling.words - 2 * tiling.margin) - tiling.margin + word) * kVector;
    inside = row_of_tile < tiling.rows && row < static_cast<int>(f.height) && column >= 0 &&
             column < static_cast<int>(f.width);
    results = inside && word >= tiling.margin && word < tiling.words - tiling.margin;
  }
  /// From the plane's first element, where it is inside.
  __device__ unsigned bytes(int64_t pitch, size_t size) const {
    return (static_cast<unsigned>(row) * static_cast<unsigned>(pitch) +
            static_cast<unsigned>(column)) *
           static_cast<unsigned>(size);
  }
};

/// kVector elements of a row, from any column on; zero where they lie outside.
template <typename T, int kVector>
struct Shifted {
  using One = typename Word<T, 1>::Bits;
  One each[kVector];

  template <bool kAligned>
  __device__ __forceinline__ void load(const T* plane, unsigned row_bytes, int column, int width,
                                       bool row_inside) {
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      const bool inside =
          row_inside && static_cast<unsigned>(column + v) < static_cast<unsigned>(width);
      const unsigned bytes =
          row_bytes + static_cast<unsigned>(column + v) * static_cast<unsigned>(sizeof(T));
      each[v] = load_inside(behind<const One>(plane, bytes), inside);
    }
  }
  template <bool kAligned>
  __device__ __forceinline__ typename Word<T, kVector>::Bits bits() const {
    if constexpr (kVector == 1) {
      return each[0];
    } else {
      return {each[0], each[1]};
    }
  }
};
/// Four of two bytes: the two neighbouring quads, aligned, that hold them. Rows are aligned, and
/// their length is a multiple of four.
template <typename T>
struct Shifted<T, 4> {
  uint2 low, high;
  int shift;  // of the column, from the first quad's

  template <bool kAligned>
  __device__ __forceinline__ void load(const T* plane, unsigned row_bytes, int column, int width,
                                       bool row_inside) {
    shift = kAligned ? 0 : column & 3;
    const int base = column - shift;
    const auto inside = [&](int at) {
      return row_inside && static_cast<unsigned>(at) < static_cast<unsigned>(width);
    };
    const unsigned bytes =
        row_bytes + static_cast<unsigned>(base) * static_cast<unsigned>(sizeof(T));
    low = load_inside(behind<const uint2>(plane, bytes), inside(base));
    if constexpr (!kAligned) {
      high = load_inside(behind<const uint2>(plane, bytes + 8), shift != 0 && inside(base + 4));
    }
  }
  template <bool kAligned>
  __device__ __forceinline__ uint2 bits() const {
    if constexpr (kAligned) return low;
    const bool upper = (shift & 2) != 0;
    const unsigned word0 = upper ? low.y : low.x;
    const unsigned word1 = upper ? high.x : low.y;
    const unsigned word2 = upper ? high.y : high.x;
    const unsigned by = (shift & 1) * 16;
    return {__funnelshift_r(word0, word1, by), __funnelshift_r(word1, word2, by)};
  }
};

/// Products, rounded once. Those of halves are exact in float, so that theirs in half are the same.
template <typename T, int kVector>
__device__ __forceinline__ typename Word<T, kVector>::Bits product(
    typename Word<T, kVector>::Bits a, typename Word<T, kVector>::Bits b) {
  using L = Word<T, kVector>;
  if constexpr (std::is_same_v<T, __half> && kVector == 4) {
    const auto of_pair = [](unsigned first, unsigned second) {
      const __half2 pair =
          __hmul2(*reinterpret_cast<__half2*>(&first), *reinterpret_cast<__half2*>(&second));
      return *reinterpret_cast<const unsigned*>(&pair);
    };
    return {of_pair(a.x, b.x), of_pair(a.y, b.y)};
  } else {
    float first[kVector], second[kVector];
    L::unpack(a, first);
    L::unpack(b, second);
#pragma unroll
    for (int v = 0; v < kVector; ++v) first[v] *= second[v];
    return L::pack(first);
  }
}

template <typename Bits>
__device__ __forceinline__ void store(Bits* address, Bits bits) {
  *address = bits;
}

/// A block has `branches_of_block` branches of a tile; those of the whole call are in parts.
template <typename T, int kVector, int kK>
__global__ void __launch_bounds__(kMostThreads)
    gradient_of_kernels_planes(const __grid_constant__ FilterGradientArguments a,
                               const Tiling tiling, const Divisor by_words, const Divisor by_parts,
                               const int branches_of_block) {
  using Bits = typename Word<T, kVector>::Bits;
  constexpr int kAhead = kK <= 3 ? kK : 2;  // rows of x on their way
  const FilterArguments& f = a.filter;
  const Place<kVector> place(f, tiling, by_words);
  if (!place.inside) return;
  const int64_t c = blockIdx.y;
  const int n = by_parts.quotient(static_cast<int>(blockIdx.z));
  const int part = static_cast<int>(blockIdx.z) - n * static_cast<int>(by_parts.value);
  const int first = part * branches_of_block;
  const int last = min(first + branches_of_block, static_cast<int>(f.branches));
  const int row = place.row, column = place.column;
  const int height = static_cast<int>(f.height);
  const int width = static_cast<int>(f.width);
  const unsigned pitch = static_cast<unsigned>(f.x_stride[2]);
  const T* const plane = static_cast<const T*>(f.x) + n * f.x_stride[0] + c * f.x_stride[1];
  const T* grad = static_cast<const T*>(a.grad) + n * a.grad_stride[0] +
                  (f.output_channel + first * f.channels + c) * a.grad_stride[1];
  T* of_branch =
      static_cast<T*>(a.out) + n * a.out_stride[0] + first * a.out_stride[1] + c * a.out_stride[2];
  const unsigned grad_bytes = place.bytes(a.grad_stride[2], sizeof(T));
  const unsigned out_bytes = place.bytes(a.out_stride[4], sizeof(T));

  for (int b = first; b < last; ++b) {
    const int dilation = f.dilation[b];
    Shifted<T, kVector> values[kAhead][kK];
    const auto request = [&](int r) {
      const int from_row = row + (r - kK / 2) * dilation;
      const bool row_inside = static_cast<unsigned>(from_row) < static_cast<unsigned>(height);
      const unsigned bytes =
          static_cast<unsigned>(from_row) * pitch * static_cast<unsigned>(sizeof(T));
#pragma unroll
      for (int q = 0; q < kK; ++q) {
        const int from_column = column + (q - kK / 2) * dilation;
        auto& into = values[r % kAhead][q];
        if (q == kK / 2) {
          into.template load<true>(plane, bytes, from_column, width, row_inside);
        } else {
          into.template load<false>(plane, bytes, from_column, width, row_inside);
        }
      }
    };

    const Bits g = load_inside(behind<const Bits>(grad, grad_bytes), true);
#pragma unroll
    for (int r = 0; r < kAhead; ++r) request(r);
    T* to = of_branch;
#pragma unroll
    for (int r = 0; r < kK; ++r) {
#pragma unroll
      for (int q = 0; q < kK; ++q) {
        const auto& from = values[r % kAhead][q];
        const Bits value = q == kK / 2 ? from.template bits<true>() : from.template bits<false>();
        store(behind<Bits>(to, out_bytes), product<T, kVector>(value, g));
        to += a.out_stride[3];
      }
      if (r + kAhead < kK) request(r + kAhead);
    }
    grad += f.channels * a.grad_stride[1];
    of_branch += a.out_stride[1];
  }
}

/// A row of the taps of some pixels, and the gradients that they are multiplied by.
template <typename Bits, int kK>
struct TapRow {
  Bits taps[kK];
  Bits grad;
};

/// Blocks of a multiprocessor for which nvcc must keep registers.
constexpr int least_blocks(int kernel_size) {
  return kernel_size <= 3 ? 4 : kernel_size == 5 ? 3 : 2;
}

template <typename T, int kVector, int kK, bool kGroups>
__global__ void __launch_bounds__(kMostThreads, least_blocks(kK))
    gradient_of_input_planes(const __grid_constant__ FilterGradientArguments a, const Tiling tiling,
                             const Divisor by_words) {
  using L = Word<T, kVector>;
  using Bits = typename L::Bits;
  constexpr int kAhead = kK <= 3 ? kK : 2;  // rows of taps on their way
  constexpr int kLog2 = kVector / 2;        // of 1, 2 and 4
  constexpr int kMoved = kK - 1;            // columns of taps but the middle one
  // Sums of one column of taps, kVector apart in each line so that neighbouring threads' are
  // neighbours whatever the shift: [group][column of taps][element of the word][thread].
  extern __shared__ float sums_of_columns[];
  const FilterArguments& f = a.filter;
  const Place<kVector> place(f, tiling, by_words);
  const int64_t c = blockIdx.y;
  const int64_t n = blockIdx.z;
  const int row = place.row, column = place.column;
  const int height = static_cast<int>(f.height);
  const int width = static_cast<int>(f.width);
  const int branches = static_cast<int>(f.branches);
  const int threads = static_cast<int>(blockDim.x);
  const int groups = kGroups ? static_cast<int>(blockDim.y) : 1;
  const int group = kGroups ? static_cast<int>(threadIdx.y) : 0;
  // Of the branch that is computed.
  const T* taps = static_cast<const T*>(f.kernels) + n * f.kernel_stride[0] +
                  group * f.kernel_stride[1] + c * f.kernel_stride[2];
  const T* grad = static_cast<const T*>(a.grad) + n * a.grad_stride[0] +
                  (f.output_channel + group * f.channels + c) * a.grad_stride[1];
  const unsigned tap_pitch = static_cast<unsigned>(f.kernel_stride[4]);
  const unsigned grad_pitch = static_cast<unsigned>(a.grad_stride[2]);

  TapRow<Bits, kK> in_flight[kAhead];
  const auto request = [&](int b, const T* taps_of_branch, const T* grad_of_branch, int r) {
    const bool wanted = place.inside && b < branches;
    const int from_row = row - (r - kK / 2) * f.dilation[wanted ? b : 0];
    const bool inside = wanted && static_cast<unsigned>(from_row) < static_cast<unsigned>(height);
    constexpr unsigned kSize = sizeof(T);
    const unsigned from_column = static_cast<unsigned>(column);
    const unsigned tap_bytes = (static_cast<unsigned>(from_row) * tap_pitch + from_column) * kSize;
    const unsigned grad_bytes =
        (static_cast<unsigned>(from_row) * grad_pitch + from_column) * kSize;
    const T* address = taps_of_branch + r * kK * f.kernel_stride[3];
    TapRow<Bits, kK>& into = in_flight[r % kAhead];
#pragma unroll
    for (int q = 0; q < kK; ++q, address += f.kernel_stride[3]) {
      into.taps[q] = load_once_inside(behind<const Bits>(address, tap_bytes), inside);
    }
    into.grad = load_inside(behind<const Bits>(grad_of_branch, grad_bytes), inside);
  };
#pragma unroll
  for (int r = 0; r < kAhead; ++r) request(group, taps, grad, r);

  const bool writes = place.results && group == 0;
  const auto out = [&] {
    return reinterpret_cast<Bits*>(static_cast<T*>(a.out) + n * a.out_stride[0] +
                                   c * a.out_stride[1] + row * a.out_stride[2] + column);
  };
  float sum[kVector] = {};
  if (a.add_to_out) L::unpack(load_inside(out(), writes), sum);
  if (f.concat_input) {
    const T* const copy = static_cast<const T*>(a.grad) + n * a.grad_stride[0] +
                          c * a.grad_stride[1] + row * a.grad_stride[2] + column;
    float more[kVector];
    L::unpack(load_inside(reinterpret_cast<const Bits*>(copy), writes), more);
#pragma unroll
    for (int v = 0; v < kVector; ++v) sum[v] += more[v];
  }
  float* const own = sums_of_columns + group * (kMoved * kVector) * threads + threadIdx.x;
  const int64_t to_next_taps = groups * f.kernel_stride[1];
  const int64_t to_next_grad = groups * f.channels * a.grad_stride[1];
  for (int first = 0; first < branches; first += groups) {
    const int b = first + group;
    float of_column[kK][kVector] = {};
#pragma unroll
    for (int r = 0; r < kK; ++r) {
      const TapRow<Bits, kK>& from = in_flight[r % kAhead];
      float g[kVector];
      L::unpack(from.grad, g);
#pragma unroll
      for (int q = 0; q < kK; ++q) {
        float tap[kVector];
        L::unpack(from.taps[q], tap);
#pragma unroll
        for (int v = 0; v < kVector; ++v) of_column[q][v] = fmaf(g[v], tap[v], of_column[q][v]);
      }
      if (r + kAhead < kK) {
        request(b, taps, grad, r + kAhead);
      } else if (first + groups < branches) {
        request(b + groups, taps + to_next_taps, grad + to_next_grad, r % kAhead);
      }
    }
    taps += to_next_taps;
    grad += to_next_grad;
#pragma unroll
    for (int v = 0; v < kVector; ++v) sum[v] += of_column[kK / 2][v];
    if constexpr (kK > 1) {
      const auto line_of = [](int q) { return (q < kK / 2 ? q : q - 1) * kVector; };
      if (first > 0) __syncthreads();  // the sums before these have been read
#pragma unroll
      for (int q = 0; q < kK; ++q) {
        if (q == kK / 2) continue;
#pragma unroll
        for (int v = 0; v < kVector; ++v) own[(line_of(q) + v) * threads] = of_column[q][v];
      }
      __syncthreads();
      const bool takes = place.results && b < branches;
      const int dilation = f.dilation[takes ? b : 0];
#pragma unroll
      for (int q = 0; q < kK; ++q) {
        if (q == kK / 2) continue;
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          const int away = v - (q - kK / 2) * dilation;
          const bool inside =
              takes && static_cast<unsigned>(column + away) < static_cast<unsigned>(width);
          const int at = (line_of(q) + (away & (kVector - 1))) * threads + (away >> kLog2);
          sum[v] += load_shared_inside(own + at, inside);
        }
      }
    }
  }

  if constexpr (kGroups) {
    __syncthreads();
    float* const of_thread = sums_of_columns + threadIdx.x;
    if (group > 0) {
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        of_thread[((group - 1) * kVector + v) * threads] = sum[v];
      }
    }
    __syncthreads();
    if (group == 0) {
#pragma unroll 1
      for (int other = 0; other < groups - 1; ++other) {
#pragma unroll
        for (int v = 0; v < kVector; ++v) sum[v] += of_thread[(other * kVector + v) * threads];
      }
    }
  }
  if (writes) *out() = L::pack(sum);
}

/// Whether a tensor of these strides (those of columns left out) can be read in words.
bool aligned(const void* pointer, const int64_t* strides, int count, int vector, int size) {
  bool all = reinterpret_cast<uintptr_t>(pointer) % (static_cast<uintptr_t>(vector) * size) == 0;
  for (int i = 0; i < count; ++i) all = all && strides[i] % vector == 0;
  return all;
}

/// Elements of a thread's words.
int vector_for(const FilterGradientArguments& a, bool of_kernels) {
  const FilterArguments& f = a.filter;
  const int size = size_of(f.type);
  const int vector = 8 / size;
  // Of x, floats are read one by one.
  const bool others = of_kernels ? (size == 4 || aligned(f.x, f.x_stride, 3, vector, size)) &&
                                       aligned(a.out, a.out_stride, 5, vector, size)
                                 : aligned(f.kernels, f.kernel_stride, 5, vector, size) &&
                                       aligned(a.out, a.out_stride, 3, vector, size);
  return f.width % vector == 0 && aligned(a.grad, a.grad_stride, 3, vector, size) && others ? vector
                                                                                            : 1;
}

/// Words on each side of a part of a row that hold what the taps reach.
int64_t margin_of(const FilterArguments& f, int vector) {
  return ceil_div(static_cast<int64_t>(f.kernel_size / 2) * largest_dilation(f), vector);
}

/// Tiles of up to `threads` words, or one row's; the rows for which the fewest threads idle.
Tiling tiling_of(const FilterArguments& f, int vector, int64_t margin, int threads) {
  Tiling t{};
  const int64_t words = f.width / vector;
  t.across = 1;
  t.words = static_cast<int>(words);
  if (words > kMostThreads) {
    t.margin = static_cast<int>(margin);
    t.across = static_cast<int>(ceil_div(words, kMostThreads - 2 * margin));
    t.words = static_cast<int>(ceil_div(words, t.across) + 2 * margin);
  }
  int64_t least = INT64_MAX;
  for (int64_t rows = 1; rows == 1 || (rows <= f.height && rows * t.words <= threads); ++rows) {
    const int64_t down = ceil_div(f.height, rows);
    const int64_t rounded = ceil_div(rows * t.words, kWarp) * kWarp;
    if (down * rounded > least) continue;
    least = down * rounded;
    t.rows = static_cast<int>(rows);
    t.down = static_cast<int>(down);
    t.threads = static_cast<int>(rounded);
  }
  return t;
}

/// Whether a thread for all branches of some pixels leaves multiprocessors idle.
bool is_small(const FilterArguments& f, int vector) {
  return f.batch * f.channels * f.height * f.width < kManyThreads * vector;
}

/// Calls f(type tag, vector tag, kernel size tag) for the variant that fits.
template <typename Function>
cudaError_t with_variant(const FilterArguments& a, int vector, const Function& f) {
  const auto sized = [&](auto type, auto width) {
    switch (a.kernel_size) {
      case 1:
        return f(type, width, std::integral_constant<int, 1>());
      case 3:
        return f(type, width, std::integral_constant<int, 3>());
      case 5:
        return f(type, width, std::integral_constant<int, 5>());
      default:
        return f(type, width, std::integral_constant<int, 7>());
    }
  };
  return with_fast_type(a.type, [&](auto type) {
    constexpr int kWide = 8 / static_cast<int>(sizeof(typename decltype(type)::type));
    return vector == 1 ? sized(type, std::integral_constant<int, 1>())
                       : sized(type, std::integral_constant<int, kWide>());
  });
}

}  // namespace

bool can_run_filter_gradient_planes(const FilterGradientArguments& a, bool of_kernels,
                                    std::string* why) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  const FilterArguments& f = a.filter;
  if (f.type == Type::kDouble) return no("float64");
  if (f.kernel_size > 7) return no("kernel size above 7");
  if (f.height * f.width > kMostOfPlane) return no("plane of 2^30 pixels or more");
  const int64_t* const read = of_kernels ? f.x_stride + 2 : f.kernel_stride + 4;
  const int64_t* const written = a.out_stride + (of_kernels ? 4 : 2);
  if (f.width > 1 && (a.grad_stride[3] != 1 || read[1] != 1 || written[1] != 1)) {
    return no("columns are not neighbours in memory");
  }
  for (const int64_t pitch : {a.grad_stride[2], read[0], written[0]}) {
    if (f.height > 1 && (pitch < 0 || f.height * pitch > kMostOfPlane)) return no("row stride");
  }
  if (f.channels > kMostOfGrid || f.batch * (of_kernels ? f.branches : 1) > kMostOfGrid) {
    return no("more planes than a grid holds");
  }
  if (largest_dilation(f) > (1 << 26)) return no("reach of the taps");
  if (!of_kernels) {
    const int vector = vector_for(a, of_kernels);
    if (f.width / vector > kMostThreads && margin_of(f, vector) > kMostThreads / 4) {
      return no("reach of the taps in rows that are read in parts");
    }
  }
  return true;
}

cudaError_t launch_filter_gradient_of_kernels_planes(const FilterGradientArguments& a,
                                                     cudaStream_t stream) {
  const FilterArguments& f = a.filter;
  const int vector = vector_for(a, true);
  const Tiling t = tiling_of(f, vector, 0, kThreads);
  const int branches = static_cast<int>(f.branches);
  const int parts = is_small(f, vector) ? branches : 1;
  const dim3 grid(static_cast<unsigned>(t.across * t.down), static_cast<unsigned>(f.channels),
                  static_cast<unsigned>(f.batch * parts));
  return with_variant(f, vector, [&](auto type, auto width, auto k) {
    gradient_of_kernels_planes<typename decltype(type)::type, decltype(width)::value,
                               decltype(k)::value>
        <<<grid, static_cast<unsigned>(t.threads), 0, stream>>>(a, t, Divisor(t.words),
                                                                Divisor(parts), branches / parts);
    return cudaGetLastError();
  });
}

cudaError_t launch_filter_gradient_of_input_planes(const FilterGradientArguments& a,
                                                   cudaStream_t stream) {
  const FilterArguments& f = a.filter;
  const int vector = vector_for(a, false);
  const int64_t margin = margin_of(f, vector);
  const bool few = is_small(f, vector);
  const int most_groups = f.branches < kMostGroups ? static_cast<int>(f.branches) : kMostGroups;
  const Tiling t =
      tiling_of(f, vector, margin, few && most_groups > 2 ? kMostThreads / kMostGroups : kThreads);
  const int room = kMostThreads / t.threads;
  const int groups = !few ? 1 : room < most_groups ? room : most_groups;
  const dim3 grid(static_cast<unsigned>(t.across * t.down), static_cast<unsigned>(f.channels),
                  static_cast<unsigned>(f.batch));
  const dim3 block(static_cast<unsigned>(t.threads), static_cast<unsigned>(groups));
  // For K 1 only the groups' sums take room.
  const int of_thread = (f.kernel_size > 1 ? f.kernel_size - 1 : 1) * vector;
  const auto bytes = static_cast<size_t>(t.threads) * groups * of_thread * sizeof(float);
  return with_variant(f, vector, [&](auto type, auto width, auto k) {
    using T = typename decltype(type)::type;
    constexpr int kVector = decltype(width)::value, kK = decltype(k)::value;
    const auto kernel = groups > 1 ? &gradient_of_input_planes<T, kVector, kK, true>
                                   : &gradient_of_input_planes<T, kVector, kK, false>;
    kernel<<<grid, block, bytes, stream>>>(a, t, Divisor(t.words));
    return cudaGetLastError();
  });
}

}  // namespace hdfnet::ops::cuda
