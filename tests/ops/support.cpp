#include "support.h"

#include <cmath>
#include <cstdlib>
#include <sstream>

namespace hdfnet::test {
namespace {

at::Tensor random_in_layout(at::IntArrayRef shape, const at::TensorOptions& options, Layout layout,
                            at::IntArrayRef channels_last_order) {
  const int64_t rank = static_cast<int64_t>(shape.size());
  std::vector<int64_t> order(rank);
  for (int64_t i = 0; i < rank; ++i) order[i] = i;
  switch (layout) {
    case Layout::kContiguous:
      return at::randn(shape, options);
    case Layout::kChannelsLast:
      order = channels_last_order.vec();
      break;
    case Layout::kReversed:
      std::reverse(order.begin(), order.end());
      break;
    case Layout::kExpanded: {
      std::vector<int64_t> one = shape.vec();
      one[0] = std::min<int64_t>(one[0], 1);
      return at::randn(one, options).expand(shape);
    }
    case Layout::kSliced: {
      std::vector<int64_t> larger = shape.vec();
      for (int64_t& size : larger) size += 2;
      at::Tensor part = at::randn(larger, options);
      for (int64_t i = 0; i < rank; ++i) part = part.narrow(i, 1, shape[i]);
      return part;
    }
  }
  // Store the axes in `order`, then view them in their own.
  std::vector<int64_t> stored(rank), back(rank);
  for (int64_t i = 0; i < rank; ++i) {
    stored[i] = shape[order[i]];
    back[order[i]] = i;
  }
  return at::randn(stored, options).permute(back);
}

}  // namespace

const char* name(Layout layout) {
  switch (layout) {
    case Layout::kContiguous:
      return "contiguous";
    case Layout::kChannelsLast:
      return "channels_last";
    case Layout::kSliced:
      return "sliced";
    case Layout::kExpanded:
      return "expanded";
    default:
      return "reversed";
  }
}

at::Tensor random_map(at::IntArrayRef shape, const at::TensorOptions& options, Layout layout) {
  return random_in_layout(shape, options, layout, {0, 2, 3, 1});
}

at::Tensor random_taps(at::IntArrayRef shape, const at::TensorOptions& options, Layout layout) {
  return random_in_layout(shape, options, layout, {0, 4, 5, 1, 2, 3});
}

at::Tensor filter_by_unfold(const at::Tensor& x, const at::Tensor& kernels,
                            at::IntArrayRef dilations, bool concat_input) {
  const int64_t k = std::llround(std::sqrt(static_cast<double>(kernels.size(3))));
  std::vector<at::Tensor> parts;
  if (concat_input) parts.push_back(x);
  for (size_t b = 0; b < dilations.size(); ++b) {
    const int64_t d = dilations[b];
    const int64_t pad = k / 2 * d;
    const at::Tensor windows = at::im2col(x, {k, k}, {d, d}, {pad, pad}, {1, 1})
                                   .view({x.size(0), x.size(1), k * k, x.size(2), x.size(3)});
    parts.push_back((windows * kernels.select(1, static_cast<int64_t>(b))).sum(2));
  }
  return at::cat(parts, 1);
}

Error error_of(const at::Tensor& value, const at::Tensor& exact) {
  if (exact.numel() == 0) return {0, 0};
  const at::Tensor difference = (value.to(at::kCPU, at::kDouble) - exact).abs();
  return {difference.max().item<double>(), difference.mean().item<double>()};
}

testing::AssertionResult as_good_as(const at::Tensor& value, const at::Tensor& peer,
                                    const at::Tensor& exact) {
  if (value.sizes() != exact.sizes()) {
    return testing::AssertionFailure()
           << "expected shape " << exact.sizes() << ", got " << value.sizes();
  }
  if (exact.numel() == 0) return testing::AssertionSuccess();
  const Error own = error_of(value, exact);
  const Error allowed = error_of(peer, exact);
  static const auto eps = [](at::ScalarType type) {
    return type == at::kHalf       ? 0x1p-10
           : type == at::kBFloat16 ? 0x1p-7
           : type == at::kFloat    ? 0x1p-23
                                   : 0x1p-45;  // the reference is float64 itself, summed otherwise
  };
  const double unit = eps(value.scalar_type()) / 2;
  const bool good = own.largest <= 2 * allowed.largest + unit * exact.abs().max().item<double>() &&
                    own.mean <= 2 * allowed.mean + unit * exact.abs().mean().item<double>();
  auto result = good ? testing::AssertionSuccess() : testing::AssertionFailure();
  return result << "largest and mean error " << own.largest << ", " << own.mean << "; PyTorch's "
                << allowed.largest << ", " << allowed.mean;
}

int64_t test_scale() {
  const char* text = std::getenv("HDFNET_TEST_SCALE");
  return text == nullptr ? 1 : std::max<int64_t>(1, std::atoll(text));
}

std::string FilterCase::describe() const {
  std::ostringstream text;
  text << "N " << batch << " C " << channels << " H " << height << " W " << width << " K "
       << kernel_size << " dilations " << at::IntArrayRef(dilations)
       << (concat_input ? " concat" : "") << " x " << name(x_layout) << " kernels "
       << name(kernel_layout);
  return text.str();
}

at::Tensor FilterCase::make_x(const at::TensorOptions& options) const {
  return random_map({batch, channels, height, width}, options, x_layout);
}

at::Tensor FilterCase::make_kernels(const at::TensorOptions& options) const {
  return random_taps({batch, static_cast<int64_t>(dilations.size()), channels,
                      kernel_size * kernel_size, height, width},
                     options, kernel_layout);
}

FilterCase random_case(std::mt19937& random) {
  const auto pick = [&](auto... values) {
    const std::vector<int64_t> all = {static_cast<int64_t>(values)...};
    return all[random() % all.size()];
  };
  FilterCase c{};
  c.batch = pick(0, 1, 1, 2, 3);
  c.channels = pick(1, 2, 3, 5, 8, 16, 17);
  c.height = pick(1, 2, 3, 7, 8, 20, 33, 40);
  c.width = pick(1, 2, 3, 6, 7, 20, 31, 40, 66);
  c.kernel_size = pick(1, 3, 3, 3, 5, 7, 9);
  const int64_t branches = pick(1, 2, 3, 3, 4);
  for (int64_t b = 0; b < branches; ++b) c.dilations.push_back(pick(1, 1, 2, 3, 5, 6, 11, 32));
  c.concat_input = random() % 2 == 0;
  // Most calls have both tensors in the same of the two usual formats.
  const Layout usual = random() % 2 == 0 ? Layout::kContiguous : Layout::kChannelsLast;
  const bool odd = random() % 3 == 0;
  c.x_layout = odd ? kLayouts[random() % std::size(kLayouts)] : usual;
  c.kernel_layout = odd ? kLayouts[random() % std::size(kLayouts)] : usual;
  return c;
}

std::string GeneratedCase::describe() const {
  std::ostringstream text;
  text << "N " << batch << " C " << channels << " Cy " << source_channels << " G " << groups
       << " H " << height << " W " << width << " K " << kernel_size << " dilations "
       << at::IntArrayRef(dilations) << (concat_input ? " concat" : "") << (has_bias ? " bias" : "")
       << " x " << name(x_layout) << " y " << name(y_layout);
  return text.str();
}

GeneratedInputs make_inputs(const GeneratedCase& c, const at::TensorOptions& options) {
  GeneratedInputs in;
  in.x = random_map({c.batch, c.channels, c.height, c.width}, options, c.x_layout);
  // (N, G, Cy, H, W) as a map of G*Cy channels, viewed.
  in.y = random_map({c.batch, c.groups * c.source_channels, c.height, c.width}, options, c.y_layout)
             .unflatten(1, {c.groups, c.source_channels});
  in.weight = (at::randn({c.branches(), c.rows(), c.source_channels}, options.dtype(at::kDouble)) /
               std::sqrt(static_cast<double>(c.source_channels)))
                  .to(options.dtype());
  if (c.has_bias) in.bias = at::randn({c.branches(), c.rows()}, options);
  return in;
}

}  // namespace hdfnet::test
