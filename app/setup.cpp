#include "setup.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

#include "device_room.h"
#include "run/shard.h"
#include "run/usable_cores.h"

namespace hdfnet::app {
namespace {

/// Images at once on a GPU: enough to fill the largest cards (on an H200 an image takes 0.35 ms in
/// batches of 8, 32 and 64), 53 MB of input at 320x320.
constexpr int gpu_images = 32;

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

/// How many images a batch is filled up to.
int filled_size(int batch, int pairs) {
  return std::min(
      batch, std::max(gpu_images, static_cast<int>(std::bit_ceil(static_cast<unsigned>(pairs)))));
}

/// Pairs in a batch of `auto`. The last place is left to filling: in some of cuDNN's convolutions
/// it is added up in another order, and a map would depend on where in a batch its pair happens to
/// be.
int pairs_of(int images) {
  return std::max(1, images - 1);
}

std::string megabytes(std::size_t bytes) {
  return std::to_string(bytes / 1000000) + " MB";
}

/// `auto`: what the least of the devices has room for.
void fit_batch(Setup& setup, const Options& options,
               const std::vector<std::unique_ptr<Network>>& networks) {
  if (options.batch.value || !setup.on_gpu) return;
  int least = gpu_images;
  bool known = false;
  for (const auto& network : networks) {
    const auto room = network->room(options.size.height, options.size.width);
    known |= room.has_value();
    if (!room || images_in(*room) >= least) continue;
    least = images_in(*room);
    setup.why_batch = network->info().device + " has " + megabytes(room->free) +
                      " free, and an image takes about " + megabytes(room->image);
  }
  if (known && least == gpu_images && setup.batch == pairs_of(gpu_images)) {
    setup.why_batch = "there is memory for more, which would not be faster";
  }
  setup.batch = std::min(setup.batch, pairs_of(least));
  setup.full_batch = std::min(setup.full_batch, least);
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
  const int automatic = setup.on_gpu ? pairs_of(gpu_images) : 1;
  setup.batch = std::min(options.batch.value.value_or(automatic), most);
  if (setup.on_gpu && !single) {
    setup.full_batch = filled_size(options.batch.value.value_or(gpu_images), most);
  }
  setup.threads = options.threads.value.value_or(usable_cores());
  setup.workers = setup.threads;  // on the CPU they take turns with the network
  return setup;
}

std::vector<std::unique_ptr<RobustNetwork>> make_networks(const Options& options, Setup& setup,
                                                          NetworkProvider& provider,
                                                          Console& console) {
  provider.set_threads(setup.threads);
  for (const std::string& device : setup.devices) provider.prepare(device);
  provider.load(options.weights);
  std::vector<std::unique_ptr<Network>> made;
  std::vector<std::pair<std::string, std::exception_ptr>> failures;
  for (const std::string& device : setup.devices) {
    try {
      made.push_back(provider.make({device, options.precision, options.ddpm}));
    } catch (const std::exception& error) {
      failures.emplace_back(device + " is not used: " + error.what(), std::current_exception());
    }
  }
  if (made.empty()) std::rethrow_exception(failures.front().second);
  for (const auto& [text, error] : failures) console.warning(text);
  fit_batch(setup, options, made);
  std::vector<std::unique_ptr<RobustNetwork>> networks;
  networks.reserve(made.size());
  for (auto& network : made) {
    const auto make = [&provider, device = network->info().device,
                       ddpm = options.ddpm](Precision precision) {
      return provider.make({device, precision, ddpm});
    };
    networks.push_back(
        std::make_unique<RobustNetwork>(std::move(network), make, console, setup.full_batch));
  }
  return networks;
}

}  // namespace hdfnet::app
