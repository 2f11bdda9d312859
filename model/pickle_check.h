#pragma once

#include <string>
#include <string_view>

namespace hdfnet {

/// Why LibTorch must not be given this pickle, as the rest of a sentence; empty when it may be. It
/// allocates what a text's length or a place in the memo declares, whatever the file's size, and
/// takes nested objects down by recursion, which overflows the stack.
std::string pickle_fault(std::string_view pickle);

}  // namespace hdfnet
