#include "device_room.h"

#include <algorithm>
#include <limits>

namespace hdfnet::app {
namespace {

constexpr std::size_t MB = 1000000;
constexpr std::size_t kForLibraries = 128 * MB;

/// At 320x320: the peak of batch 32 less that of batch 1, divided by 31.
std::size_t measured(const std::string& precision) {
  if (precision == "fp16" || precision == "bf16") return 35 * MB;
  if (precision == "tf32") return 103 * MB;
  return 379 * MB;  // cuDNN's exact convolutions use much memory
}

}  // namespace

std::size_t bytes_for_image(const NetworkInfo& network, int height, int width) {
  // The reference operators hold the kernels and the shifted copies in memory.
  const std::size_t times = network.ddpm == "reference" ? 2 : 1;
  const std::size_t pictures = 10 * MB;  // two of them are under way
  const std::size_t pixels = static_cast<std::size_t>(height) * width;
  return (times * measured(network.precision) + pictures) * 11 / 10 * pixels / (320 * 320);
}

int images_in(const DeviceRoom& room) {
  const std::size_t usable = room.free - std::min(room.free, kForLibraries);
  const std::size_t images = usable / std::max<std::size_t>(room.image, 1);
  constexpr std::size_t most = std::numeric_limits<int>::max();
  return static_cast<int>(std::clamp<std::size_t>(images, 1, most));
}

}  // namespace hdfnet::app
