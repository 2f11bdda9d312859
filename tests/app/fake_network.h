#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "network.h"

namespace hdfnet::app::test {

/// What fake networks do, and what was asked of them; shared by all that a provider makes.
struct FakeBehaviour {
  /// Changes a map before it is returned; arguments: precision, map. Null: the map is the depth.
  std::function<void(const std::string&, std::span<float>)> alter;
  /// Called at each forward with the number of images computed; may throw or wait.
  std::function<void(int)> before_forward;
  /// The same with the device and the batch.
  std::function<void(const std::string&, const BatchView&)> on_device;
  std::vector<std::string> without_network;  ///< devices for which make() throws
  std::vector<std::string> gpus;             ///< `all` and `auto` use them; empty: CPU only
  std::vector<Precision> unsupported;        ///< make() throws for these
  int passes_to_warm_up = 0;
  int batches_at_once = 1;
  std::map<std::string, DeviceRoom> rooms;  ///< by device; others say nothing
  bool takes_pictures = false;              ///< prepares and finishes, as a device does
  std::string unused_gpu;

  std::mutex mutex;
  std::vector<int> batches;           ///< images computed, in the order of the calls
  std::vector<std::string> prepared;  ///< devices, before the weights were read
  std::vector<std::string> made;      ///< "device precision ddpm"
  std::atomic<int> allocations{0};
  int loads = 0;
  int finished = 0;  ///< maps returned in 8 bits
  int measured_passes = 0;
  std::function<void()> before_measuring;
  int ceilings_measured = 0;
};

/// A network whose saliency map is the depth it is given, so that every result can be foretold.
class FakeNetwork final : public Network {
 public:
  FakeNetwork(FakeBehaviour& behaviour, const NetworkRequest& request);
  const NetworkInfo& info() const override { return info_; }
  std::shared_ptr<float[]> allocate(std::size_t count) const override;
  bool takes_pictures() const override { return behaviour_.takes_pictures; }
  int passes_to_warm_up() const override { return behaviour_.passes_to_warm_up; }
  std::optional<DeviceRoom> room(int height, int width) const override;
  int batches_at_once() const override { return behaviour_.batches_at_once; }
  Maps forward(const BatchView& batch) override;
  NetworkTimes measure(const BatchView& batch, int passes, const Interrupted& interrupted) override;
  std::optional<Ceilings> measure_ceilings() override {
    ++behaviour_.ceilings_measured;
    return Ceilings{1e12, 1e11};
  }

 private:
  void finish(const BatchView& batch, Maps& maps);

  FakeBehaviour& behaviour_;
  NetworkInfo info_;
};

class FakeProvider final : public NetworkProvider {
 public:
  FakeBehaviour behaviour;

  std::vector<std::string> devices(const std::string& wanted) override;
  std::string unused_gpu() const override { return behaviour.unused_gpu; }
  void prepare(const std::string& device) override {
    if (behaviour.loads == 0) behaviour.prepared.push_back(device);
  }
  void load(const std::filesystem::path& weights) override;
  std::string weights_sha256() override { return "cafe"; }
  void set_threads(int) override {}
  std::unique_ptr<Network> make(const NetworkRequest& request) override;
  std::unique_ptr<Network> make_archive(const std::string& device) override;
  std::vector<std::pair<std::string, std::string>> versions() const override {
    return {{"fake library", "1.2"}};
  }
};

}  // namespace hdfnet::app::test
