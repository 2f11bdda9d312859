#pragma once

#include <filesystem>

namespace hdfnet::app {

/// The weights to use: the file given, or else weights/hdfnet_vgg16.pt, looked for below
/// HDFNET_HOME, beside the program (a build tree's or an installation's place for it) and in the
/// current folder. Throws UsageError that lists these places and says how to make the file.
std::filesystem::path find_weights(const std::filesystem::path& given);

}  // namespace hdfnet::app
