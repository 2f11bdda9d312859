#include "tensor_copies.h"

#include <cstdlib>
#include <cstring>

#include "card.h"

namespace hdfnet::emulated {
namespace {

TensorMap read_map(const void* map) {
  TensorMap read;
  std::memcpy(&read, map, sizeof(read));
  return read;
}

/// Calls f(piece's place in the tensor or null, its bytes that are inside, its place in shared
/// memory) for each 16 bytes of a box.
template <typename F>
void for_pieces(const TensorMap& map, const int* corner, unsigned char* shared, const F& f) {
  std::size_t offset = offset_in_shared(shared);
  const std::size_t row_bytes = std::size_t{map.box[0]} * map.element;
  int at[5] = {};
  for (;;) {
    bool inside = true;
    unsigned char* row = map.data;
    for (int i = 1; i < map.rank; ++i) {
      const std::int64_t position = std::int64_t{corner[i]} + at[i];
      inside = inside && position >= 0 && position < static_cast<std::int64_t>(map.extent[i]);
      if (inside) row += static_cast<std::uint64_t>(position) * map.step[i - 1];
    }
    for (std::size_t piece = 0; piece < row_bytes; piece += 16, offset += 16) {
      unsigned char* const place = shared_at(exchanged(offset, map.exchanged_bits));
      for (std::size_t e = 0; e < 16; e += map.element) {
        const std::int64_t column =
            corner[0] + static_cast<std::int64_t>((piece + e) / map.element);
        const bool real =
            inside && column >= 0 && column < static_cast<std::int64_t>(map.extent[0]);
        f(real ? row + column * map.element : nullptr, place + e);
      }
    }
    int i = 1;
    for (; i < map.rank; ++i) {
      if (++at[i] < static_cast<int>(map.box[i])) break;
      at[i] = 0;
    }
    if (i == map.rank) return;
  }
}

std::int64_t box_bytes(const TensorMap& map) {
  std::int64_t bytes = map.element;
  for (int i = 0; i < map.rank; ++i) bytes *= map.box[i];
  return bytes;
}

void check_box(const TensorMap& map, const void* shared, int rank) {
  if (map.rank != rank) fail("a box of another rank than its map");
  check_shared(shared, static_cast<std::size_t>(box_bytes(map)), 128);
}

/// A job may be done by a thread that has no shared memory of its own: it takes the block's.
struct Corner {
  int at[5];
};
Corner keep(const int* corner, int rank) {
  Corner kept{};
  std::memcpy(kept.at, corner, sizeof(int) * static_cast<std::size_t>(rank));
  return kept;
}

}  // namespace

CUresult encode(CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank, void* data,
                const cuuint64_t* extent, const cuuint64_t* bytes, const cuuint32_t* box,
                const cuuint32_t* steps, CUtensorMapInterleave interleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion fetched,
                CUtensorMapFloatOOBfill fill) {
  static_cast<void>(fetched);
  if (!card().context_is_bound) return CUDA_ERROR_INVALID_CONTEXT;
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  TensorMap map{};
  map.data = static_cast<unsigned char*>(data);
  map.rank = static_cast<std::uint8_t>(rank);
  map.element = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 ? 4 : 2;
  map.exchanged_bits = swizzle == CU_TENSOR_MAP_SWIZZLE_128B  ? 3
                       : swizzle == CU_TENSOR_MAP_SWIZZLE_64B ? 2
                       : swizzle == CU_TENSOR_MAP_SWIZZLE_32B ? 1
                                                              : 0;
  if (rank < 3 || rank > 5 || reinterpret_cast<std::uintptr_t>(data) % 16 != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (cuuint32_t i = 0; i < rank; ++i) {
    map.extent[i] = extent[i];
    map.box[i] = box[i];
    if (extent[i] == 0 || extent[i] > std::uint64_t{1} << 32 || box[i] == 0 || box[i] > 256 ||
        steps[i] != 1) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (i == 0) continue;
    map.step[i - 1] = bytes[i - 1];
    if (bytes[i - 1] % 16 != 0 || bytes[i - 1] >= std::uint64_t{1} << 40) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  const std::uint64_t row = std::uint64_t{box[0]} * map.element;
  if (row % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  // Rows are as long as what changes places, here: what shorter ones do is not said clearly.
  if (map.exchanged_bits != 0 && row != std::uint64_t{16} << map.exchanged_bits) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::memset(to, 0, sizeof(*to));
  std::memcpy(to, &map, sizeof(map));
  return CUDA_SUCCESS;
}

void fetch_box(void* to, const void* map, std::uint64_t* barrier, const int* corner, int rank) {
  const TensorMap read = read_map(map);
  check_box(read, to, rank);
  const auto job = [read, to, corner = keep(corner, rank)] {
    for_pieces(read, corner.at, static_cast<unsigned char*>(to),
               [&](const unsigned char* from, unsigned char* place) {
                 if (from != nullptr) {
                   std::memcpy(place, from, read.element);
                 } else {
                   std::memset(place, 0, read.element);
                 }
               });
  };
  for_pieces(read, corner, static_cast<unsigned char*>(to),
             [&](const unsigned char*, unsigned char* place) {
               std::memset(place, 0xff, read.element);  // under way
             });
  ask_engine(job, barrier, box_bytes(read));
}

void store_box(const void* map, const void* from, const int* corner, int rank) {
  const TensorMap read = read_map(map);
  check_box(read, from, rank);
  auto* const shared = static_cast<unsigned char*>(const_cast<void*>(from));
  const auto job = [read, shared, corner = keep(corner, rank)] {
    for_pieces(read, corner.at, shared, [&](unsigned char* to, const unsigned char* place) {
      if (to != nullptr) std::memcpy(to, place, read.element);
    });
  };
  ask_engine(job, nullptr, 0);
}

}  // namespace hdfnet::emulated
