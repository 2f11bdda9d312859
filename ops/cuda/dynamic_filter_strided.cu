// dynamic_filter for any strides.
//
// Layout: whatever the strides say, for each of the three tensors. Mapping: one thread for each
// output element, neighbouring threads along the axis on which `kernels` has the smaller stride:
// columns, or channels for channels_last. Bytes: every tap once where its neighbours' lie beside
// it. FLOPs: 2 a tap. This is the path for odd layouts and types (mixed formats, slices, float64);
// the shapes that matter have kernels of their own.
#include "cuda/scalar.cuh"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T, typename Index, bool kChannelsFirst>
__global__ void __launch_bounds__(kThreads)
    filter_strided(const __grid_constant__ FilterArguments a, Index total) {
  using Sum = SumOf<T>;
  const Index channels = static_cast<Index>(a.channels);
  const Index height = static_cast<Index>(a.height);
  const Index width = static_cast<Index>(a.width);
  const Index branches = static_cast<Index>(a.branches) + (a.concat_input ? 1 : 0);
  const T* x = static_cast<const T*>(a.x);
  const T* kernels = static_cast<const T*>(a.kernels);
  T* out = static_cast<T*>(a.out);
  const int k = a.kernel_size;

  for (Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; i < total;
       i += static_cast<Index>(gridDim.x) * kThreads) {
    Index rest = i;
    Index c = 0;
    if constexpr (!kChannelsFirst) {
      c = rest % channels;
      rest /= channels;
    }
    const Index w = rest % width;
    rest /= width;
    const Index h = rest % height;
    rest /= height;
    if constexpr (kChannelsFirst) {
      c = rest % channels;
      rest /= channels;
    }
    const Index b = rest % branches;
    const Index n = rest / branches;

    const T* plane = x + n * a.x_stride[0] + c * a.x_stride[1];
    T* to = out + n * a.out_stride[0] + h * a.out_stride[2] + w * a.out_stride[3];
    if (b == static_cast<Index>(a.branches)) {
      to[c * a.out_stride[1]] = plane[h * a.x_stride[2] + w * a.x_stride[3]];
      continue;
    }
    const T* tap = kernels + n * a.kernel_stride[0] + b * a.kernel_stride[1] +
                   c * a.kernel_stride[2] + h * a.kernel_stride[4] + w * a.kernel_stride[5];
    const Index dilation = a.dilation[b];
    Sum sum = 0;
    Index from_h = h - (k / 2) * dilation;
    for (int row = 0; row < k; ++row, from_h += dilation) {
      Sum row_sum = 0;  // each row of taps on its own first: many taps lose less that way
      Index from_w = w - (k / 2) * dilation;
      for (int column = 0; column < k; ++column, from_w += dilation) {
        const bool inside = from_h >= 0 && from_h < height && from_w >= 0 && from_w < width;
        const Sum value =
            inside ? to_sum(plane[from_h * a.x_stride[2] + from_w * a.x_stride[3]]) : Sum(0);
        row_sum += value * to_sum(*tap);
        tap += a.kernel_stride[3];
      }
      sum += row_sum;
    }
    to[(a.output_channel + b * channels + c) * a.out_stride[1]] = from_sum<T>(sum);
  }
}

template <typename T, typename Index>
cudaError_t launch(const FilterArguments& a, int64_t total, cudaStream_t stream) {
  const int64_t blocks = (total + kThreads - 1) / kThreads;
  const auto grid = static_cast<unsigned>(blocks < (1 << 30) ? blocks : (1 << 30));
  const bool by_columns =
      a.width > 1 && (a.channels == 1 || a.kernel_stride[5] <= a.kernel_stride[2]);
  if (by_columns) {
    filter_strided<T, Index, true><<<grid, kThreads, 0, stream>>>(a, static_cast<Index>(total));
  } else {
    filter_strided<T, Index, false><<<grid, kThreads, 0, stream>>>(a, static_cast<Index>(total));
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_filter_strided(const FilterArguments& a, cudaStream_t stream) {
  const int64_t total =
      a.batch * (a.branches + (a.concat_input ? 1 : 0)) * a.channels * a.height * a.width;
  // Strides are 64-bit in any case; the index itself only where it may overflow 32 bits (with room
  // for the last grid-sized step).
  return with_type(a.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return total < (int64_t{1} << 30) ? launch<T, int32_t>(a, total, stream)
                                      : launch<T, int64_t>(a, total, stream);
  });
}

}  // namespace hdfnet::ops::cuda
