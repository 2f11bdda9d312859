// 1x1 convolutions, and 3x3 ones as Winograd's F(2x2, 3x3), on the CPU.
//
// 3x3: y = A^T [(G g G^T) * (B^T d B)] A for each 4x4 tile d of pixels and 2x2 tile of results: at
// each of 16 points a matrix product over channels. 1x1: one point, no transforms. A thread takes a
// block of kBlockTiles tiles at a time through all steps, so that what is transformed never goes
// through memory:
//   V  the block's inputs, [point][16 channels][tile][channel]: of a 3x3, 2.7 KB a channel
//   M  its products with a panel of 32 outputs: of a 3x3, 86 KB, which stay in the L2 cache
// Weights stream by, a panel's matrices in the order in which they are used.
// FLOPs of a 3x3: 2 * 16 / 4 a channel, output and pixel, and 32 + 24 additions a tile in the
// transforms; bound by arithmetic. Rates and errors beside oneDNN: ops/README.md.
#include "hdfnet/ops/packed_conv2d.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/kron.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <utility>

#include "cpu/packed_kernels.h"

namespace hdfnet::ops {
namespace {

using packed::kChannelBlock;
using packed::Kernels;
using packed::kPanel;
using packed::Strides;
using packed::TileRange;

constexpr int64_t kWinogradPoints = 16;
// Blocks of 14 to 112 tiles are equally fast; with few, weights are read more often.
constexpr int64_t kBlockTiles = 42;
// Between points in scratch, in elements: a cache line keeps them out of the same set.
constexpr int64_t kPointGap = 16;
// Channels whose products are summed by themselves first, to lose less.
constexpr int64_t kLongestChain = 256;

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

std::vector<std::pair<std::string_view, const Kernels*>> available_kernels() {
  std::vector<std::pair<std::string_view, const Kernels*>> found;
#ifdef HDFNET_PACKED_KERNELS
  if (const Kernels* kernels = packed::avx512_kernels()) found.emplace_back("avx512", kernels);
  if (const Kernels* kernels = packed::avx2_kernels()) found.emplace_back("avx2", kernels);
#endif
  return found;
}

const Kernels& find_kernels(std::string_view instruction_set) {
  static const auto available = available_kernels();
  for (const auto& [name, kernels] : available) {
    if (instruction_set.empty() || instruction_set == name) return *kernels;
  }
  TORCH_CHECK(false, "hdfnet::packed_conv2d: no kernels for ",
              instruction_set.empty() ? "this processor" : instruction_set);
}

// Who does what: blocks of tiles, each for all panels of outputs or, where there are fewer blocks
// than threads, for a group of them.
struct Shares {
  int64_t blocks;
  int64_t panel_groups;
  int64_t rows;      // tiles that are multiplied at once
  int64_t capacity;  // tiles of a block
};

Shares share_out(int64_t tiles, int64_t panels, int64_t threads, int64_t most_rows) {
  Shares shares{};
  shares.blocks = divide_up(tiles, kBlockTiles);
  shares.panel_groups = 1;
  if (shares.blocks >= threads) {
    shares.blocks = divide_up(shares.blocks, threads) * threads;
  } else {
    shares.panel_groups = std::min(panels, divide_up(threads, shares.blocks));
    shares.blocks = divide_up(threads, shares.panel_groups);
  }
  shares.capacity = divide_up(tiles, shares.blocks);
  shares.rows = divide_up(shares.capacity, divide_up(shares.capacity, most_rows));
  shares.blocks = divide_up(tiles, shares.capacity);
  return shares;
}

// One group of a convolution, over all tiles.
class Run {
 public:
  Run(const packed::Convolution& convolution, const Kernels& kernels, int64_t points, int64_t batch)
      : convolution_(convolution),
        kernels_(kernels),
        transforms_(points == 1 ? kernels.pointwise : kernels.winograd),
        points_(points),
        tiles_(batch * convolution.tile_rows * convolution.tile_columns),
        panels_(divide_up(convolution.outputs, kPanel)),
        shares_(share_out(tiles_, panels_, at::get_num_threads(), kernels.most_rows)) {}

  void operator()() const {
    at::parallel_for(0, shares_.blocks * shares_.panel_groups, /*grain_size=*/1,
                     [this](int64_t begin, int64_t end) { run(begin, end); });
  }

 private:
  TileRange block(int64_t index) const {
    TileRange range{};
    range.first = index * shares_.capacity;
    range.count = std::min(shares_.capacity, tiles_ - range.first);
    range.capacity = shares_.capacity;
    range.v_point = shares_.capacity * convolution_.channels + kPointGap;
    range.m_point = shares_.capacity * kPanel + kPointGap;
    return range;
  }

  // Items are groups of panels of blocks, blocks first.
  void run(int64_t begin, int64_t end) const {
    const TileRange any = block(0);
    at::Tensor scratch =
        at::empty({points_ * (any.v_point + any.m_point) + convolution_.channels}, at::kFloat);
    float* const v = scratch.mutable_data_ptr<float>();
    float* const m = v + points_ * any.v_point;
    float* const zeros = m + points_ * any.m_point;
    std::fill_n(zeros, convolution_.channels, 0.0F);
    packed::Convolution convolution = convolution_;
    convolution.zeros = zeros;
    int64_t transformed = -1;
    for (int64_t item = begin; item < end; ++item) {
      const TileRange tiles = block(item / shares_.panel_groups);
      if (item / shares_.panel_groups != transformed) {
        transforms_.input(convolution, tiles, v);
        transformed = item / shares_.panel_groups;
      }
      const int64_t group = item % shares_.panel_groups;
      for (int64_t panel = panels_ * group / shares_.panel_groups;
           panel < panels_ * (group + 1) / shares_.panel_groups; ++panel) {
        multiply(tiles, v, m, panel);
        transforms_.output(convolution, tiles, m, panel * kPanel);
      }
    }
  }

  void multiply(const TileRange& tiles, const float* v, float* m, int64_t panel) const {
    const int64_t channels = convolution_.channels;
    const float* weight = convolution_.weight + panel * points_ * channels * kPanel;
    for (int64_t point = 0; point < points_; ++point, weight += channels * kPanel) {
      for (int64_t chain = 0; chain < channels; chain += kLongestChain) {
        for (int64_t row = 0; row < tiles.count; row += shares_.rows) {
          kernels_.multiply(
              v + point * tiles.v_point + chain * tiles.capacity + row * kChannelBlock,
              tiles.capacity * kChannelBlock, weight + chain * kPanel,
              std::min(kLongestChain, channels - chain), m + point * tiles.m_point + row * kPanel,
              std::min(shares_.rows, tiles.count - row), /*add=*/chain > 0);
        }
      }
    }
  }

  packed::Convolution convolution_;
  const Kernels& kernels_;
  const packed::Transforms& transforms_;
  int64_t points_;
  int64_t tiles_;
  int64_t panels_;
  Shares shares_;
};

void check_float(const char* what, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat,
              "hdfnet::packed_conv2d: expected ", what, " in float32 on the CPU, found ",
              tensor.scalar_type(), " on ", tensor.device());
}

// The sizes of the result.
std::vector<int64_t> check_arguments(const at::Tensor& x, const at::Tensor& weight,
                                     const at::Tensor& bias, const std::optional<at::Tensor>& other,
                                     int64_t stride) {
  check_float("x", x);
  check_float("weight", weight);
  check_float("bias", bias);
  TORCH_CHECK(x.dim() == 4, "hdfnet::packed_conv2d: expected x of shape (N, C, H, W), found ",
              x.sizes());
  TORCH_CHECK(weight.dim() == 5 && weight.is_contiguous() &&
                  (weight.size(2) == 1 || weight.size(2) == kWinogradPoints) &&
                  weight.size(4) == kPanel && weight.size(0) * weight.size(3) == x.size(1),
              "hdfnet::packed_conv2d: expected weight from pack_conv2d_weight for ", x.size(1),
              " channels, found ", weight.sizes());
  const int64_t groups = weight.size(0);
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) % (groups * kChannelBlock) == 0 &&
                  divide_up(bias.size(0) / groups, kPanel) == weight.size(1),
              "hdfnet::packed_conv2d: expected bias of shape (O) for ", groups, " x ",
              weight.size(1), " panels of 32 outputs, found ", bias.sizes());
  TORCH_CHECK(stride == 1 || (stride > 1 && weight.size(2) == 1),
              "hdfnet::packed_conv2d: expected stride ",
              weight.size(2) == 1 ? "of at least 1" : "1 for 3x3", ", found ", stride);
  std::vector<int64_t> sizes = {x.size(0), bias.size(0), divide_up(x.size(2), stride),
                                divide_up(x.size(3), stride)};
  if (other) {
    check_float("other", *other);
    TORCH_CHECK(other->sizes() == at::IntArrayRef(sizes),
                "hdfnet::packed_conv2d: expected other of shape ", at::IntArrayRef(sizes),
                ", found ", other->sizes());
  }
  return sizes;
}

// G w G^T of all 3x3 weights at once, as rows of nine.
at::Tensor winograd_points(const at::Tensor& weight) {
  const at::Tensor g =
      at::tensor({1.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.5, -0.5, 0.5, 0.0, 0.0, 1.0}, at::kDouble)
          .view({4, 3});
  return weight.reshape({-1, 9}).matmul(at::kron(g, g).t());
}

}  // namespace

std::vector<std::string_view> packed_conv2d_instruction_sets() {
  std::vector<std::string_view> names;
  for (const auto& [name, kernels] : available_kernels()) names.push_back(name);
  return names;
}

bool can_run_packed_conv2d(at::IntArrayRef weight_sizes, int64_t stride, int64_t groups,
                           std::string* why) {
  const auto refuse = [why](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (weight_sizes.size() != 4 || weight_sizes[2] != weight_sizes[3] ||
      (weight_sizes[2] != 1 && weight_sizes[2] != 3)) {
    return refuse("neither 1x1 nor 3x3");
  }
  if (weight_sizes[2] == 3 && stride != 1) return refuse("3x3 with a stride");
  if (weight_sizes[1] == 0 || weight_sizes[1] % kChannelBlock != 0) {
    return refuse("channels of a group not in 16s");
  }
  if (weight_sizes[0] == 0 || weight_sizes[0] % (groups * kChannelBlock) != 0) {
    return refuse("outputs of a group not in 16s");
  }
  if (available_kernels().empty()) return refuse("a processor without AVX2 and FMA");
  return true;
}

at::Tensor pack_conv2d_weight(const at::Tensor& weight, int64_t groups) {
  TORCH_CHECK(weight.dim() == 4 && weight.size(2) == weight.size(3) &&
                  (weight.size(2) == 1 || weight.size(2) == 3) && groups > 0 &&
                  weight.size(0) % (groups * kChannelBlock) == 0 &&
                  weight.size(1) % kChannelBlock == 0,
              "hdfnet::pack_conv2d_weight: expected shape (O, C, K, K), K 1 or 3, O / ", groups,
              " and C in 16s, found ", weight.sizes());
  const int64_t outputs = weight.size(0) / groups;
  const int64_t channels = weight.size(1);
  const int64_t panels = divide_up(outputs, kPanel);
  const int64_t points = weight.size(2) == 1 ? 1 : kWinogradPoints;
  at::Tensor result = at::empty({groups, panels, points, channels, kPanel}, at::kFloat);
  // A panel at a time: all of a large weight in float64 would be the most memory that a network
  // takes while it is loaded.
  for (int64_t i = 0; i < groups * panels; ++i) {
    const int64_t first = i % panels * kPanel;
    const int64_t count = std::min(kPanel, outputs - first);
    const at::Tensor exact = weight.narrow(0, i / panels * outputs + first, count).to(at::kDouble);
    const at::Tensor panel = result[i / panels][i % panels];
    panel.narrow(2, 0, count)
        .copy_((points == 1 ? exact : winograd_points(exact))
                   .view({count, channels, points})
                   .permute({2, 1, 0}));
    panel.narrow(2, count, kPanel - count).zero_();
  }
  return result;
}

at::Tensor packed_conv2d(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         const std::optional<at::Tensor>& other,
                         const PackedConv2dOptions& options) {
  const std::vector<int64_t> sizes = check_arguments(x, weight, bias, other, options.stride);
  const Kernels& kernels = find_kernels(options.instruction_set);
  const at::Tensor in = x.stride(1) == 1 ? x : x.contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor biases = bias.contiguous();
  at::Tensor added;
  if (other) added = other->contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor y = at::empty(sizes, x.options(), at::MemoryFormat::ChannelsLast);
  if (y.numel() == 0) return y;
  const int64_t groups = weight.size(0);
  const int64_t points = weight.size(2);
  const int64_t tile = points == 1 ? 1 : 2;
  packed::Convolution convolution{};
  convolution.channels = x.size(1) / groups;
  convolution.outputs = biases.size(0) / groups;
  convolution.height = y.size(2);
  convolution.width = y.size(3);
  convolution.tile_rows = divide_up(y.size(2), tile);
  convolution.tile_columns = divide_up(y.size(3), tile);
  convolution.x_strides = {in.stride(0), in.stride(2) * options.stride,
                           in.stride(3) * options.stride};
  convolution.relu = options.relu;
  convolution.y_strides = {y.stride(0), y.stride(2), y.stride(3)};
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t output = group * convolution.outputs;
    convolution.x = in.const_data_ptr<float>() + group * convolution.channels;
    convolution.weight = weight.const_data_ptr<float>() + group * weight.stride(0);
    convolution.bias = biases.const_data_ptr<float>() + output;
    convolution.other = other ? added.const_data_ptr<float>() + output : nullptr;
    convolution.y = y.mutable_data_ptr<float>() + output;
    Run(convolution, kernels, points, y.size(0))();
  }
  return y;
}

}  // namespace hdfnet::ops
