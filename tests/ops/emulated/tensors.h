#pragma once

// Tensors for the emulated card's tests.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "card.h"
#include "cuda/filter_arguments.h"

namespace hdfnet::emulated {

using ops::cuda::Type;
using Sizes = std::vector<std::int64_t>;

/// Calls f(index) for every index below the sizes.
inline void for_each(const Sizes& sizes, const std::function<void(const Sizes&)>& f) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return;
  Sizes at(sizes.size(), 0);
  for (;;) {
    f(at);
    std::size_t i = sizes.size();
    while (i > 0 && ++at[i - 1] == sizes[i - 1]) at[--i] = 0;
    if (i == 0) return;
  }
}

/// How a tensor lies in memory: its dimensions from the outermost to the innermost, and of each how
/// many elements of a larger tensor lie before and after, of which it is a part.
struct Lie {
  std::vector<int> order;
  Sizes before, after;
};

/// Elements of one of the kernels' types. The memory ends with the last element, begins at 16
/// bytes, and holds NaN where nothing was written.
class Tensor {
 public:
  Tensor(Type type, Sizes sizes, const Lie& lie) : type_(type), sizes_(std::move(sizes)) {
    const std::size_t rank = sizes_.size();
    strides_.resize(rank);
    std::int64_t step = 1, offset = 0;
    for (std::size_t i = rank; i-- > 0;) {
      const auto d = static_cast<std::size_t>(lie.order[i]);
      strides_[d] = step;
      const std::int64_t before = lie.before.empty() ? 0 : lie.before[d];
      const std::int64_t after = lie.after.empty() ? 0 : lie.after[d];
      offset += before * step;
      step *= sizes_[d] + before + after;
    }
    size_ = static_cast<std::size_t>(step) * bytes();
    void* memory = nullptr;
    if (posix_memalign(&memory, 16, std::max<std::size_t>(size_, 1)) != 0) std::abort();
    memory_.reset(static_cast<unsigned char*>(memory));
    std::memset(memory_.get(), 0xff, size_);
    first_ = static_cast<std::size_t>(offset);
  }

  Type type() const { return type_; }
  const Sizes& sizes() const { return sizes_; }
  const Sizes& strides() const { return strides_; }
  void* data() { return memory_.get() + first_ * bytes(); }

  void fill(unsigned seed, float scale) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for_each(sizes_, [&](const Sizes& at) { set(at, normal(random) * scale); });
  }

  void set(const Sizes& at, float value) {
    unsigned char* const place = memory_.get() + place_of(at) * bytes();
    if (type_ == Type::kFloat) {
      std::memcpy(place, &value, 4);
    } else if (type_ == Type::kHalf) {
      const __half half = __float2half_rn(value);
      std::memcpy(place, &half, 2);
    } else {
      const __nv_bfloat16 half = __float2bfloat16_rn(value);
      std::memcpy(place, &half, 2);
    }
  }

  double get(const Sizes& at) const { return read(place_of(at)); }
  double get(std::initializer_list<std::int64_t> at) const { return read(place_of(at)); }

  /// Whether elements that are not its own are as they were.
  bool rest_is_untouched() const {
    std::vector<bool> own(size_ / bytes(), false);
    for_each(sizes_, [&](const Sizes& at) { own[place_of(at)] = true; });
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (own[i]) continue;
      for (std::size_t b = 0; b < bytes(); ++b) {
        if (memory_.get()[i * bytes() + b] != 0xff) return false;
      }
    }
    return true;
  }

  /// Copies strides, or those of [first, first + count).
  void strides_to(std::int64_t* to) const { std::copy(strides_.begin(), strides_.end(), to); }

 private:
  std::size_t bytes() const { return type_ == Type::kFloat ? 4 : 2; }
  template <typename Index>
  std::size_t place_of(const Index& at) const {
    return first_ + static_cast<std::size_t>(std::inner_product(at.begin(), at.end(),
                                                                strides_.begin(), std::int64_t{0}));
  }
  double read(std::size_t place) const {
    const unsigned char* const from = memory_.get() + place * bytes();
    if (type_ == Type::kFloat) {
      float value;
      std::memcpy(&value, from, 4);
      return value;
    }
    unsigned short bits;
    std::memcpy(&bits, from, 2);
    if (type_ == Type::kHalf) return __half2float(std::bit_cast<__half>(bits));
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
  }

  struct Free {
    void operator()(unsigned char* memory) const { std::free(memory); }
  };

  Type type_;
  Sizes sizes_, strides_;
  std::size_t size_ = 0;
  std::size_t first_ = 0;
  std::unique_ptr<unsigned char, Free> memory_;
};

/// What float64 says, and the sum of the sizes of what was added up to it.
struct Expected {
  double value = 0;
  double size = 0;
  double squares = 0;  // of the terms

  void add(double term) {
    value += term;
    size += std::abs(term);
    squares += term * term;
  }
};

/// A result is as float64 says, but for its type's rounding and that of sums in float.
/// `of_term`: what the kernel may lose of each term by rounding it, to either side.
inline void expect_float64s(const Tensor& got, const std::string& name,
                            const std::function<Expected(const Sizes&)>& expected,
                            double of_term = 0) {
  const double rounding = got.type() == Type::kFloat  ? 0
                          : got.type() == Type::kHalf ? std::ldexp(1, -11)
                                                      : std::ldexp(1, -8);
  int faults = 0;
  for_each(got.sizes(), [&](const Sizes& at) {
    const Expected e = expected(at);
    const double value = got.get(at);
    const double allowed = rounding * std::abs(e.value) * 1.001 + std::ldexp(e.size, -19) +
                           6 * of_term * std::sqrt(e.squares) + 1e-7;
    if (std::abs(value - e.value) <= allowed || ++faults > 3) return;
    std::string place;
    for (const std::int64_t i : at) place += " " + std::to_string(i);
    ADD_FAILURE() << name << ": at" << place << " is " << value << ", not " << e.value;
  });
  EXPECT_EQ(faults, 0) << name;
  EXPECT_TRUE(got.rest_is_untouched()) << name;
}

/// Runs a test in as many orders of threads and copies as HDFNET_TEST_SCALE says, one by default.
inline void in_every_order(const std::function<void()>& test) {
  const char* const text = std::getenv("HDFNET_TEST_SCALE");
  const long orders = text != nullptr ? std::max(1L, std::strtol(text, nullptr, 10)) : 1;
  for (long seed = 1; seed <= orders; ++seed) {
    SCOPED_TRACE("order " + std::to_string(seed));
    order_differently(static_cast<unsigned>(seed));
    test();
  }
}

enum class Format { kPlanes, kChannelsLast };

/// N, C, H, W, and with groups before the channels.
inline Lie lie(Format format) {
  return {format == Format::kPlanes ? std::vector{0, 1, 2, 3} : std::vector{0, 2, 3, 1}, {}, {}};
}
inline Lie lie_of_groups(Format format) {
  return {
      format == Format::kPlanes ? std::vector{0, 1, 2, 3, 4} : std::vector{0, 3, 4, 1, 2}, {}, {}};
}

inline std::string name(const std::vector<int>& dilations) {
  std::string text = "dilations";
  for (const int dilation : dilations) text += " " + std::to_string(dilation);
  return text;
}
inline std::string name(Type type) {
  return type == Type::kHalf ? "half" : type == Type::kFloat ? "float" : "bfloat16";
}
inline std::string name(Format format) {
  return format == Format::kPlanes ? "Planes" : "ChannelsLast";
}
inline std::string name(const std::tuple<Type, Format>& both) {
  return name(std::get<0>(both)) + name(std::get<1>(both));
}

/// A test of a type and a format, on a card of one multiprocessor.
class OfTypeAndFormat : public testing::TestWithParam<std::tuple<Type, Format>> {
 protected:
  OfTypeAndFormat() { card().processors = 1; }
  static Type type() { return std::get<0>(GetParam()); }
  static Format format() { return std::get<1>(GetParam()); }
};
inline auto every_type_and_format() {
  return testing::Combine(testing::Values(Type::kHalf, Type::kBFloat16, Type::kFloat),
                          testing::Values(Format::kPlanes, Format::kChannelsLast));
}

}  // namespace hdfnet::emulated
