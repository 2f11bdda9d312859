#pragma once

// ops/cuda/hopper.cuh in C++.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "card.h"
#include "cuda/tensor_core.cuh"
#include "tensor_copies.h"

namespace hdfnet::ops::cuda {

inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(emulated::offset_in_shared(pointer));
}

inline void start_barrier(uint64_t* barrier, int arrivals) {
  emulated::start_barrier(barrier, arrivals);
}
inline void publish_barriers() {}
inline void arrive(uint64_t* barrier) {
  emulated::arrive(barrier, 0);
}
inline constexpr unsigned kSameOrder = 0x3210;
inline void arrive_after(uint64_t* barrier, float, unsigned) {
  emulated::arrive(barrier, 0);
}
inline void arrive_and_expect(uint64_t* barrier, int bytes) {
  emulated::arrive(barrier, bytes);
}
inline void wait(uint64_t* barrier, uint32_t parity) {
  emulated::wait(barrier, parity);
}

inline void prefetch_map(const void*) {}

template <typename... Corner>
void copy_box(void* to, const void* map, uint64_t* barrier, Corner... corner) {
  const int at[] = {corner...};
  emulated::fetch_box(to, map, barrier, at, sizeof...(corner));
}

inline void store_box(const void* map, const void* from, int c0, int c1, int c2, int c3) {
  const int at[] = {c0, c1, c2, c3};
  emulated::store_box(map, from, at, 4);
}

inline void wait_for_stores_to_read() {
  emulated::wait_for_engine();
}
inline void wait_for_stores() {
  emulated::wait_for_engine();
}

inline void copy_run(void* to, const void* from, int bytes, uint64_t* barrier) {
  emulated::check_shared(to, static_cast<std::size_t>(bytes), 16);
  if (bytes % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0) {
    emulated::fail("a run that is not aligned to 16 bytes");
  }
  std::memset(to, 0xff, static_cast<std::size_t>(bytes));  // under way
  emulated::ask_engine([=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); }, barrier,
                       bytes);
}

inline void store_matrices(const unsigned (&from)[4], void* row) {
  emulated::check_shared(row, 16, 16);
  struct Lane {
    unsigned short* row;
    unsigned words[4];
  };
  const Lane mine{static_cast<unsigned short*>(row), {from[0], from[1], from[2], from[3]}};
  Lane lanes[32];
  emulated::exchange_in_warp(&mine, sizeof(mine), lanes);
  const int lane = emulated::lane();
  for (int c = 0; c < 8; ++c) {  // of this lane's row
    const unsigned word = lanes[c * 4 + lane % 8 / 2].words[lane / 8];
    mine.row[c] = static_cast<unsigned short>(word >> lane % 2 * 16);
  }
}

/// As the instruction's descriptor, with offsets in the block's shared memory for addresses.
inline uint64_t operand(const void* at, int group_bytes) {
  return static_cast<uint64_t>(emulated::offset_in_shared(at) >> 4 & 0x3fff) | uint64_t{1} << 16 |
         static_cast<uint64_t>(group_bytes >> 4) << 32 | uint64_t{1} << 62;
}

/// Elements of a row of an operand in shared memory.
template <typename T>
void row_of_operand(uint64_t operand, int row, float (&elements)[kDepth<T>]) {
  const std::size_t start = (operand & 0x3fff) << 4;
  const std::size_t group = (operand >> 32 & 0x3fff) << 4;
  const std::size_t offset =
      start + static_cast<std::size_t>(row / 8) * group + static_cast<std::size_t>(row % 8) * 128;
  for (int piece = 0; piece < 2; ++piece) {  // of 16 bytes
    const auto* const words = reinterpret_cast<const unsigned*>(
        emulated::shared_at(emulated::exchanged(offset + static_cast<std::size_t>(16 * piece), 3)));
    for (int i = 0; i < kDepth<T> / 2; ++i) {
      elements[piece * (kDepth<T> / 2) + i] = element_of<T>(words[i / kOfWord<T>], i % kOfWord<T>);
    }
  }
}

inline void publish_operands() {}

/// This thread's products that it has not waited for. Sums lie here until the last of their
/// products has been waited for.
class Products {
 public:
  using Product = std::function<void(float* sums)>;

  void add(float* d, int count, bool keep, Product product) {
    auto& sums = sums_[d];
    if (sums.users == 0) sums.values.assign(d, d + count);
    ++sums.users;
    for (int i = 0; i < count; ++i) d[i] = NAN;
    open_.push_back({d, keep, std::move(product)});
    emulated::count_product();
  }
  void commit() {
    groups_.push_back(std::move(open_));
    open_.clear();
  }
  void finish_to(std::size_t pending) {
    while (groups_.size() > pending) {
      for (const One& one : groups_.front()) {
        auto& sums = sums_[one.d];
        if (!one.keep) sums.values.assign(sums.values.size(), 0.f);
        one.product(sums.values.data());
        if (--sums.users == 0) std::copy(sums.values.begin(), sums.values.end(), one.d);
      }
      groups_.erase(groups_.begin());
    }
  }

 private:
  struct Sums {
    std::vector<float> values;
    int users = 0;
  };
  struct One {
    float* d;
    bool keep;
    Product product;
  };
  std::map<float*, Sums> sums_;
  std::vector<One> open_;
  std::vector<std::vector<One>> groups_;
};
inline Products& products_under_way() {
  return emulated::local<Products, emulated::Local::kProducts>();
}

inline void begin_products() {}
inline void commit_products() {
  products_under_way().commit();
}
template <int kPending>
void wait_for_products() {
  products_under_way().finish_to(kPending);
  emulated::synchronize_warp();  // one instruction: lane 0 may say so for all
}
template <int kRegisters>
void give_registers() {}
template <int kRegisters>
void take_registers() {}

/// Both operands as a thread needs them: two rows of a, of b two columns of every eight.
template <typename T, int kColumns>
struct Operands {
  float rows[2][kDepth<T>];
  float columns[kColumns][kDepth<T>];

  /// `rows_of(rows)` gives a's.
  template <typename RowsOf>
  Operands(uint64_t b, int quad, const RowsOf& rows_of) {
    rows_of(rows);
    for (int i = 0; i < kColumns; ++i) {
      row_of_operand<T>(b, i / 2 * 8 + quad * 2 + i % 2, columns[i]);
    }
  }
};

/// Operands are read when the product begins and when it has been waited for: they have to be there
/// all the time.
template <typename T, int kCount, typename RowsOf>
void start_product(float (&d)[kCount], uint64_t b, int keep, const RowsOf& rows_of) {
  using Both = Operands<T, kCount / 2>;
  const int quad = emulated::lane() % 4;
  const auto before = std::make_shared<Both>(b, quad, rows_of);
  products_under_way().add(d, kCount, keep != 0, [=](float* sums) {
    const Both now(b, quad, rows_of);
    const bool changed = std::memcmp(&now, before.get(), sizeof(Both)) != 0;
    for (int i = 0; i < kCount / 2; ++i) {
      for (int r = 0; r < 2; ++r) {
        float& sum = sums[i / 2 * 4 + r * 2 + i % 2];
        for (int k = 0; k < kDepth<T>; ++k) sum += now.rows[r][k] * now.columns[i][k];
        if (changed) sum = NAN;
      }
    }
  });
}

template <int kCount, typename T>
void multiply_add(float (&d)[kCount], const uint32_t (&a)[4], uint64_t b, int keep, T) {
  struct Rows {
    float values[2][kDepth<T>];
  } given;
  rows_of_operand<T>(a, given.values);
  start_product<T>(d, b, keep, [given](float(&rows)[2][kDepth<T>]) {
    std::memcpy(rows, given.values, sizeof(rows));
  });
}

template <int kCount, typename T>
void multiply_add(float (&d)[kCount], uint64_t a, uint64_t b, int keep, T) {
  const int first = static_cast<int>(threadIdx.x) / 32 % 4 * 16 + emulated::lane() / 4;
  start_product<T>(d, b, keep, [a, first](float(&rows)[2][kDepth<T>]) {
    for (int r = 0; r < 2; ++r) row_of_operand<T>(a, first + 8 * r, rows[r]);
  });
}

inline void hold(float (&)[24]) {}

}  // namespace hdfnet::ops::cuda
