#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace hdfnet::ops {

/// Running sums of taps. Many taps lose less when each row of taps is summed on its own first
/// (`by_rows`); few do not need it.
template <typename Acc>
class TapSums {
 public:
  TapSums(int64_t count, int64_t kernel_size, bool by_rows)
      : kernel_size_(kernel_size), total_(count), partial_(by_rows ? count : 0) {}

  void clear() {
    std::fill(total_.begin(), total_.end(), Acc(0));
    std::fill(partial_.begin(), partial_.end(), Acc(0));
  }
  Acc* total() { return total_.data(); }
  Acc* to_add_to() { return partial_.empty() ? total_.data() : partial_.data(); }
  void finish_tap(int64_t t) {
    if (partial_.empty() || t % kernel_size_ != kernel_size_ - 1) return;
    for (size_t i = 0; i < total_.size(); ++i) total_[i] += partial_[i];
    std::fill(partial_.begin(), partial_.end(), Acc(0));
  }
  const Acc* total() const { return total_.data(); }

 private:
  int64_t kernel_size_;
  std::vector<Acc> total_, partial_;
};

}  // namespace hdfnet::ops
