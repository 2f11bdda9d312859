#include "fake_network.h"

#include <algorithm>

namespace hdfnet::app::test {

FakeNetwork::FakeNetwork(FakeBehaviour& behaviour, const NetworkRequest& request)
    : behaviour_(behaviour) {
  info_.device = request.device;
  info_.device_name = "a fake";
  const bool automatic = request.precision == Precision::automatic;
  info_.precision =
      automatic ? (request.device == "cpu" ? "fp32" : "fp16") : print_value(request.precision);
  info_.ddpm = print_value(request.ddpm);
  info_.variant = "vgg16";
}

std::shared_ptr<float[]> FakeNetwork::allocate(std::size_t count) const {
  return std::shared_ptr<float[]>(new float[count]);
}

Maps FakeNetwork::forward(const BatchView& batch) {
  {
    const std::lock_guard lock(behaviour_.mutex);
    behaviour_.batches.push_back(batch.count);
  }
  if (behaviour_.before_forward) behaviour_.before_forward(batch.count);
  if (behaviour_.on_device) behaviour_.on_device(info_.device, batch);
  Maps maps;
  maps.height = batch.height;
  maps.width = batch.width;
  const std::size_t size = maps.plane() * batch.count;
  const std::shared_ptr<float[]> values(new float[size]);
  std::copy_n(batch.depth, size, values.get());
  maps.count = batch.count;
  maps.values = values;
  if (!behaviour_.alter) return maps;
  for (int i = 0; i < batch.count; ++i) {
    behaviour_.alter(info_.precision, std::span(values.get() + maps.plane() * i, maps.plane()));
  }
  return maps;
}

NetworkTimes FakeNetwork::measure(const BatchView&, int passes) {
  behaviour_.measured_passes = passes;
  NetworkTimes times;
  ModuleTimes slow{"encoder1", {}, 1e9, 1e6}, fast{"classifier", {}, 1e6, 1e8};
  for (int pass = 0; pass < passes; ++pass) {
    const double cold = pass == 0 ? 100 : 0;
    times.network.push_back(4 + cold);
    slow.milliseconds.push_back(3 + cold);
    fast.milliseconds.push_back(1 + cold);
  }
  times.modules = {slow, fast};
  return times;
}

std::vector<std::string> FakeProvider::devices(const std::string& wanted) {
  const auto& gpus = behaviour.gpus;
  if (wanted == "auto") return {gpus.empty() ? "cpu" : gpus.front()};
  if (wanted != "all") return {wanted};
  if (gpus.empty()) throw SetupError("--device all: no usable GPU.");
  return gpus;
}

void FakeProvider::load(const std::filesystem::path& weights) {
  ++behaviour.loads;
  if (!std::filesystem::exists(weights)) {
    throw SetupError("weights file " + weights.string() + " does not exist.");
  }
}

std::unique_ptr<Network> FakeProvider::make(const NetworkRequest& request) {
  const auto& missing = behaviour.unsupported;
  if (std::find(missing.begin(), missing.end(), request.precision) != missing.end()) {
    throw SetupError("precision " + print_value(request.precision) + " does not exist here.");
  }
  const auto& poor = behaviour.without_network;
  if (std::find(poor.begin(), poor.end(), request.device) != poor.end()) {
    throw OutOfMemory("no memory left on " + request.device + ".");
  }
  auto network = std::make_unique<FakeNetwork>(behaviour, request);
  behaviour.made.push_back(request.device + " " + network->info().precision + " " +
                           network->info().ddpm);
  return network;
}

std::unique_ptr<Network> FakeProvider::make_archive(const std::string& device) {
  return std::make_unique<FakeNetwork>(behaviour,
                                       NetworkRequest{device, Precision::fp32, Ddpm::reference});
}

}  // namespace hdfnet::app::test
