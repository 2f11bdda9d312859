#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "pairing/pairing.h"

namespace hdfnet::app::test {

/// A temporary folder of empty files, removed at the end of the test.
class Tree {
 public:
  explicit Tree(std::initializer_list<const char*> files);
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  ~Tree();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }

  /// Makes an empty file, with its folders.
  void add(const std::string& name) const;
  /// Makes a file of this content.
  void write(const std::string& name, const std::string& content) const;

  /// Options with these paths below the tree.
  PairingOptions options(const char* rgb, const char* depth) const;

 private:
  std::filesystem::path path_;
};

/// "stem: rgb + depth" of each pair, with file names only.
std::vector<std::string> described(const Pairing& pairing);

/// The file names of paths.
std::vector<std::string> names(const std::vector<std::filesystem::path>& paths);

/// The message of the PairingError, or "" when there is none.
std::string error_of(const PairingOptions& options, std::istream* standard_input = nullptr);

/// All notes in one text.
std::string notes_of(const Pairing& pairing);

using Names = std::vector<std::string>;

}  // namespace hdfnet::app::test
