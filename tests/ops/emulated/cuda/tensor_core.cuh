#pragma once

// ops/cuda/tensor_core.cuh in C++.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

#include "card.h"

#define HDFNET_ASYNCHRONOUS_COPIES 1

namespace hdfnet::ops::cuda {

/// This thread's copies that it has not waited for.
struct CopiesUnderWay {
  std::vector<std::function<void()>> open;                 // in no group yet
  std::vector<std::vector<std::function<void()>>> groups;  // oldest first

  void end_group() {
    groups.push_back(std::move(open));
    open.clear();
  }
  void finish_to(std::size_t pending) {
    while (groups.size() > pending) {
      for (const auto& copy : groups.front()) copy();
      groups.erase(groups.begin());
    }
  }
};
inline CopiesUnderWay& copies_under_way() {
  return emulated::local<CopiesUnderWay, emulated::Local::kCopies>();
}

/// What is read before it was waited for is NaN.
inline void copy_later(void* to, const void* from, std::size_t size, std::size_t real) {
  if (reinterpret_cast<std::uintptr_t>(to) % size != 0 ||
      (real != 0 && reinterpret_cast<std::uintptr_t>(from) % size != 0)) {
    emulated::fail("a copy that is not aligned to its size");
  }
  std::memset(to, 0xff, size);
  copies_under_way().open.emplace_back([=] {
    std::memset(to, 0, size);
    if (real != 0) std::memcpy(to, from, real);
  });
}

template <int kBytes>
void copy_async(void* to, const void* from, bool real) {
  copy_later(to, from, kBytes, real ? kBytes : 0);
}

inline void copy_async_first(void* to, const void* from, int bytes) {
  copy_later(to, from, 16, static_cast<std::size_t>(bytes));
}

inline void prefetch(const void*) {}

inline void end_copy_group() {
  copies_under_way().end_group();
}

template <int kPending>
void wait_for_copy_groups() {
  copies_under_way().finish_to(kPending);
}

inline void wait_for_copies() {
  copies_under_way().end_group();
  copies_under_way().finish_to(0);
}

template <bool kTranspose = false>
void load_matrices(unsigned (&to)[4], const void* row) {
  struct Row {
    const unsigned short* halves;
  };
  emulated::check_shared(row, 16, 16);
  const Row mine{static_cast<const unsigned short*>(row)};
  Row rows[32];
  emulated::exchange_in_warp(&mine, sizeof(mine), rows);
  const int lane = emulated::lane();
  for (int m = 0; m < 4; ++m) {
    unsigned short halves[2];
    for (int h = 0; h < 2; ++h) {
      const int of_row = kTranspose ? lane % 4 * 2 + h : lane / 4;
      const int of_column = kTranspose ? lane / 4 : lane % 4 * 2 + h;
      halves[h] = rows[8 * m + of_row].halves[of_column];
    }
    to[m] = static_cast<unsigned>(halves[1]) << 16 | halves[0];
  }
  emulated::synchronize_warp();  // one instruction: who has the result knows that all have read
}

/// The values of all two-byte words, as the tensor cores see them.
template <typename T>
const float* values_of_halves() {
  static const std::vector<float> values = [] {
    std::vector<float> all(65536);
    for (unsigned bits = 0; bits < 65536; ++bits) {
      const auto half = static_cast<unsigned short>(bits);
      if constexpr (std::is_same_v<T, __half>) {
        all[bits] = __half2float(std::bit_cast<__half>(half));
      } else {
        all[bits] = __uint_as_float(static_cast<unsigned>(half) << 16);
      }
    }
    return all;
  }();
  return values.data();
}

/// How many products of T an instruction adds up, and how many of them a word of 32 bits holds.
template <typename T>
constexpr int kDepth = sizeof(T) == 4 ? 8 : 16;
template <typename T>
constexpr int kOfWord = sizeof(T) == 4 ? 1 : 2;

template <typename T>
float element_of(unsigned word, int i) {
  if constexpr (sizeof(T) == 4) return __uint_as_float(word & 0xffffe000u);
  return values_of_halves<T>()[word >> 16 * i & 0xffffu];
}

/// Rows g and g + 8 (g = lane / 4) of an operand of 16 rows, of which each of four lanes has a.
template <typename T>
void rows_of_lanes(const unsigned (*lanes)[4], float (&rows)[2][kDepth<T>]) {
  constexpr int kRun = 4 * kOfWord<T>;  // of k, in one register of four lanes
  for (int k = 0; k < kDepth<T>; ++k) {
    const unsigned(&lane)[4] = lanes[k % kRun / kOfWord<T>];
    for (int r = 0; r < 2; ++r) rows[r][k] = element_of<T>(lane[k / kRun * 2 + r], k % kOfWord<T>);
  }
}

template <typename T>
void rows_of_operand(const unsigned (&a)[4], float (&rows)[2][kDepth<T>]) {
  unsigned four[4][4];
  emulated::exchange_in_warp(a, sizeof(a), four, emulated::lane() / 4 * 4, 4);
  rows_of_lanes<T>(four, rows);
}

/// d = a * b + c of a warp: 16 rows, 8 columns.
template <typename T>
void multiply_in_warp(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                      const float (&c)[4]) {
  struct Registers {
    unsigned a[4], b[2];
  };
  const Registers mine{{a[0], a[1], a[2], a[3]}, {b0, b1}};
  Registers all[32];
  emulated::exchange_in_warp(&mine, sizeof(mine), all);
  const int lane = emulated::lane();
  unsigned four[4][4];
  for (int i = 0; i < 4; ++i) std::memcpy(four[i], all[lane / 4 * 4 + i].a, sizeof(four[i]));
  float rows[2][kDepth<T>], columns[2][kDepth<T>];
  rows_of_lanes<T>(four, rows);
  constexpr int kRun = 4 * kOfWord<T>;
  for (int k = 0; k < kDepth<T>; ++k) {
    for (int e = 0; e < 2; ++e) {  // columns 2 * (lane % 4) and the next, of four lanes each
      const Registers& from = all[lane % 4 * 8 + 4 * e + k % kRun / kOfWord<T>];
      columns[e][k] = element_of<T>(from.b[k / kRun], k % kOfWord<T>);
    }
  }
  for (int e = 0; e < 4; ++e) {
    float sum = c[e];
    for (int k = 0; k < kDepth<T>; ++k) sum += rows[e / 2][k] * columns[e % 2][k];
    d[e] = sum;
  }
}

template <typename T>
void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, T) {
  const float c[4] = {d[0], d[1], d[2], d[3]};
  multiply_in_warp<T>(d, a, b0, b1, c);
}

template <typename T>
void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const float (&c)[4],
              T) {
  const float before[4] = {c[0], c[1], c[2], c[3]};
  multiply_in_warp<T>(d, a, b[0], b[1], before);
}

/// To the nearest, ties away from zero.
inline unsigned round_to_tf32(unsigned bits) {
  const float value = __uint_as_float(bits);
  if (isnan(value)) return 0x7fffffffu;
  return isfinite(value) ? (bits + 0x1000u) & 0xffffe000u : bits;
}

}  // namespace hdfnet::ops::cuda
