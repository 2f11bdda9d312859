// The gradients of dynamic_filter on the CPU, with the walks of cpu/dynamic_filter.cpp.
//
//   d kernels[n, b, c, t, p] = grad[n, b*C + c, p] * x[n, c, p + offset(t)]      (x is 0 outside)
//   d x[n, c, q] = sum over b, t of grad[n, b*C + c, q - offset(t)] * kernels[n, b, c, t, q -
//   offset(t)]
//                  (+ grad[n, c, q] where the input was put in front of the results)
//
// Both are gathers, so that every element is written once, by one thread.
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>

#include "cpu/filter_view.h"
#include "cpu/tap_sums.h"
#include "cpu/vector_clones.h"
#include "registration.h"

namespace hdfnet::ops {
namespace {

template <typename T, typename Acc>
HDFNET_VECTOR_CLONES void tap_gradient_row(T* __restrict out, const T* __restrict grad,
                                           const T* __restrict x, int64_t width, int64_t shift,
                                           bool row_inside) {
  const Columns inside = row_inside ? columns_inside(shift, width) : Columns{width, width};
  for (int64_t w = 0; w < inside.begin; ++w) {
    out[w] = static_cast<T>(static_cast<Acc>(grad[w]) * Acc(0));
  }
  x += shift;
  for (int64_t w = inside.begin; w < inside.end; ++w) {
    out[w] = static_cast<T>(static_cast<Acc>(grad[w]) * static_cast<Acc>(x[w]));
  }
  for (int64_t w = inside.end; w < width; ++w) {
    out[w] = static_cast<T>(static_cast<Acc>(grad[w]) * Acc(0));
  }
}

template <typename T, typename Acc>
HDFNET_VECTOR_CLONES void input_gradient_row(Acc* __restrict sums, const T* __restrict grad,
                                             const T* __restrict taps, int64_t width,
                                             int64_t shift) {
  const Columns inside = columns_inside(-shift, width);
  for (int64_t w = inside.begin; w < inside.end; ++w) {
    sums[w] += static_cast<Acc>(grad[w - shift]) * static_cast<Acc>(taps[w - shift]);
  }
}

template <typename T, typename Acc>
struct Gradients {
  MapView<const T> grad;  // of the filtered channels only
  MapView<const T> x;
  TapView<const T> taps;
  FilterSizes<int64_t> s;
  at::IntArrayRef dilations;
  int64_t tap_count = s.kernel_size * s.kernel_size;

  void taps_by_rows(const TapView<T>& out) const {
    const int64_t rows = s.batch * s.branches * s.channels * s.height;
    at::parallel_for(0, rows, grain_of(tap_count * s.width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t h = row % s.height;
        const int64_t c = row / s.height % s.channels;
        const int64_t b = row / (s.height * s.channels) % s.branches;
        const int64_t n = row / (s.height * s.channels * s.branches);
        for (int64_t t = 0; t < tap_count; ++t) {
          const Offset offset = tap_offset(t, s.kernel_size, dilations[b]);
          const int64_t from = h + offset.h;
          const bool inside = from >= 0 && from < s.height;
          tap_gradient_row<T, Acc>(out.at(n, b, c, t, h), grad.at(n, b * s.channels + c, h),
                                   x.at(n, c, inside ? from : 0), s.width, offset.w, inside);
        }
      }
    });
  }

  void taps_by_pixels(const TapView<T>& out) const {
    const int64_t pixels = s.batch * s.height * s.width;
    const int64_t work = s.branches * s.channels * tap_count;
    at::parallel_for(0, pixels, grain_of(work), [&](int64_t begin, int64_t end) {
      for (int64_t pixel = begin; pixel < end; ++pixel) {
        const int64_t w = pixel % s.width;
        const int64_t h = pixel / s.width % s.height;
        const int64_t n = pixel / (s.width * s.height);
        for (int64_t b = 0; b < s.branches; ++b) {
          const T* g = grad.at(n, b * s.channels, h) + w * grad.w;
          for (int64_t t = 0; t < tap_count; ++t) {
            const Offset offset = tap_offset(t, s.kernel_size, dilations[b]);
            const int64_t from_h = h + offset.h;
            const int64_t from_w = w + offset.w;
            const bool inside = from_h >= 0 && from_h < s.height && from_w >= 0 && from_w < s.width;
            const T* in = inside ? x.at(n, 0, from_h) + from_w * x.w : nullptr;
            T* to = out.at(n, b, 0, t, h) + w * out.w;
            for (int64_t c = 0; c < s.channels; ++c) {
              const Acc value = inside ? static_cast<Acc>(in[c * x.c]) : Acc(0);
              to[c * out.c] = static_cast<T>(static_cast<Acc>(g[c * grad.c]) * value);
            }
          }
        }
      }
    });
  }

  // `front` is the gradient of the input put in front of the results, or null.
  void input_by_rows(const MapView<T>& out, const MapView<const T>* front) const {
    const int64_t rows = s.batch * s.channels * s.height;
    const int64_t work = s.branches * tap_count * s.width;
    at::parallel_for(0, rows, grain_of(work), [&](int64_t begin, int64_t end) {
      TapSums<Acc> sums(s.width, s.kernel_size, true);
      for (int64_t row = begin; row < end; ++row) {
        const int64_t h = row % s.height;
        const int64_t c = row / s.height % s.channels;
        const int64_t n = row / (s.height * s.channels);
        sums.clear();
        for (int64_t w = 0; w < s.width; ++w) {
          sums.total()[w] = front ? static_cast<Acc>(front->at(n, c, h)[w * front->w]) : Acc(0);
        }
        for (int64_t b = 0; b < s.branches; ++b) {
          for (int64_t t = 0; t < tap_count; ++t) {
            const Offset offset = tap_offset(t, s.kernel_size, dilations[b]);
            const int64_t from = h - offset.h;
            if (from >= 0 && from < s.height) {
              input_gradient_row<T, Acc>(sums.to_add_to(), grad.at(n, b * s.channels + c, from),
                                         taps.at(n, b, c, t, from), s.width, offset.w);
            }
            sums.finish_tap(t);
          }
        }
        T* to = out.at(n, c, h);
        for (int64_t w = 0; w < s.width; ++w) to[w * out.w] = static_cast<T>(sums.total()[w]);
      }
    });
  }

  void input_by_pixels(const MapView<T>& out, const MapView<const T>* front) const {
    const int64_t pixels = s.batch * s.height * s.width;
    const int64_t work = s.branches * s.channels * tap_count;
    at::parallel_for(0, pixels, grain_of(work), [&](int64_t begin, int64_t end) {
      TapSums<Acc> sums(s.channels, s.kernel_size, true);
      for (int64_t pixel = begin; pixel < end; ++pixel) {
        const int64_t w = pixel % s.width;
        const int64_t h = pixel / s.width % s.height;
        const int64_t n = pixel / (s.width * s.height);
        sums.clear();
        for (int64_t c = 0; c < s.channels; ++c) {
          sums.total()[c] = front ? static_cast<Acc>(front->at(n, c, h)[w * front->w]) : Acc(0);
        }
        for (int64_t b = 0; b < s.branches; ++b) {
          for (int64_t t = 0; t < tap_count; ++t) {
            const Offset offset = tap_offset(t, s.kernel_size, dilations[b]);
            const int64_t from_h = h - offset.h;
            const int64_t from_w = w - offset.w;
            if (from_h >= 0 && from_h < s.height && from_w >= 0 && from_w < s.width) {
              const T* g = grad.at(n, b * s.channels, from_h) + from_w * grad.w;
              const T* k = taps.at(n, b, 0, t, from_h) + from_w * taps.w;
              Acc* to_add_to = sums.to_add_to();
              for (int64_t c = 0; c < s.channels; ++c) {
                to_add_to[c] += static_cast<Acc>(g[c * grad.c]) * static_cast<Acc>(k[c * taps.c]);
              }
            }
            sums.finish_tap(t);
          }
        }
        T* to = out.at(n, 0, h) + w * out.w;
        for (int64_t c = 0; c < s.channels; ++c) to[c * out.c] = static_cast<T>(sums.total()[c]);
      }
    });
  }
};

std::tuple<at::Tensor, at::Tensor> dynamic_filter_backward_cpu(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& kernels,
    at::IntArrayRef dilations, bool concat_input, std::array<bool, 2> needs) {
  const char* op = "hdfnet::dynamic_filter_backward";
  const auto sizes = check_dynamic_filter<int64_t>(op, x, kernels, dilations);
  check_filter_gradient(op, grad, x, sizes, concat_input);
  at::Tensor grad_x = needs[0] ? at::empty_like(x) : at::Tensor();
  at::Tensor grad_kernels = needs[1] ? at::empty_like(kernels) : at::Tensor();
  if (x.numel() == 0) return {grad_x, grad_kernels};

  const int64_t skipped = concat_input ? sizes.channels : 0;
  const at::Tensor filtered = grad.narrow(1, skipped, grad.size(1) - skipped);
  const bool rows = rows_are_contiguous(x, kernels) && rows_are_contiguous(filtered, kernels);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, x.scalar_type(), "dynamic_filter_backward_cpu", [&] {
        using Acc = at::opmath_type<scalar_t>;
        const MapView<const scalar_t> front(grad.const_data_ptr<scalar_t>(), grad);
        const Gradients<scalar_t, Acc> gradients{{filtered.const_data_ptr<scalar_t>(), filtered},
                                                 {x.const_data_ptr<scalar_t>(), x},
                                                 {kernels.const_data_ptr<scalar_t>(), kernels},
                                                 sizes,
                                                 dilations};
        if (needs[1]) {
          const TapView<scalar_t> out(grad_kernels.mutable_data_ptr<scalar_t>(), grad_kernels);
          rows && (out.w == 1 || sizes.width == 1) ? gradients.taps_by_rows(out)
                                                   : gradients.taps_by_pixels(out);
        }
        if (needs[0]) {
          const MapView<scalar_t> out(grad_x.mutable_data_ptr<scalar_t>(), grad_x);
          const MapView<const scalar_t>* added = concat_input ? &front : nullptr;
          rows ? gradients.input_by_rows(out, added) : gradients.input_by_pixels(out, added);
        }
      });
  return {grad_x, grad_kernels};
}

}  // namespace

void register_cpu_dynamic_filter_backward(Registration& registration) {
  registration.under(c10::DispatchKey::CPU)
      .impl("dynamic_filter_backward", &dynamic_filter_backward_cpu);
}

}  // namespace hdfnet::ops
