// Max pooling with stride 2 that gives values only: one thread makes 8 channels of a result (4 in
// float32), in 16-byte accesses; of contiguous maps, one value. NaN wins, as in ATen. Bytes: x once
// (what 3x3 windows share from the L1 and L2), the result once.
#include "cuda/device_facts.h"
#include "cuda/max_pool2d_arguments.h"
#include "cuda/scalar.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kStride = 2;
constexpr int kMaxGridY = 65535;

template <typename T>
struct PairOf;
template <>
struct PairOf<__half> {
  using type = __half2;
};
template <>
struct PairOf<__nv_bfloat16> {
  using type = __nv_bfloat162;
};

/// Sixteen bytes of a pixel's channels.
template <typename T>
struct __align__(16) Piece {
  typename PairOf<T>::type pair[4];

  __device__ __forceinline__ void take_larger(const Piece& other) {
#pragma unroll
    for (int v = 0; v < 4; ++v) pair[v] = __hmax2_nan(pair[v], other.pair[v]);
  }
};

__device__ __forceinline__ float larger(float a, float b) {
  return b > a || b != b ? b : a;
}

template <>
struct __align__(16) Piece<float> {
  float value[4];

  __device__ __forceinline__ void take_larger(const Piece& other) {
#pragma unroll
    for (int v = 0; v < 4; ++v) value[v] = larger(value[v], other.value[v]);
  }
};

template <typename T>
constexpr int kVector = 16 / sizeof(T);

template <typename T, int kKernel, int kPadding>
__global__ void __launch_bounds__(kThreads)
    max_pool2d(const __grid_constant__ MaxPoolArguments a, int rows) {
  const int vectors = static_cast<int>(a.channels) / kVector<T>;
  const int in_row = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  const int column = in_row / vectors;
  const int vector = in_row % vectors;
  if (column >= static_cast<int>(a.width)) return;
  const int height = static_cast<int>(a.height);
  const int x_height = static_cast<int>(a.x_height);
  const int x_width = static_cast<int>(a.x_width);

  // A window that hangs over an edge reads the pixel at the edge again, which changes no maximum.
  int at_column[kKernel];
#pragma unroll
  for (int i = 0; i < kKernel; ++i) {
    at_column[i] = min(max(column * kStride - kPadding + i, 0), x_width - 1) * vectors;
  }
  for (int row = blockIdx.y; row < rows; row += gridDim.y) {
    const Piece<T>* const image =
        static_cast<const Piece<T>*>(a.x) +
        static_cast<int64_t>(row / height) * x_height * x_width * vectors + vector;
    Piece<T> value[kKernel][kKernel];
#pragma unroll
    for (int i = 0; i < kKernel; ++i) {
      const int x_row = min(max(row % height * kStride - kPadding + i, 0), x_height - 1);
      const Piece<T>* const line = image + static_cast<int64_t>(x_row) * x_width * vectors;
#pragma unroll
      for (int j = 0; j < kKernel; ++j) value[i][j] = line[at_column[j]];
    }
    Piece<T> best = value[0][0];
#pragma unroll
    for (int i = 1; i < kKernel * kKernel; ++i) {
      best.take_larger(value[i / kKernel][i % kKernel]);
    }
    static_cast<Piece<T>*>(a.out)[static_cast<int64_t>(row) * a.width * vectors + in_row] = best;
  }
}

/// Rows of all planes in y.
template <int kKernel, int kPadding>
__global__ void __launch_bounds__(kThreads)
    max_pool2d_planes(const __grid_constant__ MaxPoolArguments a, int64_t rows) {
  const int column = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (column >= static_cast<int>(a.width)) return;
  const int x_height = static_cast<int>(a.x_height);
  const int x_width = static_cast<int>(a.x_width);
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const int64_t plane = row / a.height;
    const int first_row = static_cast<int>(row % a.height) * kStride - kPadding;
    const float* const x = static_cast<const float*>(a.x) + plane * x_height * x_width;
    float value[kKernel][kKernel];
#pragma unroll
    for (int i = 0; i < kKernel; ++i) {
      const float* const line =
          x + static_cast<int64_t>(min(max(first_row + i, 0), x_height - 1)) * x_width;
#pragma unroll
      for (int j = 0; j < kKernel; ++j) {
        value[i][j] = line[min(max(column * kStride - kPadding + j, 0), x_width - 1)];
      }
    }
    float best = value[0][0];
#pragma unroll
    for (int i = 1; i < kKernel * kKernel; ++i)
      best = larger(best, value[i / kKernel][i % kKernel]);
    static_cast<float*>(a.out)[row * a.width + column] = best;
  }
}

template <int kKernel, int kPadding>
cudaError_t launch_planes(const MaxPoolArguments& a, cudaStream_t stream) {
  const int64_t rows = a.batch * a.channels * a.height;
  const dim3 grid(static_cast<unsigned>((a.width + kThreads - 1) / kThreads),
                  static_cast<unsigned>(rows < kMaxGridY ? rows : kMaxGridY));
  max_pool2d_planes<kKernel, kPadding><<<grid, kThreads, 0, stream>>>(a, rows);
  return cudaGetLastError();
}

template <typename T, int kKernel, int kPadding>
cudaError_t launch(const MaxPoolArguments& a, cudaStream_t stream) {
  const int64_t rows = a.batch * a.height;
  const int64_t blocks = (a.width * (a.channels / kVector<T>)+kThreads - 1) / kThreads;
  const dim3 grid(static_cast<unsigned>(blocks),
                  static_cast<unsigned>(rows < kMaxGridY ? rows : kMaxGridY));
  max_pool2d<T, kKernel, kPadding><<<grid, kThreads, 0, stream>>>(a, static_cast<int>(rows));
  return cudaGetLastError();
}

template <typename T>
cudaError_t choose_kernel(const MaxPoolArguments& a, cudaStream_t stream) {
  return a.kernel_size == 2 ? launch<T, 2, 0>(a, stream) : launch<T, 3, 1>(a, stream);
}

}  // namespace

bool can_run_max_pool2d(const MaxPoolArguments& a, std::string* why) {
  const auto no = [why](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (a.type == Type::kDouble) return no("float64");
  const bool known = a.stride == kStride && ((a.kernel_size == 2 && a.padding == 0) ||
                                             (a.kernel_size == 3 && a.padding == 1));
  if (!known) return no("neither 2x2 without padding nor 3x3 with padding 1, with stride 2");
  if (!a.x_is_dense) return no("x is not dense");
  if (a.planar && a.type != Type::kFloat) return no("fp16 or bf16 that is not channels_last");
  constexpr int64_t kMost = int64_t{1} << 30;
  if (a.x_width * a.channels > kMost || a.x_height > kMost || a.batch * a.height > kMost) {
    return no("a row of more than 2^30 values, or more than 2^30 rows");
  }
  if (a.planar) return true;
  const bool wide = a.type == Type::kFloat;
  if (a.channels % (wide ? kVector<float> : kVector<__half>) != 0) {
    return no("channels not in sixteen bytes");
  }
  if (!aligned(a.x) || !aligned(a.out)) return no("x or the output is not aligned");
  return true;
}

cudaError_t launch_max_pool2d(const MaxPoolArguments& arguments, cudaStream_t stream) {
  if (arguments.planar) {
    return arguments.kernel_size == 2 ? launch_planes<2, 0>(arguments, stream)
                                      : launch_planes<3, 1>(arguments, stream);
  }
  if (arguments.type == Type::kFloat) return choose_kernel<float>(arguments, stream);
  return arguments.type == Type::kHalf ? choose_kernel<__half>(arguments, stream)
                                       : choose_kernel<__nv_bfloat16>(arguments, stream);
}

}  // namespace hdfnet::ops::cuda
