// generated_dynamic_filter on the CPU.
//
// A thread takes runs of up to 64 pixels of a row. It converts the run's y once to [Cy][64] in the
// sum's type, then makes the taps of one channel at a time (K*K rows of weight, four at a time so
// that each y is used four times from a register), multiplies them with the shifted x and adds:
// scratch is a few tens of kilobytes a thread, whatever the sizes. FLOPs: 2*Cy*K*K a result; bound
// by arithmetic.
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include "common/output.h"
#include "cpu/filter_view.h"
#include "cpu/vector_clones.h"
#include "registration.h"

namespace hdfnet::ops {
namespace {

constexpr int64_t kRun = 64;    // pixels
constexpr int64_t kLanes = 16;  // pixels in registers at once
constexpr int64_t kBlock = 8;   // channels of y summed on their own first, to lose less
constexpr int64_t kRows = 4;    // rows of weight in registers at once

// taps[r][p] = bias[r] + sum over s of weight[r][s] * y[s][p], for `rows` rows and kRun pixels.
template <typename Acc>
HDFNET_VECTOR_CLONES void make_taps(Acc* __restrict taps, const Acc* __restrict weight,
                                    const Acc* __restrict bias, const Acc* __restrict y,
                                    int64_t rows, int64_t sources) {
  typedef Acc Lanes
      __attribute__((vector_size(kLanes * sizeof(Acc)), aligned(alignof(Acc)), may_alias));
  for (int64_t r = 0; r < rows; r += kRows) {
    // The last rows are done again where `rows` is no multiple; with fewer than four, one at a
    // time.
    const int64_t step = rows >= kRows ? kRows : 1;
    const int64_t row = step == kRows ? std::min(r, rows - kRows) : r;
    for (int64_t p = 0; p < kRun; p += kLanes) {
      if (step == kRows) {
        const Acc* w = weight + row * sources;
        Lanes sum0 = Lanes{} + bias[row], sum1 = Lanes{} + bias[row + 1];
        Lanes sum2 = Lanes{} + bias[row + 2], sum3 = Lanes{} + bias[row + 3];
        for (int64_t block = 0; block < sources; block += kBlock) {
          Lanes part0{}, part1{}, part2{}, part3{};
          for (int64_t s = block; s < std::min(block + kBlock, sources); ++s) {
            const Lanes value = *reinterpret_cast<const Lanes*>(y + s * kRun + p);
            part0 += value * w[s];
            part1 += value * w[sources + s];
            part2 += value * w[2 * sources + s];
            part3 += value * w[3 * sources + s];
          }
          sum0 += part0;
          sum1 += part1;
          sum2 += part2;
          sum3 += part3;
        }
        Acc* to = taps + row * kRun + p;
        *reinterpret_cast<Lanes*>(to) = sum0;
        *reinterpret_cast<Lanes*>(to + kRun) = sum1;
        *reinterpret_cast<Lanes*>(to + 2 * kRun) = sum2;
        *reinterpret_cast<Lanes*>(to + 3 * kRun) = sum3;
      } else {
        for (int64_t one = r; one < std::min(r + kRows, rows); ++one) {
          Lanes sum = Lanes{} + bias[one];
          for (int64_t s = 0; s < sources; ++s) {
            sum += *reinterpret_cast<const Lanes*>(y + s * kRun + p) * weight[one * sources + s];
          }
          *reinterpret_cast<Lanes*>(taps + one * kRun + p) = sum;
        }
      }
    }
  }
}

// sums[p] += taps[p] * x[p], x with a stride, or zero where it is outside of the plane.
template <typename T, typename Acc>
HDFNET_VECTOR_CLONES void add_run(Acc* __restrict sums, const Acc* __restrict taps,
                                  const T* __restrict x, int64_t stride, Columns inside,
                                  int64_t count) {
  for (int64_t p = 0; p < inside.begin; ++p) sums[p] += taps[p] * Acc(0);
  if (stride == 1) {
    for (int64_t p = inside.begin; p < inside.end; ++p) {
      sums[p] += taps[p] * static_cast<Acc>(x[p]);
    }
  } else {
    for (int64_t p = inside.begin; p < inside.end; ++p) {
      sums[p] += taps[p] * static_cast<Acc>(x[p * stride]);
    }
  }
  for (int64_t p = inside.end; p < count; ++p) sums[p] += taps[p] * Acc(0);
}

template <typename T, typename Acc>
struct GeneratedFilter {
  MapView<const T> x;
  const at::Tensor& y;
  std::vector<Acc> weight;  // (B, C*K*K, Cy)
  std::vector<Acc> bias;    // (B, C*K*K)
  MapView<T> out;           // of the filtered channels
  GeneratedFilterSizes<int64_t> sizes;
  at::IntArrayRef dilations;

  void run() const {
    const FilterSizes<int64_t>& f = sizes.filter;
    const int64_t runs = (f.width + kRun - 1) / kRun;
    const int64_t work =
        f.branches * f.channels * f.kernel_size * f.kernel_size * sizes.source_channels * kRun;
    at::parallel_for(0, f.batch * f.height * runs, grain_of(work), [&](int64_t begin, int64_t end) {
      std::vector<Acc> source(sizes.source_channels * kRun);
      std::vector<Acc> taps(f.kernel_size * f.kernel_size * kRun);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % runs * kRun;
        const int64_t h = i / runs % f.height;
        const int64_t n = i / (runs * f.height);
        for (int64_t b = 0; b < f.branches; ++b) {
          if (b < sizes.groups) read_source(source, n, b, h, first);
          for (int64_t c = 0; c < f.channels; ++c) filter_channel(source, taps, n, b, c, h, first);
        }
      }
    });
  }

 private:
  void read_source(std::vector<Acc>& source, int64_t n, int64_t group, int64_t h,
                   int64_t first) const {
    const T* from = y.const_data_ptr<T>() + n * y.stride(0) + group * y.stride(1) +
                    h * y.stride(3) + first * y.stride(4);
    const int64_t count = std::min(kRun, sizes.filter.width - first);
    for (int64_t s = 0; s < sizes.source_channels; ++s) {
      for (int64_t p = 0; p < count; ++p) {
        source[s * kRun + p] = static_cast<Acc>(from[s * y.stride(2) + p * y.stride(4)]);
      }
    }
  }

  void filter_channel(const std::vector<Acc>& source, std::vector<Acc>& taps, int64_t n, int64_t b,
                      int64_t c, int64_t h, int64_t first) const {
    const FilterSizes<int64_t>& f = sizes.filter;
    const int64_t tap_count = f.kernel_size * f.kernel_size;
    const int64_t count = std::min(kRun, f.width - first);
    const int64_t row = (b * f.channels + c) * tap_count;
    make_taps<Acc>(taps.data(), weight.data() + row * sizes.source_channels, bias.data() + row,
                   source.data(), tap_count, sizes.source_channels);
    Acc sums[kRun] = {};
    Acc row_sums[kRun] = {};  // of one row of taps first: many taps lose less that way
    for (int64_t t = 0; t < tap_count; ++t) {
      const Offset offset = tap_offset(t, f.kernel_size, dilations[b]);
      const int64_t from_h = h + offset.h;
      Columns inside{count, count};
      if (from_h >= 0 && from_h < f.height) {
        const Columns in_row = columns_inside(offset.w, f.width);
        inside.begin = std::clamp<int64_t>(in_row.begin - first, 0, count);
        inside.end = std::clamp<int64_t>(in_row.end - first, inside.begin, count);
      }
      const bool any = inside.begin < inside.end;
      add_run<T, Acc>(row_sums, taps.data() + t * kRun,
                      any ? x.at(n, c, from_h) + (first + offset.w) * x.w : x.data, x.w, inside,
                      count);
      if (t % f.kernel_size != f.kernel_size - 1) continue;
      for (int64_t p = 0; p < count; ++p) {
        sums[p] += row_sums[p];
        row_sums[p] = 0;
      }
    }
    T* to = out.at(n, b * f.channels + c, h) + first * out.w;
    for (int64_t p = 0; p < count; ++p) to[p * out.w] = static_cast<T>(sums[p]);
  }
};

template <typename T, typename Acc>
std::vector<Acc> read_all(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  const T* data = dense.const_data_ptr<T>();
  std::vector<Acc> values(dense.numel());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<Acc>(data[i]);
  return values;
}

at::Tensor generated_dynamic_filter_cpu(const at::Tensor& x, const at::Tensor& y,
                                        const at::Tensor& weight,
                                        const std::optional<at::Tensor>& bias,
                                        at::IntArrayRef dilations, bool concat_input) {
  const auto sizes = check_generated_dynamic_filter<int64_t>("hdfnet::generated_dynamic_filter", x,
                                                             y, weight, bias, dilations);
  const int64_t channels = sizes.filter.channels;
  at::Tensor result = empty_filter_result(x, sizes.filter, concat_input);
  if (result.numel() == 0) return result;
  if (concat_input) result.narrow(1, 0, channels).copy_(x);
  const at::Tensor filtered =
      concat_input ? result.narrow(1, channels, result.size(1) - channels) : result;
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, x.scalar_type(), "generated_dynamic_filter_cpu", [&] {
        using Acc = at::opmath_type<scalar_t>;
        const bool has_bias = bias.has_value() && bias->defined();
        GeneratedFilter<scalar_t, Acc>{{x.const_data_ptr<scalar_t>(), x},
                                       y,
                                       read_all<scalar_t, Acc>(weight),
                                       has_bias ? read_all<scalar_t, Acc>(*bias)
                                                : std::vector<Acc>(weight.size(0) * weight.size(1)),
                                       {filtered.mutable_data_ptr<scalar_t>(), filtered},
                                       sizes,
                                       dilations}
            .run();
      });
  return result;
}

}  // namespace

void register_cpu_generated_dynamic_filter(Registration& registration) {
  registration.under(c10::DispatchKey::CPU)
      .impl("generated_dynamic_filter", &generated_dynamic_filter_cpu);
}

}  // namespace hdfnet::ops
