#pragma once

// The tensor copy engine: maps, boxes, and the order in which shared memory holds them.

#include <cuda.h>

#include <cstdint>

namespace hdfnet::emulated {

/// What a CUtensorMap holds here.
struct TensorMap {
  unsigned char* data;
  std::uint64_t extent[5];
  std::uint64_t step[4];  // bytes, of all dimensions but the innermost
  std::uint32_t box[5];
  std::uint8_t rank;
  std::uint8_t element;  // bytes
  std::uint8_t exchanged_bits;
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

/// cuTensorMapEncodeTiled, with the manual's conditions.
CUresult encode(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* data,
                const cuuint64_t* extent, const cuuint64_t* bytes, const cuuint32_t* box,
                const cuuint32_t* steps, CUtensorMapInterleave interleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion fetched,
                CUtensorMapFloatOOBfill fill);

/// Where byte `offset` of shared memory is found when 2^bits pieces of 16 bytes change places.
constexpr std::size_t exchanged(std::size_t offset, int bits) {
  return offset ^ ((offset >> 7 & ((std::size_t{1} << bits) - 1)) << 4);
}

/// Asks for a copy of a box to shared memory, or from there.
void fetch_box(void* to, const void* map, std::uint64_t* barrier, const int* corner, int rank);
void store_box(const void* map, const void* from, const int* corner, int rank);

}  // namespace hdfnet::emulated
