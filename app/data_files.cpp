#include "data_files.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "network.h"
#include "options/config_file.h"

namespace hdfnet::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view default_weights = "weights/hdfnet_vgg16.pt";

fs::path program_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

/// Where the file lies that this code was loaded from, links resolved; empty when it is not known.
fs::path module_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&program_folder), &info) == 0) return {};
  std::error_code error;
  return fs::canonical(info.dli_fname, error).parent_path();
}

void add_once(std::vector<fs::path>& folders, const fs::path& folder) {
  const fs::path plain = folder.lexically_normal();
  if (std::find(folders.begin(), folders.end(), plain) == folders.end()) folders.push_back(plain);
}

bool is_file(const fs::path& file) {
  std::error_code error;
  return fs::is_regular_file(file, error);
}

fs::path given_home() {
  const char* const home = std::getenv("HDFNET_HOME");
  return home == nullptr ? "" : home;
}

/// What is wrong with HDFNET_HOME: without a word, other files than were meant would be taken.
std::string fault_of_home() {
  const fs::path home = given_home();
  std::error_code error;
  if (home.empty() || fs::is_directory(home, error)) return {};
  return "HDFNET_HOME is " + home.string() + ", which is not a folder. Set it to one that has " +
         "weights/ or configs/, or leave it unset.";
}

}  // namespace

std::vector<fs::path> data_folders() {
  std::vector<fs::path> folders;
  if (const fs::path home = given_home(); !home.empty()) add_once(folders, home);
  for (const fs::path& base : {program_folder(), module_folder()}) {
    if (base.empty()) continue;
    for (const char* place : {".", "../..", "../share/hdfnet", "../../share/hdfnet"}) {
      add_once(folders, base / place);
    }
  }
  add_once(folders, ".");
  return folders;
}

fs::path find_data_file(std::string_view name) {
  for (const fs::path& folder : data_folders()) {
    if (is_file(folder / name)) return (folder / name).lexically_normal();
  }
  return {};
}

std::string places_of(std::string_view name) {
  std::string text;
  for (const fs::path& folder : data_folders()) {
    text += "\n  " + (folder / name).lexically_normal().string();
  }
  return text;
}

fs::path find_weights(const fs::path& given) {
  if (!given.empty()) return given;  // what is wrong with it, the loader says
  if (const std::string wrong = fault_of_home(); !wrong.empty()) {
    throw SetupError(wrong, SetupError::Fault::weights);
  }
  const fs::path found = find_data_file(default_weights);
  if (!found.empty()) return found;
  throw SetupError("No weights: --weights is not given, and there is none of" +
                       places_of(default_weights) +
                       "\nSet HDFNET_HOME to a folder that has it, or make it from the authors' "
                       "checkpoint, and give it with --weights:\n  python "
                       "weights/export.py --checkpoint HDFNet_VGG16.pth --out " +
                       std::string(default_weights),
                   SetupError::Fault::weights);
}

fs::path find_config(const fs::path& given) {
  std::error_code error;
  const bool bare = !given.has_parent_path() && !given.empty();
  if (!bare || fs::exists(given, error)) return given;  // what is wrong with it, the reader says
  if (const std::string wrong = fault_of_home(); !wrong.empty()) throw UsageError(wrong);
  std::string name = "configs/" + given.string();
  if (given.extension() != ".yaml") name += ".yaml";
  const fs::path found = find_data_file(name);
  if (!found.empty()) return found;
  throw UsageError("The configuration " + given.string() +
                   " cannot be opened: there is no such file here, and none of" + places_of(name) +
                   "\nCheck the path given with --config.");
}

}  // namespace hdfnet::app
