#pragma once

#include <ATen/core/Tensor.h>

#include "common/check.h"

namespace hdfnet::ops {

/// A (N, C, H, W) tensor as a pointer and strides, for const and mutable T.
template <typename T>
struct MapView {
  T* data;
  int64_t n, c, h, w;  // strides in elements

  MapView(T* pointer, const at::Tensor& tensor)
      : data(pointer),
        n(tensor.stride(0)),
        c(tensor.stride(1)),
        h(tensor.stride(2)),
        w(tensor.stride(3)) {}
  T* at(int64_t in, int64_t ic, int64_t ih) const { return data + in * n + ic * c + ih * h; }
};

/// A (N, B, C, K*K, H, W) tensor, likewise.
template <typename T>
struct TapView {
  T* data;
  int64_t n, b, c, t, h, w;

  TapView(T* pointer, const at::Tensor& tensor)
      : data(pointer),
        n(tensor.stride(0)),
        b(tensor.stride(1)),
        c(tensor.stride(2)),
        t(tensor.stride(3)),
        h(tensor.stride(4)),
        w(tensor.stride(5)) {}
  T* at(int64_t in, int64_t ib, int64_t ic, int64_t it, int64_t ih) const {
    return data + in * n + ib * b + ic * c + it * t + ih * h;
  }
};

/// Where tap t of a K x K kernel of this dilation reads, relative to the pixel it writes.
struct Offset {
  int64_t h, w;
};
inline Offset tap_offset(int64_t t, int64_t kernel_size, int64_t dilation) {
  return {(t / kernel_size - kernel_size / 2) * dilation,
          (t % kernel_size - kernel_size / 2) * dilation};
}

/// The columns w of a row for which w + shift lies inside of it: [begin, end).
struct Columns {
  int64_t begin, end;
};
inline Columns columns_inside(int64_t shift, int64_t width) {
  const int64_t begin = std::min(std::max<int64_t>(0, -shift), width);
  return {begin, std::max(begin, std::min(width, width - shift))};
}

/// Whether the innermost axis of both can be walked with unit stride.
inline bool rows_are_contiguous(const at::Tensor& x, const at::Tensor& kernels) {
  return x.size(3) <= 1 || (x.stride(3) == 1 && kernels.stride(5) == 1);
}

/// Pieces of work to give one thread at least, so that each is some tens of microseconds.
inline int64_t grain_of(int64_t operations_each) {
  return std::max<int64_t>(1, 65536 / std::max<int64_t>(1, operations_each));
}

}  // namespace hdfnet::ops
