#include "run/robust_network.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

namespace hdfnet::app {
namespace {

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); });
}

/// Arithmetic with a larger range than `precision`, nearest in speed first.
std::vector<Precision> wider_than(const std::string& precision) {
  if (precision == "fp16") return {Precision::bf16, Precision::fp32};
  if (precision == "bf16" || precision == "tf32") return {Precision::fp32};
  return {};
}

}  // namespace

RobustNetwork::RobustNetwork(std::unique_ptr<Network> network, Maker maker, Console& console)
    : network_(std::move(network)),
      maker_(std::move(maker)),
      console_(console),
      largest_batch_(std::numeric_limits<int>::max()),
      wider_precisions_(wider_than(network_->info().precision)),
      wider_networks_(wider_precisions_.size()) {}

Maps RobustNetwork::forward_in_parts(const BatchView& batch) {
  Maps all;
  int first = 0;
  while (first < batch.count) {
    const int size = std::min(batch.count - first, largest_batch_);
    try {
      const Maps part = network_->forward(batch.part(first, size));
      all.height = part.height;
      all.width = part.width;
      all.values.insert(all.values.end(), part.values.begin(), part.values.end());
      first += size;
    } catch (const OutOfMemory& error) {
      if (size == 1) throw;
      largest_batch_ = size / 2;
      console_.warning(network_->info().device + " has not enough memory for a batch of " +
                       std::to_string(size) + "; going on with batches of " +
                       std::to_string(largest_batch_) + " (" + error.what() + ")");
    }
  }
  return all;
}

Network* RobustNetwork::wider(std::size_t step) {
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

void RobustNetwork::recompute(const BatchView& image, int index, RobustMaps& result) {
  for (std::size_t step = 0; step < wider_precisions_.size(); ++step) {
    Network* network = wider(step);
    if (network == nullptr) continue;
    const Maps again = network->forward(image);
    result.precision[index] = network->info().precision;
    if (!all_finite(again.values)) continue;
    std::copy(
        again.values.begin(), again.values.end(),
        result.maps.values.begin() +
            static_cast<std::ptrdiff_t>(result.maps.plane() * static_cast<std::size_t>(index)));
    result.finite[index] = true;
    return;
  }
}

RobustMaps RobustNetwork::forward(const BatchView& batch) {
  RobustMaps result;
  result.maps = forward_in_parts(batch);
  result.precision.assign(batch.count, network_->info().precision);
  result.finite.assign(batch.count, true);
  for (int i = 0; i < batch.count; ++i) {
    if (all_finite(result.maps.map(i))) continue;
    result.finite[i] = false;
    recompute(batch.part(i, 1), i, result);
  }
  return result;
}

}  // namespace hdfnet::app
