// dynamic_filter on the CPU.
//
// Two walks, each along the axis that memory runs along:
//   rows    W has unit stride (NCHW): a row of sums in fp32 stays in the L1 cache while the K*K
//   rows
//           of taps stream by, each with its shifted row of x
//   pixels  any strides; made for channels_last, where a pixel's channels are neighbours: the sums
//   of
//           all channels of a pixel stay in the L1 cache
// Bytes: every tap is read once; x comes from cache after its first use. FLOPs: 2 a tap.
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include "common/output.h"
#include "cpu/filter_view.h"
#include "cpu/tap_sums.h"
#include "cpu/vector_clones.h"
#include "registration.h"

namespace hdfnet::ops {
namespace {

// sums[w] += x[w + shift] * taps[w], with zeros beyond x's ends. Zeros are multiplied too, so that
// an infinite tap gives NaN there.
template <typename T, typename Acc>
HDFNET_VECTOR_CLONES void add_row(Acc* __restrict sums, const T* __restrict x,
                                  const T* __restrict taps, int64_t width, int64_t shift,
                                  bool row_inside) {
  const Columns inside = row_inside ? columns_inside(shift, width) : Columns{width, width};
  for (int64_t w = 0; w < inside.begin; ++w) sums[w] += Acc(0) * static_cast<Acc>(taps[w]);
  x += shift;
  for (int64_t w = inside.begin; w < inside.end; ++w) {
    sums[w] += static_cast<Acc>(x[w]) * static_cast<Acc>(taps[w]);
  }
  for (int64_t w = inside.end; w < width; ++w) sums[w] += Acc(0) * static_cast<Acc>(taps[w]);
}

template <typename T, typename Acc>
HDFNET_VECTOR_CLONES void store_row(T* __restrict out, const Acc* __restrict sums, int64_t width) {
  for (int64_t w = 0; w < width; ++w) out[w] = static_cast<T>(sums[w]);
}

template <typename T, typename Acc>
void filter_rows(const MapView<const T>& x, const TapView<const T>& taps, const MapView<T>& out,
                 const FilterSizes<int64_t>& s, at::IntArrayRef dilations) {
  const int64_t tap_count = s.kernel_size * s.kernel_size;
  const int64_t rows = s.batch * s.branches * s.channels * s.height;
  at::parallel_for(0, rows, grain_of(tap_count * s.width), [&](int64_t begin, int64_t end) {
    TapSums<Acc> sums(s.width, s.kernel_size, s.kernel_size > 5);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t h = row % s.height;
      const int64_t c = row / s.height % s.channels;
      const int64_t b = row / (s.height * s.channels) % s.branches;
      const int64_t n = row / (s.height * s.channels * s.branches);
      sums.clear();
      for (int64_t t = 0; t < tap_count; ++t) {
        const Offset offset = tap_offset(t, s.kernel_size, dilations[b]);
        const int64_t from = h + offset.h;
        const bool inside = from >= 0 && from < s.height;
        add_row<T, Acc>(sums.to_add_to(), x.at(n, c, inside ? from : 0), taps.at(n, b, c, t, h),
                        s.width, offset.w, inside);
        sums.finish_tap(t);
      }
      store_row<T, Acc>(out.at(n, b * s.channels + c, h), sums.total(), s.width);
    }
  });
}

// sums[c] += x[c * x_stride] * taps[c * tap_stride]; x is null for the zeros outside of the plane.
template <typename T, typename Acc>
HDFNET_VECTOR_CLONES void add_pixel(Acc* __restrict sums, const T* __restrict x, int64_t x_stride,
                                    const T* __restrict taps, int64_t tap_stride,
                                    int64_t channels) {
  if (x == nullptr) {
    for (int64_t c = 0; c < channels; ++c) {
      sums[c] += Acc(0) * static_cast<Acc>(taps[c * tap_stride]);
    }
  } else if (x_stride == 1) {
    for (int64_t c = 0; c < channels; ++c) {
      sums[c] += static_cast<Acc>(x[c]) * static_cast<Acc>(taps[c * tap_stride]);
    }
  } else {
    for (int64_t c = 0; c < channels; ++c) {
      sums[c] += static_cast<Acc>(x[c * x_stride]) * static_cast<Acc>(taps[c * tap_stride]);
    }
  }
}

template <typename T, typename Acc>
void filter_pixels(const MapView<const T>& x, const TapView<const T>& taps, const MapView<T>& out,
                   const FilterSizes<int64_t>& s, at::IntArrayRef dilations) {
  const int64_t tap_count = s.kernel_size * s.kernel_size;
  const int64_t pixels = s.batch * s.height * s.width;
  const int64_t work = s.branches * s.channels * tap_count;
  at::parallel_for(0, pixels, grain_of(work), [&](int64_t begin, int64_t end) {
    TapSums<Acc> sums(s.channels, s.kernel_size, s.kernel_size > 5);
    for (int64_t pixel = begin; pixel < end; ++pixel) {
      const int64_t w = pixel % s.width;
      const int64_t h = pixel / s.width % s.height;
      const int64_t n = pixel / (s.width * s.height);
      for (int64_t b = 0; b < s.branches; ++b) {
        sums.clear();
        for (int64_t t = 0; t < tap_count; ++t) {
          const Offset offset = tap_offset(t, s.kernel_size, dilations[b]);
          const int64_t from_h = h + offset.h;
          const int64_t from_w = w + offset.w;
          const bool inside = from_h >= 0 && from_h < s.height && from_w >= 0 && from_w < s.width;
          add_pixel<T, Acc>(sums.to_add_to(), inside ? x.at(n, 0, from_h) + from_w * x.w : nullptr,
                            x.c, taps.at(n, b, 0, t, h) + w * taps.w, taps.c, s.channels);
          sums.finish_tap(t);
        }
        T* to = out.at(n, b * s.channels, h) + w * out.w;
        for (int64_t c = 0; c < s.channels; ++c) to[c * out.c] = static_cast<T>(sums.total()[c]);
      }
    }
  });
}

at::Tensor dynamic_filter_cpu(const at::Tensor& x, const at::Tensor& kernels,
                              at::IntArrayRef dilations, bool concat_input) {
  const auto sizes = check_dynamic_filter<int64_t>("hdfnet::dynamic_filter", x, kernels, dilations);
  at::Tensor result = empty_filter_result(x, sizes, concat_input);
  if (result.numel() == 0) return result;
  if (concat_input) result.narrow(1, 0, sizes.channels).copy_(x);
  const at::Tensor filtered =
      concat_input ? result.narrow(1, sizes.channels, result.size(1) - sizes.channels) : result;
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, x.scalar_type(), "dynamic_filter_cpu", [&] {
        using Acc = at::opmath_type<scalar_t>;
        const MapView<const scalar_t> in(x.const_data_ptr<scalar_t>(), x);
        const TapView<const scalar_t> taps(kernels.const_data_ptr<scalar_t>(), kernels);
        const MapView<scalar_t> out(filtered.mutable_data_ptr<scalar_t>(), filtered);
        const bool rows = rows_are_contiguous(x, kernels) && (out.w == 1 || sizes.width == 1);
        (rows ? filter_rows<scalar_t, Acc> : filter_pixels<scalar_t, Acc>)(in, taps, out, sizes,
                                                                           dilations);
      });
  return result;
}

}  // namespace

void register_cpu_dynamic_filter(Registration& registration) {
  registration.under(c10::DispatchKey::CPU).impl("dynamic_filter", &dynamic_filter_cpu);
}

}  // namespace hdfnet::ops
