#pragma once

// packed_conv2d's kernels, written for any vector type:
//
//   struct Simd {
//     using Vector = ...;                        // kLanes floats
//     static constexpr int kLanes, kMostRows;    // kMostRows x 2 sums and 4 more fit in registers
//     static Vector load(const float*), broadcast(const float*), zero();
//     static void store(float*, Vector);
//     static Vector multiply_add(a, b, c);       // a * b + c
//     static Vector relu(Vector);                // NaN stays NaN
//   };
//
// For the files of one instruction set each; everything is in the unnamed namespace, for the reason
// that packed_kernels.h gives.

#include "cpu/packed_kernels.h"

namespace hdfnet::ops::packed {
namespace {

struct TilePosition {
  int64_t n;
  int64_t row;
  int64_t column;
};

TilePosition position_of(const Convolution& c, int64_t tile) {
  return {tile / (c.tile_columns * c.tile_rows), tile / c.tile_columns % c.tile_rows,
          tile % c.tile_columns};
}

void advance(const Convolution& c, TilePosition& tile) {
  if (++tile.column < c.tile_columns) return;
  tile.column = 0;
  if (++tile.row < c.tile_rows) return;
  tile.row = 0;
  ++tile.n;
}

// The 4x4 pixels that the tile's results need; those outside of the image are zero.
void find_pixels(const Convolution& c, const TilePosition& tile, const float* (&pixels)[16]) {
  const float* const image = c.x + tile.n * c.x_strides.n;
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t h = 2 * tile.row - 1 + i;
    for (int64_t j = 0; j < 4; ++j) {
      const int64_t w = 2 * tile.column - 1 + j;
      const bool inside = h >= 0 && h < c.height && w >= 0 && w < c.width;
      pixels[4 * i + j] = inside ? image + h * c.x_strides.h + w * c.x_strides.w : c.zeros;
    }
  }
}

// B^T = (1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1). In a 4x4 tile a result of the two of a row needs
// exactly the points that its own three pixels reach, which is why NaN does not spread.
template <typename Simd>
void winograd_input(const Convolution& c, const TileRange& tiles, float* v) {
  using Vector = typename Simd::Vector;
  TilePosition tile = position_of(c, tiles.first);
  for (int64_t i = 0; i < tiles.count; ++i, advance(c, tile)) {
    const float* pixels[16];
    find_pixels(c, tile, pixels);
    for (int64_t channel = 0; channel < c.channels; channel += Simd::kLanes) {
      Vector rows[4][4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const Vector d0 = Simd::load(pixels[j] + channel);
        const Vector d1 = Simd::load(pixels[4 + j] + channel);
        const Vector d2 = Simd::load(pixels[8 + j] + channel);
        const Vector d3 = Simd::load(pixels[12 + j] + channel);
        rows[0][j] = d0 - d2;
        rows[1][j] = d1 + d2;
        rows[2][j] = d2 - d1;
        rows[3][j] = d1 - d3;
      }
      float* to = v + (channel / kChannelBlock * tiles.capacity + i) * kChannelBlock +
                  channel % kChannelBlock;
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k, to += 4 * tiles.v_point) {
        Simd::store(to, rows[k][0] - rows[k][2]);
        Simd::store(to + tiles.v_point, rows[k][1] + rows[k][2]);
        Simd::store(to + 2 * tiles.v_point, rows[k][2] - rows[k][1]);
        Simd::store(to + 3 * tiles.v_point, rows[k][1] - rows[k][3]);
      }
    }
  }
}

// All sums stay in registers over all channels: two vectors of outputs for each row, a tile.
template <typename Simd, int kRows>
void multiply_rows(const float* v, int64_t v_block, const float* weight, int64_t channels, float* m,
                   bool add) {
  using Vector = typename Simd::Vector;
  constexpr int64_t kColumns = 2 * Simd::kLanes;
  for (int64_t column = 0; column < kPanel; column += kColumns) {
    Vector sums[kRows][2];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = Simd::zero();
    const float* from = v;
    const float* row = weight + column;
    for (int64_t block = 0; block < channels; block += kChannelBlock, from += v_block) {
#pragma GCC unroll 4
      for (int64_t k = 0; k < kChannelBlock; ++k, row += kPanel) {
        const Vector weight0 = Simd::load(row);
        const Vector weight1 = Simd::load(row + Simd::kLanes);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const Vector value = Simd::broadcast(from + r * kChannelBlock + k);
          sums[r][0] = Simd::multiply_add(value, weight0, sums[r][0]);
          sums[r][1] = Simd::multiply_add(value, weight1, sums[r][1]);
        }
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      float* const to = m + r * kPanel + column;
      Simd::store(to, add ? Simd::load(to) + sums[r][0] : sums[r][0]);
      Simd::store(to + Simd::kLanes, add ? Simd::load(to + Simd::kLanes) + sums[r][1] : sums[r][1]);
    }
  }
}

template <typename Simd, int kRows = Simd::kMostRows>
void multiply(const float* v, int64_t v_block, const float* weight, int64_t channels, float* m,
              int64_t rows, bool add) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      multiply_rows<Simd, kRows>(v, v_block, weight, channels, m, add);
    } else {
      multiply<Simd, kRows - 1>(v, v_block, weight, channels, m, rows, add);
    }
  }
}

// The convolution's last steps, for one vector of results.
template <typename Simd>
void finish(const Convolution& c, typename Simd::Vector sum, typename Simd::Vector bias,
            int64_t offset) {
  sum = sum + bias;
  if (c.other != nullptr) sum = sum + Simd::load(c.other + offset);
  Simd::store(c.y + offset, c.relu ? Simd::relu(sum) : sum);
}

// Outputs of the panel; the others are there to fill it up.
int64_t outputs_of_panel(const Convolution& c, int64_t first_output) {
  const int64_t left = c.outputs - first_output;
  return left < kPanel ? left : kPanel;
}

// A^T = (1 1 1 0; 0 1 -1 -1).
template <typename Simd>
void winograd_output(const Convolution& c, const TileRange& tiles, const float* m,
                     int64_t first_output) {
  using Vector = typename Simd::Vector;
  const int64_t outputs = outputs_of_panel(c, first_output);
  TilePosition tile = position_of(c, tiles.first);
  for (int64_t i = 0; i < tiles.count; ++i, advance(c, tile)) {
    const bool has_right = 2 * tile.column + 1 < c.width;
    const bool has_lower = 2 * tile.row + 1 < c.height;
    const int64_t corner = tile.n * c.y_strides.n + 2 * tile.row * c.y_strides.h +
                           2 * tile.column * c.y_strides.w + first_output;
    for (int64_t k = 0; k < outputs; k += Simd::kLanes) {
      const float* from = m + i * kPanel + k;
      Vector upper[4];
      Vector lower[4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j, from += tiles.m_point) {
        const Vector m0 = Simd::load(from);
        const Vector m1 = Simd::load(from + 4 * tiles.m_point);
        const Vector m2 = Simd::load(from + 8 * tiles.m_point);
        const Vector m3 = Simd::load(from + 12 * tiles.m_point);
        upper[j] = m0 + m1 + m2;
        lower[j] = m1 - m2 - m3;
      }
      const Vector bias = Simd::load(c.bias + first_output + k);
      const int64_t to = corner + k;
      finish<Simd>(c, upper[0] + upper[1] + upper[2], bias, to);
      if (has_right) finish<Simd>(c, upper[1] - upper[2] - upper[3], bias, to + c.y_strides.w);
      if (!has_lower) continue;
      finish<Simd>(c, lower[0] + lower[1] + lower[2], bias, to + c.y_strides.h);
      if (has_right) {
        finish<Simd>(c, lower[1] - lower[2] - lower[3], bias, to + c.y_strides.h + c.y_strides.w);
      }
    }
  }
}

template <typename Simd>
void pointwise_input(const Convolution& c, const TileRange& tiles, float* v) {
  TilePosition tile = position_of(c, tiles.first);
  for (int64_t i = 0; i < tiles.count; ++i, advance(c, tile)) {
    const float* const pixel =
        c.x + tile.n * c.x_strides.n + tile.row * c.x_strides.h + tile.column * c.x_strides.w;
    for (int64_t channel = 0; channel < c.channels; channel += Simd::kLanes) {
      Simd::store(v + (channel / kChannelBlock * tiles.capacity + i) * kChannelBlock +
                      channel % kChannelBlock,
                  Simd::load(pixel + channel));
    }
  }
}

template <typename Simd>
void pointwise_output(const Convolution& c, const TileRange& tiles, const float* m,
                      int64_t first_output) {
  const int64_t outputs = outputs_of_panel(c, first_output);
  TilePosition tile = position_of(c, tiles.first);
  for (int64_t i = 0; i < tiles.count; ++i, advance(c, tile)) {
    const int64_t to = tile.n * c.y_strides.n + tile.row * c.y_strides.h +
                       tile.column * c.y_strides.w + first_output;
    for (int64_t k = 0; k < outputs; k += Simd::kLanes) {
      finish<Simd>(c, Simd::load(m + i * kPanel + k), Simd::load(c.bias + first_output + k),
                   to + k);
    }
  }
}

template <typename Simd>
constexpr Kernels kernels_of() {
  static_assert(kPanel % (2 * Simd::kLanes) == 0 && kChannelBlock % Simd::kLanes == 0);
  return {Simd::kMostRows,
          &multiply<Simd>,
          {&winograd_input<Simd>, &winograd_output<Simd>},
          {&pointwise_input<Simd>, &pointwise_output<Simd>}};
}

}  // namespace
}  // namespace hdfnet::ops::packed
