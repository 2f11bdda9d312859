#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "network.h"
#include "run/console.h"

namespace hdfnet::app {

/// A batch's maps, and the arithmetic that each of them was computed in.
struct RobustMaps {
  Maps maps;
  std::vector<std::string> precision;  ///< one an image
  std::vector<bool> finite;            ///< false: not a number even in fp32, nothing to write
};

/// A network that goes on where the plain one would give up:
/// - out of memory: the batch is cut in halves, and stays cut for the rest of the run;
/// - an output that is not finite (fp16 reaches only 65504): those images are computed again in the
///   next wider arithmetic. Both are said on the console.
class RobustNetwork {
 public:
  /// Makes the same network in another precision; may throw when the device has none.
  using Maker = std::function<std::unique_ptr<Network>(Precision)>;

  RobustNetwork(std::unique_ptr<Network> network, Maker maker, Console& console);

  /// Throws what the network throws, OutOfMemory only for a single image.
  RobustMaps forward(const BatchView& batch);

  Network& network() { return *network_; }

 private:
  Maps forward_in_parts(const BatchView& batch);
  void recompute(const BatchView& image, int index, RobustMaps& result);
  Network* wider(std::size_t step);

  std::unique_ptr<Network> network_;
  Maker maker_;
  Console& console_;
  int largest_batch_;  ///< that the memory was enough for
  std::vector<Precision> wider_precisions_;
  std::vector<std::unique_ptr<Network>> wider_networks_;
};

}  // namespace hdfnet::app
