#include <ATen/ops/zeros.h>

#include "common/check.h"
#include "hdfnet/ops/dynamic_filter.h"

namespace hdfnet::ops {

at::Tensor dynamic_filter_reference(const at::Tensor& x, const at::Tensor& kernels,
                                    at::IntArrayRef dilations, bool concat_input) {
  const auto s =
      check_dynamic_filter<int64_t>("hdfnet::dynamic_filter_reference", x, kernels, dilations);
  const at::Tensor input = x.to(at::kCPU, at::kDouble).contiguous();
  const at::Tensor taps = kernels.to(at::kCPU, at::kDouble).contiguous();
  const int64_t first = concat_input ? s.channels : 0;
  at::Tensor result =
      at::zeros({s.batch, first + s.branches * s.channels, s.height, s.width}, input.options());
  if (concat_input) result.narrow(1, 0, s.channels).copy_(input);

  const double* in = input.const_data_ptr<double>();
  const double* tap = taps.const_data_ptr<double>();
  double* out = result.mutable_data_ptr<double>();
  const int64_t plane = s.height * s.width;
  const int64_t k = s.kernel_size;
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t b = 0; b < s.branches; ++b) {
      for (int64_t c = 0; c < s.channels; ++c) {
        const double* in_plane = in + (n * s.channels + c) * plane;
        double* out_plane = out + (n * result.size(1) + first + b * s.channels + c) * plane;
        for (int64_t t = 0; t < k * k; ++t, tap += plane) {
          const int64_t dh = (t / k - k / 2) * dilations[b];
          const int64_t dw = (t % k - k / 2) * dilations[b];
          for (int64_t h = 0; h < s.height; ++h) {
            for (int64_t w = 0; w < s.width; ++w) {
              const bool inside =
                  h + dh >= 0 && h + dh < s.height && w + dw >= 0 && w + dw < s.width;
              const double value = inside ? in_plane[(h + dh) * s.width + w + dw] : 0.0;
              out_plane[h * s.width + w] += value * tap[h * s.width + w];
            }
          }
        }
      }
    }
  }
  return result;
}

}  // namespace hdfnet::ops
