#include "tree.h"

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace hdfnet::app::test {

namespace fs = std::filesystem;

Tree::Tree(std::initializer_list<const char*> files) {
  std::string name = (fs::temp_directory_path() / "hdfnet-pairing-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("cannot make a temporary folder");
  path_ = name;
  for (const char* file : files) add(file);
}

Tree::~Tree() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void Tree::add(const std::string& name) const {
  write(name, "");
}

void Tree::write(const std::string& name, const std::string& content) const {
  fs::create_directories((path_ / name).parent_path());
  std::ofstream stream(path_ / name, std::ios::binary);
  stream << content;
  if (!stream) throw std::runtime_error("cannot write " + name);
}

PairingOptions Tree::options(const char* rgb, const char* depth) const {
  PairingOptions options;
  options.rgb = path_ / rgb;
  options.depth = path_ / depth;
  return options;
}

std::vector<std::string> described(const Pairing& pairing) {
  std::vector<std::string> lines;
  lines.reserve(pairing.pairs.size());
  for (const Pair& pair : pairing.pairs) {
    lines.push_back(pair.stem.string() + ": " + pair.rgb.filename().string() + " + " +
                    pair.depth.filename().string());
  }
  return lines;
}

std::vector<std::string> names(const std::vector<fs::path>& paths) {
  std::vector<std::string> result;
  result.reserve(paths.size());
  for (const fs::path& path : paths) result.push_back(path.filename().string());
  return result;
}

std::string error_of(const PairingOptions& options, std::istream* standard_input) {
  try {
    find_pairs(options, standard_input);
  } catch (const PairingError& error) {
    return error.what();
  }
  return "";
}

std::string notes_of(const Pairing& pairing) {
  std::string text;
  for (const std::string& note : pairing.notes) text += note + "\n";
  return text;
}

}  // namespace hdfnet::app::test
