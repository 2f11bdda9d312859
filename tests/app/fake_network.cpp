#include "fake_network.h"

#include <algorithm>
#include <cmath>
#include <opencv2/core.hpp>

#include "image/network_input.h"
#include "image/pil.h"

namespace hdfnet::app::test {
namespace {

/// The depth as the network sees it: copied, or made from pictures as the host does.
void copy_depth(const BatchView& batch, float* to) {
  const std::size_t plane = static_cast<std::size_t>(batch.height) * batch.width;
  if (batch.pictures == nullptr) {
    std::copy_n(batch.depth, plane * batch.count, to);
    return;
  }
  for (int i = 0; i < batch.count; ++i) {
    const PairPictures& pair = batch.pictures[i];
    const std::size_t pixels = static_cast<std::size_t>(pair.height) * pair.width;
    const cv::Mat depth(pair.height, pair.width, CV_8UC1,
                        const_cast<unsigned char*>(pair.bytes) + 3 * pixels);
    depth_to_plane(pil_resize_bilinear(depth, {batch.width, batch.height}), to + plane * i);
  }
}

std::shared_ptr<const unsigned char[]> levels_of(const cv::Mat& map, const LevelMap& wanted) {
  const cv::Mat saliency =
      saliency_image(map, {wanted.width, wanted.height}, {8, wanted.rounding, Upsample::bilinear});
  const std::shared_ptr<unsigned char[]> levels(new unsigned char[saliency.total()]);
  std::copy_n(saliency.ptr(), saliency.total(), levels.get());
  return levels;
}

}  // namespace

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
  ++behaviour_.allocations;
  return std::shared_ptr<float[]>(new float[count]);
}

std::optional<DeviceRoom> FakeNetwork::room(int, int) const {
  const auto found = behaviour_.rooms.find(info_.device);
  if (found == behaviour_.rooms.end()) return std::nullopt;
  return found->second;
}

Maps FakeNetwork::forward(const BatchView& batch) {
  {
    const std::lock_guard lock(behaviour_.mutex);
    behaviour_.batches.push_back(batch.images());
  }
  if (behaviour_.before_forward) behaviour_.before_forward(batch.images());
  if (behaviour_.on_device) behaviour_.on_device(info_.device, batch);
  Maps maps;
  maps.height = batch.height;
  maps.width = batch.width;
  const std::size_t size = maps.plane() * batch.count;
  const std::shared_ptr<float[]> values(new float[size]);
  copy_depth(batch, values.get());
  maps.count = batch.count;
  maps.values = values;
  for (int i = 0; behaviour_.alter && i < batch.count; ++i) {
    behaviour_.alter(info_.precision, std::span(values.get() + maps.plane() * i, maps.plane()));
  }
  if (batch.pictures != nullptr) finish(batch, maps);
  return maps;
}

void FakeNetwork::finish(const BatchView& batch, Maps& maps) {
  bool all = true;
  std::vector<FinishedMap> every;
  for (int i = 0; i < batch.count; ++i) {
    const std::span<const float> values = maps.map(i);
    const bool finite =
        std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
    const cv::Mat map(maps.height, maps.width, CV_32FC1, const_cast<float*>(values.data()));
    const auto& wanted = batch.pictures[i].map;
    FinishedMap finished{nullptr, finite};
    if (finite && wanted) finished.levels = levels_of(map, *wanted);
    all &= finished.levels != nullptr;
    const std::lock_guard lock(behaviour_.mutex);
    if (finished.levels) ++behaviour_.finished;
    every.push_back(finished);
  }
  maps.finished = std::make_shared<const std::vector<FinishedMap>>(std::move(every));
  if (all) maps.values.reset();
}

NetworkTimes FakeNetwork::measure(const BatchView&, int passes, const Interrupted& interrupted) {
  if (behaviour_.before_measuring) behaviour_.before_measuring();
  if (interrupted()) throw GivenUp();
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
