#include "weights_file.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "options/config_file.h"

namespace hdfnet::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* file_name = "hdfnet_vgg16.pt";

std::vector<fs::path> candidates() {
  std::vector<fs::path> places;
  if (const char* home = std::getenv("HDFNET_HOME"); home != nullptr && *home != '\0') {
    places.push_back(fs::path(home) / "weights" / file_name);
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (!error) {
    places.push_back((program / "../../weights" / file_name).lexically_normal());
    places.push_back((program / "../share/hdfnet/weights" / file_name).lexically_normal());
  }
  places.push_back(fs::path("weights") / file_name);
  return places;
}

}  // namespace

fs::path find_weights(const fs::path& given) {
  if (!given.empty()) return given;  // what is wrong with it, the loader says
  std::string looked_for;
  for (const fs::path& file : candidates()) {
    std::error_code error;
    if (fs::is_regular_file(file, error)) return file;
    looked_for += "\n  " + file.string();
  }
  throw UsageError("No weights: --weights is not given, and there is none of" + looked_for +
                   "\nMake one from the authors' checkpoint, and give it with --weights:\n  python "
                   "weights/export.py --checkpoint HDFNet_VGG16.pth --out weights/" +
                   file_name);
}

}  // namespace hdfnet::app
