#pragma once

#include <memory>

#include "network.h"

namespace hdfnet::app {

/// The networks of the model library, on LibTorch. No other file of the application uses LibTorch.
std::unique_ptr<NetworkProvider> make_torch_provider();

}  // namespace hdfnet::app
