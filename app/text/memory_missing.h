#pragma once

#include <string>

namespace hdfnet::app {

/// LibTorch's words of memory that a device does not have, without its account of who holds it and
/// its advice: what was asked for, and what of it is free. Other texts stay as they are.
std::string memory_missing(const std::string& text);

}  // namespace hdfnet::app
