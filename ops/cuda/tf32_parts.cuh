#pragma once

#include <cmath>

namespace hdfnet::ops::cuda {

/// Writes a float as the sum of three that TF32 holds exactly; one that is not finite as the first
/// and leaves the others.
__device__ __forceinline__ void split_for_tf32(float value, unsigned* parts) {
  if (!isfinite(value)) {
    parts[0] = isnan(value) ? 0x7fffe000u : __float_as_uint(value);
    return;
  }
  constexpr unsigned kHeld = 0xffffe000u;  // of a float's bits, by TF32
  const float high = __uint_as_float(__float_as_uint(value) & kHeld);
  const float rest = value - high;
  const float middle = __uint_as_float(__float_as_uint(rest) & kHeld);
  parts[0] = __float_as_uint(high);
  parts[1] = __float_as_uint(middle);
  parts[2] = __float_as_uint(rest - middle);
}

}  // namespace hdfnet::ops::cuda
