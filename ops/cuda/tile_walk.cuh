#pragma once

// How blocks that stay share the tiles of a batch of planes.

#include <algorithm>
#include <cstdint>

namespace hdfnet::ops::cuda {

/// A block has every `blocks`-th tile, row after row, image after image.
struct TileWalk {
  int tiles_down, tiles_across;
  unsigned tiles;
  int across_step, down_step, batch_step;  // from one of a block's tiles to its next

  /// Tiles of `rows` x `columns`.
  TileWalk(int64_t batch, int64_t height, int64_t width, int rows, int columns)
      : tiles_down(static_cast<int>((height + rows - 1) / rows)),
        tiles_across(static_cast<int>((width + columns - 1) / columns)),
        tiles(static_cast<unsigned>(batch * tiles_down * tiles_across)),
        across_step(0),
        down_step(0),
        batch_step(0) {}

  /// Divides them between so many blocks, or as many as there are tiles; returns how many.
  unsigned share(int64_t blocks) {
    const auto across = static_cast<int64_t>(tiles_across);
    const int64_t count = std::clamp<int64_t>(blocks, 1, tiles);
    across_step = static_cast<int>(count % across);
    down_step = static_cast<int>(count / across % tiles_down);
    batch_step = static_cast<int>(count / across / tiles_down);
    return static_cast<unsigned>(count);
  }
};

struct TilePlace {
  int across, down, n;  // in tiles, and the image

  __device__ __forceinline__ TilePlace(const TileWalk& walk, unsigned tile)
      : across(static_cast<int>(tile) % walk.tiles_across),
        down(static_cast<int>(tile) / walk.tiles_across % walk.tiles_down),
        n(static_cast<int>(tile) / walk.tiles_across / walk.tiles_down) {}

  /// Of the block's next tile.
  __device__ __forceinline__ TilePlace next(const TileWalk& walk) const {
    TilePlace place = *this;
    place.across += walk.across_step;
    place.down += walk.down_step;
    place.n += walk.batch_step;
    if (place.across >= walk.tiles_across) place.across -= walk.tiles_across, ++place.down;
    if (place.down >= walk.tiles_down) place.down -= walk.tiles_down, ++place.n;
    return place;
  }
};

}  // namespace hdfnet::ops::cuda
