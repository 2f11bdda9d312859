#pragma once

// What kernels of dynamic_filter share: words of one to four elements, divisions, the types.

#include <algorithm>

#include "cuda/scalar.cuh"

namespace hdfnet::ops::cuda {

/// Divides small numbers (both below 2^16) by one that the host knows.
struct Divisor {
  unsigned value, reciprocal;
  explicit Divisor(int divisor)
      : value(static_cast<unsigned>(divisor)),
        reciprocal(divisor == 1 ? 0u
                                : static_cast<unsigned>(((1ull << 32) + divisor - 1) / divisor)) {}
  __device__ int quotient(int n) const {
    return value == 1 ? n : static_cast<int>(__umulhi(static_cast<unsigned>(n), reciprocal));
  }
};

/// Divides any 32-bit number by one that the host knows.
struct Splitter {
  unsigned value, reciprocal;
  explicit Splitter(int64_t divisor)
      : value(static_cast<unsigned>(divisor)),
        reciprocal(divisor == 1 ? 0xffffffffu
                                : static_cast<unsigned>((int64_t{1} << 32) / divisor)) {}
  /// n becomes the quotient; the remainder is returned.
  __device__ __forceinline__ int split(unsigned& n) const {
    unsigned quotient = __umulhi(n, reciprocal);  // one too small at most
    unsigned remainder = n - quotient * value;
    if (remainder >= value) ++quotient, remainder -= value;
    n = quotient;
    return static_cast<int>(remainder);
  }
};

/// Divides numbers below 2^31 by one that the host knows: fewer instructions than Splitter.
struct HalfDivisor {
  unsigned value, reciprocal, shift;
  explicit HalfDivisor(int64_t divisor) : value(static_cast<unsigned>(divisor)), shift(0) {
    // With the least power of two that is not below the divisor, the reciprocal has 32 bits, and
    // what it is rounded up by changes no quotient.
    while ((int64_t{1} << shift) < divisor) ++shift;
    reciprocal = static_cast<unsigned>(((uint64_t{1} << (31 + shift)) + value - 1) / value);
  }
  /// n becomes the quotient; the remainder is returned.
  __device__ __forceinline__ int split(unsigned& n) const {
    const unsigned quotient = __umulhi(2 * n, reciprocal) >> shift;
    const unsigned remainder = n - quotient * value;
    n = quotient;
    return static_cast<int>(remainder);
  }
};

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

inline int largest_dilation(const FilterArguments& a) {
  return *std::max_element(a.dilation, a.dilation + a.branches);
}

/// with_type() without double, of what returns an error.
template <typename Function>
cudaError_t with_fast_type(Type type, const Function& f) {
  switch (type) {
    case Type::kFloat:
      return f(Tag<float>());
    case Type::kHalf:
      return f(Tag<__half>());
    default:
      return f(Tag<__nv_bfloat16>());
  }
}

/// kVector neighbouring elements, moved as one word.
template <typename T, int kVector>
struct Word;
template <typename T>
struct Word<T, 1> {
  using Bits = std::conditional_t<sizeof(T) == 4, unsigned, unsigned short>;
  static __device__ void unpack(Bits bits, float (&values)[1]) {
    values[0] = to_sum(*reinterpret_cast<T*>(&bits));
  }
  static __device__ Bits pack(const float (&values)[1]) {
    const T value = from_sum<T>(values[0]);
    return *reinterpret_cast<const Bits*>(&value);
  }
};
template <>
struct Word<float, 2> {
  using Bits = uint2;
  static __device__ void split(Bits bits, unsigned (&each)[2]) {
    each[0] = bits.x;
    each[1] = bits.y;
  }
  static __device__ void unpack(Bits bits, float (&values)[2]) {
    values[0] = __uint_as_float(bits.x);
    values[1] = __uint_as_float(bits.y);
  }
  static __device__ Bits pack(const float (&values)[2]) {
    return {__float_as_uint(values[0]), __float_as_uint(values[1])};
  }
};
/// Two of two bytes.
struct HalvesOfWord {
  using Bits = unsigned;
  static __device__ void split(Bits bits, unsigned short (&each)[2]) {
    each[0] = static_cast<unsigned short>(bits);
    each[1] = static_cast<unsigned short>(bits >> 16);
  }
};
template <>
struct Word<__half, 2> : HalvesOfWord {
  static __device__ void unpack(Bits bits, float (&values)[2]) {
    const float2 pair = __half22float2(*reinterpret_cast<__half2*>(&bits));
    values[0] = pair.x;
    values[1] = pair.y;
  }
  static __device__ Bits pack(const float (&values)[2]) {
    const __half2 pair = __floats2half2_rn(values[0], values[1]);
    return *reinterpret_cast<const Bits*>(&pair);
  }
};
template <>
struct Word<__nv_bfloat16, 2> : HalvesOfWord {
  static __device__ void unpack(Bits bits, float (&values)[2]) {
    values[0] = __uint_as_float(bits << 16);
    values[1] = __uint_as_float(bits & 0xffff0000u);
  }
  static __device__ Bits pack(const float (&values)[2]) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(values[0], values[1]);
    return *reinterpret_cast<const Bits*>(&pair);
  }
};

/// Four of two bytes.
template <typename T>
struct TwoWords {
  using Bits = uint2;
  static __device__ void unpack(Bits bits, float (&values)[4]) {
    float low[2], high[2];
    Word<T, 2>::unpack(bits.x, low);
    Word<T, 2>::unpack(bits.y, high);
    values[0] = low[0], values[1] = low[1], values[2] = high[0], values[3] = high[1];
  }
  static __device__ Bits pack(const float (&values)[4]) {
    return {Word<T, 2>::pack({values[0], values[1]}), Word<T, 2>::pack({values[2], values[3]})};
  }
};
template <>
struct Word<__half, 4> : TwoWords<__half> {};
template <>
struct Word<__nv_bfloat16, 4> : TwoWords<__nv_bfloat16> {};

/// Whether everything is aligned to words of `vector` elements of `size` bytes.
inline bool word_aligned(const FilterArguments& a, int vector, int size) {
  const auto multiple = [&](int64_t stride) { return stride % vector == 0; };
  const auto fits = [&](const void* pointer) {
    return reinterpret_cast<uintptr_t>(pointer) % (static_cast<uintptr_t>(vector) * size) == 0;
  };
  return multiple(a.width) && fits(a.x) && fits(a.kernels) && fits(a.out) &&
         multiple(a.x_stride[0]) && multiple(a.x_stride[1]) && multiple(a.x_stride[2]) &&
         multiple(a.kernel_stride[0]) && multiple(a.kernel_stride[1]) &&
         multiple(a.kernel_stride[2]) && multiple(a.kernel_stride[3]) &&
         multiple(a.out_stride[0]) && multiple(a.out_stride[1]);
}

/// Words of four bytes that the results of all branches are, where channels are innermost.
inline int64_t words_of_results(const FilterArguments& a) {
  return a.batch * a.height * a.width * a.branches * (a.channels * size_of(a.type) / 4);
}

/// Whether pixels of x and of the result, where channels are innermost, are aligned to `bytes`.
inline bool pixels_aligned(const FilterArguments& a, int bytes) {
  const auto multiple = [&](int64_t elements) { return elements * size_of(a.type) % bytes == 0; };
  const auto fits = [&](const void* pointer) {
    return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) == 0;
  };
  return multiple(a.output_channel) && multiple(a.x_stride[0]) && multiple(a.x_stride[2]) &&
         multiple(a.x_stride[3]) && multiple(a.out_stride[3]) && fits(a.x) && fits(a.out);
}

/// Elements that a call's words hold: two of two-byte types where everything is aligned to that.
inline int vector_of(const FilterArguments& a) {
  return a.type != Type::kFloat && word_aligned(a, 2, 2) ? 2 : 1;
}

}  // namespace hdfnet::ops::cuda
