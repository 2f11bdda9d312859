// Max pooling with stride 2 that gives values only: one thread makes 8 channels of a result, in
// 16-byte accesses. NaN wins, as in ATen. Bytes: x once (what 3x3 windows share from the L1 and
// L2), the result once.
#include "cuda/max_pool2d_arguments.h"
#include "cuda/scalar.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kVector = 8;
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

/// Eight channels of a pixel.
template <typename T>
struct __align__(16) Eight {
  typename PairOf<T>::type pair[kVector / 2];
};

template <typename T, int kKernel, int kPadding>
__global__ void __launch_bounds__(kThreads)
    max_pool2d(const __grid_constant__ MaxPoolArguments a, int rows) {
  const int vectors = static_cast<int>(a.channels) / kVector;
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
    const Eight<T>* const image =
        static_cast<const Eight<T>*>(a.x) +
        static_cast<int64_t>(row / height) * x_height * x_width * vectors + vector;
    Eight<T> value[kKernel][kKernel];
#pragma unroll
    for (int i = 0; i < kKernel; ++i) {
      const int x_row = min(max(row % height * kStride - kPadding + i, 0), x_height - 1);
      const Eight<T>* const line = image + static_cast<int64_t>(x_row) * x_width * vectors;
#pragma unroll
      for (int j = 0; j < kKernel; ++j) value[i][j] = line[at_column[j]];
    }
    Eight<T> best = value[0][0];
#pragma unroll
    for (int i = 1; i < kKernel * kKernel; ++i) {
#pragma unroll
      for (int v = 0; v < kVector / 2; ++v) {
        best.pair[v] = __hmax2_nan(best.pair[v], value[i / kKernel][i % kKernel].pair[v]);
      }
    }
    static_cast<Eight<T>*>(a.out)[static_cast<int64_t>(row) * a.width * vectors + in_row] = best;
  }
}

template <typename T, int kKernel, int kPadding>
cudaError_t launch(const MaxPoolArguments& a, cudaStream_t stream) {
  const int64_t rows = a.batch * a.height;
  const int64_t blocks = (a.width * (a.channels / kVector) + kThreads - 1) / kThreads;
  const dim3 grid(static_cast<unsigned>(blocks),
                  static_cast<unsigned>(rows < kMaxGridY ? rows : kMaxGridY));
  max_pool2d<T, kKernel, kPadding><<<grid, kThreads, 0, stream>>>(a, static_cast<int>(rows));
  return cudaGetLastError();
}

template <typename T>
cudaError_t choose_kernel(const MaxPoolArguments& a, cudaStream_t stream) {
  return a.kernel_size == 2 ? launch<T, 2, 0>(a, stream) : launch<T, 3, 1>(a, stream);
}

bool aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

}  // namespace

bool can_run_max_pool2d(const MaxPoolArguments& a, std::string* why) {
  const auto no = [why](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (a.type != Type::kHalf && a.type != Type::kBFloat16) return no("not fp16 or bf16");
  const bool known = a.stride == kStride && ((a.kernel_size == 2 && a.padding == 0) ||
                                             (a.kernel_size == 3 && a.padding == 1));
  if (!known) return no("neither 2x2 without padding nor 3x3 with padding 1, with stride 2");
  if (!a.x_is_dense) return no("x is not channels_last");
  if (a.channels % kVector != 0) return no("channels not in eights");
  constexpr int64_t kMost = int64_t{1} << 30;
  if (a.x_width * a.channels > kMost || a.x_height > kMost || a.batch * a.height > kMost) {
    return no("a row of more than 2^30 values, or more than 2^30 rows");
  }
  if (!aligned(a.x) || !aligned(a.out)) return no("x or the output is not aligned");
  return true;
}

cudaError_t launch_max_pool2d(const MaxPoolArguments& arguments, cudaStream_t stream) {
  return arguments.type == Type::kHalf ? choose_kernel<__half>(arguments, stream)
                                       : choose_kernel<__nv_bfloat16>(arguments, stream);
}

}  // namespace hdfnet::ops::cuda
