#pragma once

#include <cstddef>

#include "network.h"

namespace hdfnet::app {

/// Bytes of device memory that one image of a batch takes, about: what was measured on a GPU with
/// VGG16, the largest of the variants, and what its pictures take on the way, a tenth more.
std::size_t bytes_for_image(const NetworkInfo& network, int height, int width);

/// Images that a batch may have there, at least one; some memory is left to libraries.
int images_in(const DeviceRoom& room);

}  // namespace hdfnet::app
