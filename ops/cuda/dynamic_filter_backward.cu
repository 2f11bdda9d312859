// The gradients of dynamic_filter, for any strides.
//
//   d kernels[n, b, c, t, p] = grad[n, b*C + c, p] * x[n, c, p + offset(t)]      (x is 0 outside)
//   d x[n, c, q] = sum over b, t of grad[n, b*C + c, q - offset(t)] * kernels[n, b, c, t, q -
//   offset(t)]
//                  (+ grad[n, c, q] where the input was put in front of the results)
//
// Both are gathers: no atomics, the same bits every time. Mapping: one thread for each pixel and
// channel (and branch, for kernels), neighbouring threads along the axis with the smaller stride of
// kernels. Bytes: kernels are read once for d x, d kernels written once; the rest is small and
// comes from caches. FLOPs: 2 a tap for d x, 1 for d kernels.
#include "cuda/scalar.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 256;

template <typename Index>
struct Position {
  Index n, b, c, h, w;
};

/// Splits a thread's number; b counts up to `branches`.
template <typename Index, bool kColumnsInner>
__device__ __forceinline__ Position<Index> position_of(Index rest, const FilterArguments& a,
                                                       Index branches) {
  Position<Index> p{};
  const Index channels = static_cast<Index>(a.channels);
  if constexpr (!kColumnsInner) {
    p.c = rest % channels;
    rest /= channels;
  }
  p.w = rest % static_cast<Index>(a.width);
  rest /= static_cast<Index>(a.width);
  p.h = rest % static_cast<Index>(a.height);
  rest /= static_cast<Index>(a.height);
  if constexpr (kColumnsInner) {
    p.c = rest % channels;
    rest /= channels;
  }
  p.b = rest % branches;
  p.n = rest / branches;
  return p;
}

template <typename T, typename Index, bool kColumnsInner, int kK>
__global__ void __launch_bounds__(kThreads)
    gradient_of_kernels(const __grid_constant__ FilterGradientArguments a, Index total) {
  using Sum = SumOf<T>;
  const FilterArguments& f = a.filter;
  const int k = kK > 0 ? kK : f.kernel_size;
  const T* const x = static_cast<const T*>(f.x);
  const T* const grad = static_cast<const T*>(a.grad);
  T* const out = static_cast<T*>(a.out);
  for (Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; i < total;
       i += static_cast<Index>(gridDim.x) * kThreads) {
    const auto p = position_of<Index, kColumnsInner>(i, f, static_cast<Index>(f.branches));
    const Sum g = to_sum(grad[p.n * a.grad_stride[0] +
                              (f.output_channel + p.b * f.channels + p.c) * a.grad_stride[1] +
                              p.h * a.grad_stride[2] + p.w * a.grad_stride[3]]);
    const T* const plane = x + p.n * f.x_stride[0] + p.c * f.x_stride[1];
    T* to = out + p.n * a.out_stride[0] + p.b * a.out_stride[1] + p.c * a.out_stride[2] +
            p.h * a.out_stride[4] + p.w * a.out_stride[5];
    const int64_t dilation = f.dilation[p.b];
    int64_t from_h = p.h - (k / 2) * dilation;
#pragma unroll
    for (int row = 0; row < k; ++row, from_h += dilation) {
      int64_t from_w = p.w - (k / 2) * dilation;
#pragma unroll
      for (int column = 0; column < k; ++column, from_w += dilation) {
        const bool inside = from_h >= 0 && from_h < f.height && from_w >= 0 && from_w < f.width;
        const Sum value =
            inside ? to_sum(plane[from_h * f.x_stride[2] + from_w * f.x_stride[3]]) : Sum(0);
        *to = from_sum<T>(g * value);
        to += a.out_stride[3];
      }
    }
  }
}

template <typename T, typename Index, bool kColumnsInner, int kK>
__global__ void __launch_bounds__(kThreads)
    gradient_of_input(const __grid_constant__ FilterGradientArguments a, Index total) {
  using Sum = SumOf<T>;
  const FilterArguments& f = a.filter;
  const int k = kK > 0 ? kK : f.kernel_size;
  const T* const kernels = static_cast<const T*>(f.kernels);
  const T* const grad = static_cast<const T*>(a.grad);
  T* const out = static_cast<T*>(a.out);
  for (Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; i < total;
       i += static_cast<Index>(gridDim.x) * kThreads) {
    const auto p = position_of<Index, kColumnsInner>(i, f, Index(1));
    T* const to = out + p.n * a.out_stride[0] + p.c * a.out_stride[1] + p.h * a.out_stride[2] +
                  p.w * a.out_stride[3];
    Sum sum = a.add_to_out ? to_sum(*to) : Sum(0);
    if (f.concat_input) {
      sum += to_sum(grad[p.n * a.grad_stride[0] + p.c * a.grad_stride[1] + p.h * a.grad_stride[2] +
                         p.w * a.grad_stride[3]]);
    }
    for (int b = 0; b < static_cast<int>(f.branches); ++b) {
      const int64_t dilation = f.dilation[b];
      const T* const g = grad + p.n * a.grad_stride[0] +
                         (f.output_channel + b * f.channels + p.c) * a.grad_stride[1];
      const T* taps =
          kernels + p.n * f.kernel_stride[0] + b * f.kernel_stride[1] + p.c * f.kernel_stride[2];
      int64_t from_h = p.h + (k / 2) * dilation;
#pragma unroll
      for (int row = 0; row < k; ++row, from_h -= dilation) {
        Sum row_sum = 0;
        int64_t from_w = p.w + (k / 2) * dilation;
#pragma unroll
        for (int column = 0; column < k; ++column, from_w -= dilation) {
          if (from_h >= 0 && from_h < f.height && from_w >= 0 && from_w < f.width) {
            row_sum += to_sum(g[from_h * a.grad_stride[2] + from_w * a.grad_stride[3]]) *
                       to_sum(taps[from_h * f.kernel_stride[4] + from_w * f.kernel_stride[5]]);
          }
          taps += f.kernel_stride[3];
        }
        sum += row_sum;
      }
    }
    *to = from_sum<T>(sum);
  }
}

unsigned grid_of(int64_t total) {
  const int64_t blocks = (total + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < (1 << 30) ? blocks : (1 << 30));
}

bool columns_are_inner(const FilterArguments& a) {
  return a.width > 1 && (a.channels == 1 || a.kernel_stride[5] <= a.kernel_stride[2]);
}

/// Calls f(index tag, bool tag, kernel size tag) for the variant that fits.
template <typename Function>
void with_variant(const FilterArguments& a, int64_t total, const Function& f) {
  const auto sized = [&](auto index, auto columns) {
    if (a.kernel_size == 3) {
      f(index, columns, std::integral_constant<int, 3>());
    } else {
      f(index, columns, std::integral_constant<int, 0>());
    }
  };
  const auto laid_out = [&](auto index) {
    if (columns_are_inner(a)) {
      sized(index, std::true_type());
    } else {
      sized(index, std::false_type());
    }
  };
  if (total < (int64_t{1} << 30)) {
    laid_out(Tag<int32_t>());
  } else {
    laid_out(Tag<int64_t>());
  }
}

}  // namespace

cudaError_t launch_filter_gradient_of_kernels(const FilterGradientArguments& a,
                                              cudaStream_t stream) {
  const FilterArguments& f = a.filter;
  const int64_t total = f.batch * f.branches * f.channels * f.height * f.width;
  with_type(f.type, [&](auto type) {
    with_variant(f, total, [&](auto index, auto columns, auto k) {
      using T = typename decltype(type)::type;
      using Index = typename decltype(index)::type;
      gradient_of_kernels<T, Index, decltype(columns)::value, decltype(k)::value>
          <<<grid_of(total), kThreads, 0, stream>>>(a, static_cast<Index>(total));
    });
  });
  return cudaGetLastError();
}

cudaError_t launch_filter_gradient_of_input(const FilterGradientArguments& a, cudaStream_t stream) {
  const FilterArguments& f = a.filter;
  const int64_t total = f.batch * f.channels * f.height * f.width;
  with_type(f.type, [&](auto type) {
    with_variant(f, total, [&](auto index, auto columns, auto k) {
      using T = typename decltype(type)::type;
      using Index = typename decltype(index)::type;
      gradient_of_input<T, Index, decltype(columns)::value, decltype(k)::value>
          <<<grid_of(total), kThreads, 0, stream>>>(a, static_cast<Index>(total));
    });
  });
  return cudaGetLastError();
}

}  // namespace hdfnet::ops::cuda
