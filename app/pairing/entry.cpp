#include "pairing/entry.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <tuple>

namespace hdfnet::app {
namespace {

using namespace std::string_view_literals;

constexpr std::array kPictures = {".jpg"sv, ".jpeg"sv, ".jpe"sv, ".jfif"sv, ".png"sv,
                                  ".bmp"sv, ".dib"sv,  ".tif"sv, ".tiff"sv, ".webp"sv,
                                  ".pbm"sv, ".pgm"sv,  ".ppm"sv, ".pnm"sv};
constexpr std::array kNumbers = {".pfm"sv, ".exr"sv, ".npy"sv};

template <typename Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string_view name(Role role) {
  return role == Role::rgb ? "RGB" : "depth";
}

bool has_image_extension(const std::filesystem::path& file, Role role) {
  std::string extension = file.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return contains(kPictures, extension) || (role == Role::depth && contains(kNumbers, extension));
}

std::string without_extension(const std::string& path) {
  const std::size_t extension = std::filesystem::path(path).extension().string().size();
  return path.substr(0, path.size() - extension);
}

std::string path_in_quotes(const std::filesystem::path& path) {
  std::string result(1, '\'');
  result += path.string();
  result += '\'';
  return result;
}

void sort_entries(std::vector<Entry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.stem, a.file.native()) < std::tie(b.stem, b.file.native());
  });
}

}  // namespace hdfnet::app
