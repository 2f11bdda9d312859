#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "network.h"
#include "run/console.h"

namespace hdfnet::app {

/// One image's map.
struct RobustMap {
  Maps maps;
  int index = 0;          ///< of the image in `maps`
  std::string precision;  ///< the arithmetic that it was computed in
  bool finite = true;     ///< false: not a number even in fp32, nothing to write

  /// The map in 8 bits as the device finished it; null: it is to be made of the values.
  const unsigned char* levels() const { return maps.levels(index); }
  std::span<const float> values() const { return maps.map(index); }  ///< only without levels
  std::string not_finite() const;  ///< what to say of a map that is not
};

/// A network that goes on where the plain one would give up:
/// - out of memory: the batch is cut in halves, and stays cut for the rest of the run;
/// - an output that is not finite (fp16 reaches only 65504): those images are computed again in the
///   next wider arithmetic. Both are said on the console.
/// forward() may be called from as many threads at once as the network allows.
class RobustNetwork {
 public:
  /// Makes the same network in another precision; may throw when the device has none.
  using Maker = std::function<std::unique_ptr<Network>(Precision)>;

  /// `full_batch`: smaller batches are filled up to it, so that a map's last bits do not depend on
  /// the number of pairs that its batch happens to have; 0: they are computed as they come.
  RobustNetwork(std::unique_ptr<Network> network, Maker maker, Console& console,
                int full_batch = 0);

  /// The maps of the batch's images, in their order. Throws what the network throws, OutOfMemory
  /// only for a single image.
  std::vector<RobustMap> forward(const BatchView& batch);

  /// The passes that the network needs to be as fast as it can be with batches of `count` images.
  /// Says nothing of faults: the first batch meets them again, and they are handled there.
  void warm_up(int count, int height, int width);

  Network& network() { return *network_; }

 private:
  std::vector<RobustMap> forward_in_parts(const BatchView& batch);
  void halve(int images, const std::string& why);
  bool recompute(const BatchView& image, Network& network, RobustMap& map);
  Network* wider(std::size_t step);

  std::unique_ptr<Network> network_;
  Maker maker_;
  Console& console_;
  std::mutex mutex_;
  std::atomic<int> largest_batch_;  ///< that the memory was enough for
  const int full_batch_;
  std::vector<Precision> wider_precisions_;
  std::vector<std::unique_ptr<Network>> wider_networks_;
};

}  // namespace hdfnet::app
