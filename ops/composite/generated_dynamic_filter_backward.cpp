// The gradients of generated_dynamic_filter, on every device, from matrix products and the
// gradients of dynamic_filter. The taps and their gradients exist for a part of the batch of one
// branch at a time.
#include "composite/generated_dynamic_filter_backward.h"

#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <vector>

#include "common/check.h"
#include "hdfnet/ops/dynamic_filter.h"
#include "registration.h"

namespace hdfnet::ops {
namespace {

constexpr int64_t kScratchBytes = int64_t{256}
                                  << 20;  // for the taps of a part; the gradient doubles it
/// Parts that a sum over pixels is cut into, if their number can be divided so. One long sum keeps
/// few multiprocessors busy, and loses more.
constexpr int64_t kSums = 32;

/// A generator with its bias as one more channel of weights, and zeros up to a multiple of 16
/// bytes. Where y has ones in that place a product adds the bias, and a gradient there is the
/// bias's.
struct Generator {
  at::Tensor weight;  // (B, rows, Cy + padding)
  at::Tensor tail;    // one 1, then zeros; none without a bias

  Generator(const at::Tensor& given, const std::optional<at::Tensor>& bias) : weight(given) {
    if (!bias.has_value() || !bias->defined()) return;
    const int64_t whole = std::max<int64_t>(1, 16 / static_cast<int64_t>(given.element_size()));
    const int64_t padding = whole - given.size(2) % whole;
    tail = at::zeros({padding}, given.options());
    tail[0].fill_(1);
    std::vector<at::Tensor> parts = {given, bias->unsqueeze(2)};
    if (padding > 1) {
      parts.push_back(tail.narrow(0, 1, padding - 1).expand({given.size(0), given.size(1), -1}));
    }
    weight = at::cat(parts, 2);
  }
  /// y of some images and one group, (n, Cy, pixels), with the ones.
  at::Tensor source(const at::Tensor& y) const {
    if (!tail.defined()) return y;
    return at::cat({y, tail.unsqueeze(1).expand({y.size(0), tail.size(0), y.size(2)})}, 1);
  }
};

/// out = the sum over images and pixels of a (n, rows, pixels) times b (n, columns, pixels).
void sum_of_products(at::Tensor out, const at::Tensor& a, const at::Tensor& b) {
  const int64_t count = a.size(0);
  const int64_t pixels = a.size(2);
  int64_t parts = std::max<int64_t>(1, kSums / count);
  while (pixels % parts != 0) --parts;
  at::Tensor products = at::empty({count, parts, a.size(1), b.size(1)}, a.options());
  if (parts == 1) {
    at::Tensor into = products.select(1, 0);
    at::bmm_out(into, a, b.transpose(1, 2));
  } else {
    const at::Tensor cut_a = a.unflatten(2, {parts, pixels / parts});
    const at::Tensor cut_b = b.unflatten(2, {parts, pixels / parts});
    for (int64_t n = 0; n < count; ++n) {
      at::Tensor into = products[n];
      at::bmm_out(into, cut_a[n].transpose(0, 1), cut_b[n].permute({1, 2, 0}));
    }
  }
  at::sum_out(out, products, at::IntArrayRef({0, 1}));
}

/// into (+)= weights (n, rows, Cy), transposed, times a (n, rows, pixels): in two halves, since one
/// sum over all rows loses more than those of PyTorch users, whose library cuts them.
void add_transposed_products(at::Tensor into, bool first, const at::Tensor& weights,
                             const at::Tensor& a) {
  const int64_t rows = a.size(1);
  const int64_t half = rows < 64 ? rows : rows / 2;
  const auto product = [&](int64_t from, int64_t count, bool keep) {
    into.baddbmm_(weights.narrow(1, from, count).transpose(1, 2), a.narrow(1, from, count),
                  keep ? 1 : 0);
  };
  product(0, half, !first);
  if (half < rows) product(half, rows - half, true);
}

/// `value` in the strides of at::empty_like(of).
at::Tensor in_format_of(const at::Tensor& of, const at::Tensor& value) {
  at::Tensor result = at::empty_like(of);
  return result.strides() == value.strides() ? value : result.copy_(value);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> generated_dynamic_filter_backward_parts(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
    const std::optional<at::Tensor>& bias, at::IntArrayRef dilations, bool concat_input,
    std::array<bool, 4> needs) {
  const char* op = "hdfnet::generated_dynamic_filter_backward";
  // Under autocast products of matrices would give another type than the one that is wanted.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const auto s = check_generated_dynamic_filter<int64_t>(op, x, y, weight, bias, dilations);
  const auto& f = s.filter;
  check_filter_gradient(op, grad, x, f, concat_input);
  const bool has_bias = bias.has_value() && bias->defined();
  const bool needs_bias = needs[3] && has_bias;
  const bool needs_sums = needs[2] || needs_bias;
  const bool needs_taps_gradient = needs[1] || needs_sums;

  const int64_t rows = f.channels * f.kernel_size * f.kernel_size;
  const int64_t pixels = f.height * f.width;
  const int64_t skipped = concat_input ? 1 : 0;
  if (x.numel() == 0 || f.branches == 0) {
    at::Tensor grad_x = needs[0] ? at::zeros_like(x) : at::Tensor();
    if (needs[0] && concat_input) grad_x.copy_(grad.narrow(1, 0, f.channels));
    const auto zeros = [](bool wanted, const at::Tensor& of) {
      return wanted ? at::zeros_like(of, of.options(), at::MemoryFormat::Contiguous) : at::Tensor();
    };
    return {grad_x, needs[1] ? at::zeros_like(y) : at::Tensor(), zeros(needs[2], weight),
            needs_bias ? zeros(true, *bias) : at::Tensor()};
  }

  const Generator generator(weight, bias);
  const int64_t width = generator.weight.size(2);
  at::Tensor grad_x = needs[0] ? at::empty_like(x) : at::Tensor();
  at::Tensor grad_y = needs[1]
                          ? at::empty({f.batch, s.groups, s.source_channels, pixels}, y.options())
                          : at::Tensor();
  at::Tensor sums =
      needs_sums ? at::empty({f.branches, rows, width}, weight.options()) : at::Tensor();
  // Of an image: its taps, or the products that its sums are made of.
  const int64_t bytes_each =
      rows * std::max(pixels, width) * static_cast<int64_t>(x.element_size());
  const int64_t part = std::max<int64_t>(1, kScratchBytes / bytes_each);
  for (int64_t n = 0; n < f.batch; n += part) {
    const int64_t count = std::min(part, f.batch - n);
    at::Tensor part_of_x = x.narrow(0, n, count);
    // The taps are made in planes, and there are fast kernels where all lies so.
    if (x.is_cuda()) part_of_x = part_of_x.contiguous();
    const at::Tensor part_of_grad = grad.narrow(0, n, count);
    at::Tensor source;
    for (int64_t b = 0; b < f.branches; ++b) {
      const int64_t group = s.groups == 1 ? 0 : b;
      if (b == 0 || s.groups > 1) {
        source = generator.source(y.narrow(0, n, count).select(1, group).flatten(2));
      }
      // One weight for every image, as a batch that is not copied.
      const at::Tensor weights = generator.weight[b].expand({count, rows, width});
      at::Tensor kernels =
          at::bmm(weights, source)
              .view({count, 1, f.channels, f.kernel_size * f.kernel_size, f.height, f.width});
      // The first branch lies behind the copy of x, if there is one.
      const bool with_copy = concat_input && b == 0;
      const at::Tensor grad_of_branch = part_of_grad.narrow(
          1, with_copy ? 0 : (skipped + b) * f.channels, with_copy ? 2 * f.channels : f.channels);
      auto [part_x, part_kernels] =
          dynamic_filter_backward(grad_of_branch, part_of_x, kernels, dilations[b], with_copy,
                                  {needs[0], needs_taps_gradient});
      kernels.reset();  // what follows may have its memory
      if (needs[0]) {
        if (b > 0) {
          grad_x.narrow(0, n, count).add_(part_x);
        } else if (count == f.batch && part_x.strides() == grad_x.strides()) {
          grad_x = part_x;
        } else {
          grad_x.narrow(0, n, count).copy_(part_x);
        }
      }
      if (!needs_taps_gradient) continue;
      const at::Tensor grad_taps = part_kernels.view({count, rows, pixels});
      if (needs[1]) {
        add_transposed_products(grad_y.narrow(0, n, count).select(1, group), b == 0 || s.groups > 1,
                                weights.narrow(2, 0, s.source_channels), grad_taps);
      }
      if (!needs_sums) continue;
      if (n == 0) {
        sum_of_products(sums[b], grad_taps, source);
      } else {
        const at::Tensor more = at::empty_like(sums[b]);
        sum_of_products(more, grad_taps, source);
        sums[b].add_(more);
      }
    }
  }
  if (needs[1]) {
    grad_y =
        in_format_of(y, grad_y.view({f.batch, s.groups, s.source_channels, f.height, f.width}));
  }
  // Copies in any case: results share no memory.
  const auto part_of_sums = [&](bool wanted, int64_t from, int64_t count) {
    return wanted ? sums.narrow(2, from, count).clone(at::MemoryFormat::Contiguous) : at::Tensor();
  };
  at::Tensor grad_bias = part_of_sums(needs_bias, s.source_channels, 1);
  if (needs_bias) grad_bias = grad_bias.squeeze(2);
  return {grad_x, grad_y, part_of_sums(needs[2], 0, s.source_channels), grad_bias};
}

void register_composite_generated_dynamic_filter_backward(Registration& registration) {
  registration.under(c10::DispatchKey::CPU)
      .impl("generated_dynamic_filter_backward", &generated_dynamic_filter_backward_parts);
}

}  // namespace hdfnet::ops
