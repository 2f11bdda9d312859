#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace hdfnet::app {

/// Folders that may hold weights/ and configs/, in the order in which they are looked through:
/// HDFNET_HOME; the program's own folder and, from it, the places of a build tree (../..) and of an
/// installation (../share/hdfnet, ../../share/hdfnet); the same of the shared library that holds
/// this code; the current folder.
std::vector<std::filesystem::path> data_folders();

/// The first regular file FOLDER/name of them; empty when there is none.
std::filesystem::path find_data_file(std::string_view name);

/// The places of `name`, each on a line of its own with two spaces in front, for errors.
std::string places_of(std::string_view name);

/// The weights to use: the file given, or else weights/hdfnet_vgg16.pt in the first data folder
/// that has it. Throws SetupError that lists the places and says how to make the file, or when
/// HDFNET_HOME is no folder.
std::filesystem::path find_weights(const std::filesystem::path& given);

/// The configuration to use: the file given where it exists; a bare name, with or without .yaml
/// (`fast`), is then looked for as configs/NAME.yaml in the data folders. Throws UsageError that
/// lists the places, or when HDFNET_HOME is no folder.
std::filesystem::path find_config(const std::filesystem::path& given);

}  // namespace hdfnet::app
