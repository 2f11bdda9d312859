#include "setup.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "run/shard.h"
#include "run/usable_cores.h"

namespace hdfnet::app {
namespace {

/// Pairs at once on a GPU: enough to fill the largest cards, 53 MB of input at 320x320.
constexpr int gpu_batch = 32;

bool is_gpu(const std::string& device) {
  return device.starts_with("cuda");
}

std::vector<std::string> choose_devices(const Options& options, NetworkProvider& provider) {
  std::vector<std::string> devices = provider.devices(options.device);
  const Shard part = resolve_shard(options.shard);
  const bool free_choice = options.device == "auto" || options.device == "cuda";
  if (!free_choice || !part.local_rank || !is_gpu(devices.front())) return devices;
  const std::vector<std::string> all = provider.devices("all");
  return {all[static_cast<std::size_t>(*part.local_rank) % all.size()]};
}

}  // namespace

Setup resolve_setup(const Options& options, NetworkProvider& provider, std::size_t pairs,
                    bool single) {
  Setup setup;
  setup.devices = choose_devices(options, provider);
  setup.on_gpu = is_gpu(setup.devices.front());
  // Not more than each device's part of the pairs, so that all of them have something to do.
  const std::size_t devices = setup.devices.size();
  const int most =
      static_cast<int>(std::clamp<std::size_t>((pairs + devices - 1) / devices, 1, 65536));
  const int wanted = options.batch.value.value_or(setup.on_gpu ? gpu_batch : 1);
  setup.batch = std::min(wanted, most);
  if (setup.on_gpu && !single) setup.full_batch = wanted;
  setup.threads = options.threads.value.value_or(usable_cores());
  setup.workers = setup.threads;  // on the CPU they take turns with the network
  return setup;
}

std::vector<std::unique_ptr<RobustNetwork>> make_networks(const Options& options,
                                                          const Setup& setup,
                                                          NetworkProvider& provider,
                                                          Console& console) {
  provider.set_threads(setup.threads);
  for (const std::string& device : setup.devices) provider.prepare(device);
  provider.load(options.weights);
  std::vector<std::unique_ptr<RobustNetwork>> networks;
  std::vector<std::pair<std::string, std::exception_ptr>> failures;
  for (const std::string& device : setup.devices) {
    const auto make = [&provider, device, ddpm = options.ddpm](Precision precision) {
      return provider.make({device, precision, ddpm});
    };
    try {
      networks.push_back(std::make_unique<RobustNetwork>(make(options.precision), make, console,
                                                         setup.full_batch));
    } catch (const std::exception& error) {
      failures.emplace_back(device + " is not used: " + error.what(), std::current_exception());
    }
  }
  if (networks.empty()) std::rethrow_exception(failures.front().second);
  for (const auto& [text, error] : failures) console.warning(text);
  return networks;
}

}  // namespace hdfnet::app
