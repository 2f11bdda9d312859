#include "run/robust_network.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <exception>
#include <limits>

namespace hdfnet::app {
namespace {

/// Without an early end, so that the compiler can test many values at once: nearly every map is
/// finite.
bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t exponent = 0x7F800000;  // all ones: infinite or not a number
  bool finite = true;
  for (const float value : values) {
    finite &= (std::bit_cast<std::uint32_t>(value) & exponent) != exponent;
  }
  return finite;
}

bool is_finite(const Maps& maps, int index) {
  return maps.finished == nullptr ? all_finite(maps.map(index)) : (*maps.finished)[index].finite;
}

/// Arithmetic with a larger range than `precision`, nearest in speed first.
std::vector<Precision> wider_than(const std::string& precision) {
  if (precision == "fp16") return {Precision::bf16, Precision::fp32};
  if (precision == "bf16" || precision == "tf32") return {Precision::fp32};
  return {};
}

}  // namespace

std::string RobustMap::not_finite() const {
  return "the network's output is not finite, even in " + precision +
         ": the weights or the input are outside what the network can compute.";
}

RobustNetwork::RobustNetwork(std::unique_ptr<Network> network, Maker maker, Console& console,
                             int full_batch)
    : network_(std::move(network)),
      maker_(std::move(maker)),
      console_(console),
      largest_batch_(std::numeric_limits<int>::max()),
      full_batch_(full_batch),
      wider_precisions_(wider_than(network_->info().precision)),
      wider_networks_(wider_precisions_.size()) {}

std::vector<RobustMap> RobustNetwork::forward_in_parts(const BatchView& batch) {
  std::vector<RobustMap> result;
  int first = 0;
  while (first < batch.count) {
    const int largest = largest_batch_;
    const int size = std::min(batch.count - first, largest);
    BatchView images = batch.part(first, size);
    images.filled_to = std::min(full_batch_, largest);
    try {
      const Maps part = network_->forward(images);
      for (int i = 0; i < size; ++i) result.push_back({part, i, network_->info().precision, true});
      first += size;
    } catch (const OutOfMemory& error) {
      if (images.images() == 1) throw;
      halve(images.images(), error.what());
    }
  }
  return result;
}

void RobustNetwork::halve(int images, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (largest_batch_ < images) return;  // another thread was told the same
  largest_batch_ = images / 2;
  console_.warning(network_->info().device + " has not enough memory for a batch of " +
                   std::to_string(images) + "; going on with batches of " +
                   std::to_string(largest_batch_) + " (" + why + ")");
}

Network* RobustNetwork::wider(std::size_t step) {
  const std::lock_guard lock(mutex_);
  if (!wider_networks_[step]) {
    try {
      wider_networks_[step] = maker_(wider_precisions_[step]);
    } catch (const std::exception& error) {
      console_.info_once(network_->info().device + " cannot run in " +
                         print_value(wider_precisions_[step]) + ": " + error.what());
    }
  }
  return wider_networks_[step].get();
}

bool RobustNetwork::recompute(const BatchView& image, Network& network, RobustMap& map) {
  try {
    const Maps again = network.forward(image);
    map = {again, 0, network.info().precision, is_finite(again, 0)};
    return map.finite;
  } catch (const std::exception& error) {
    console_.info_once(network.info().precision + " does not help either: " + error.what());
    return false;
  }
}

void RobustNetwork::warm_up(int count, int height, int width) {
  try {
    const std::size_t plane = static_cast<std::size_t>(height) * width;
    const std::shared_ptr<float[]> black = network_->allocate(4 * plane);
    std::fill_n(black.get(), 4 * plane, 0.0F);
    const PairPictures pictures{reinterpret_cast<const unsigned char*>(black.get()), height, width,
                                LevelMap{height, width, Rounding::nearest}};
    BatchView batch{black.get(), black.get() + 3 * plane,     1, height, width,
                    nullptr,     std::max(count, full_batch_)};
    if (network_->takes_pictures()) {
      batch.rgb = batch.depth = nullptr;
      batch.pictures = &pictures;
    }
    for (int pass = 0; pass < network_->passes_to_warm_up(); ++pass) network_->forward(batch);
  } catch (const std::exception&) {
    return;
  }
}

std::vector<RobustMap> RobustNetwork::forward(const BatchView& batch) {
  std::vector<RobustMap> result = forward_in_parts(batch);
  for (int i = 0; i < batch.count; ++i) {
    RobustMap& map = result[i];
    map.finite = is_finite(map.maps, map.index);
    for (std::size_t step = 0; !map.finite && step < wider_precisions_.size(); ++step) {
      Network* network = wider(step);
      if (network != nullptr && recompute(batch.part(i, 1), *network, map)) break;
    }
  }
  return result;
}

}  // namespace hdfnet::app
