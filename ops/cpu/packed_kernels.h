#pragma once

// What the files of packed_conv2d's instruction sets give, and what they are given. Plain types and
// no functions: those files are compiled for processors that the rest must not expect, and an
// inline function of theirs might be the one that the linker keeps for everybody.

#include <cstdint>

namespace hdfnet::ops::packed {

inline constexpr int64_t kChannelBlock = 16;  ///< channels that lie together in V
inline constexpr int64_t kPanel = 32;         ///< outputs that are made together

/// Elements from one image, row and column to the next; channels are neighbours.
struct Strides {
  int64_t n;
  int64_t h;
  int64_t w;
};

/// One group of a convolution. Its results are made in tiles, 2x2 of a 3x3 convolution, 1x1 of a
/// 1x1, which are numbered along rows, then columns, then images.
struct Convolution {
  int64_t channels;
  int64_t outputs;
  int64_t height;  ///< of the results
  int64_t width;
  int64_t tile_rows;  ///< of an image
  int64_t tile_columns;
  const float* x;
  Strides x_strides;   ///< of the pixels that a 1x1 with a stride reads
  const float* zeros;  ///< `channels` of them, which lie around every image
  const float* weight;
  const float* bias;
  const float* other;  ///< laid out as y, or null
  bool relu;
  float* y;
  Strides y_strides;
};

/// Consecutive tiles and the strides of their scratch:
///   V [points][channels / kChannelBlock][capacity][kChannelBlock]   transformed inputs
///   M [points][capacity][kPanel]                                    their products
/// Points (16 of a 3x3, 1 of a 1x1) lie somewhat further apart than that, so that they do not share
/// the sets of a cache.
struct TileRange {
  int64_t first;
  int64_t count;
  int64_t capacity;
  int64_t v_point;
  int64_t m_point;
};

/// What comes before the products and after them.
struct Transforms {
  /// V of every tile in the range.
  void (*input)(const Convolution& convolution, const TileRange& tiles, float* v);
  /// y of the panel of outputs that begins with `first_output`.
  void (*output)(const Convolution& convolution, const TileRange& tiles, const float* m,
                 int64_t first_output);
};

struct Kernels {
  /// Tiles that `multiply` takes at most.
  int64_t most_rows;

  /// m [rows][kPanel] [+]= v [channels / kChannelBlock, v_block apart][rows][kChannelBlock]
  ///                       @ weight [channels][kPanel]
  void (*multiply)(const float* v, int64_t v_block, const float* weight, int64_t channels, float* m,
                   int64_t rows, bool add);

  Transforms winograd;
  Transforms pointwise;
};

/// Null where this processor does not have them.
const Kernels* avx512_kernels();
const Kernels* avx2_kernels();

}  // namespace hdfnet::ops::packed
