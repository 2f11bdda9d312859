#pragma once

#include <filesystem>

namespace hdfnet::app {

struct DatasetFolders {
  std::filesystem::path rgb;
  std::filesystem::path depth;
};

/// The folders directly below `dataset` that hold the pictures: RGB, Image, Images or color, and
/// depth or depths, in any case. Throws PairingError when one is missing or there are several.
DatasetFolders find_dataset_folders(const std::filesystem::path& dataset);

}  // namespace hdfnet::app
