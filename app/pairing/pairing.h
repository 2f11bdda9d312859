#pragma once

#include <cstddef>
#include <filesystem>
#include <istream>
#include <stdexcept>
#include <string>
#include <vector>

namespace hdfnet::app {

/// The inputs contradict each other or are not there, so that no work can start. what() is a
/// sentence that names them and says what to do.
class PairingError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Where pictures come from. `rgb` and `depth` each name an image, a folder, or a text file with
/// one path a line ("-": standard input); or `dataset` names a folder that holds both.
///
/// - Image and image: one pair, whatever the names.
/// - Folders: paired by relative path without extension. Supported extensions count in any case;
///   hidden files, Thumbs.db, __MACOSX and files of other kinds are left out.
/// - Lists: UTF-8 BOM, CRLF, blank lines and lines that start with # are allowed; relative paths
/// start
///   at the list's folder (standard input: at the working directory). Two lists are paired line by
///   line. A list beside a folder is paired by the longest matching end of the path. One list given
///   as both `rgb` and `depth`, or as `rgb` with `depth` empty, has two paths a line (tab, comma or
///   space between).
struct PairingOptions {
  std::filesystem::path rgb;
  std::filesystem::path depth;
  std::filesystem::path dataset;  ///< instead of rgb and depth
  std::string rgb_suffix;         ///< ending of RGB names before the extension, taken off to pair
  std::string depth_suffix;       ///< e.g. "_Depth": 1_Depth.png goes with 1.jpg
  std::string rgb_glob;    ///< e.g. "*.jpg": of the name, or of the relative path when it has a '/'
  std::string depth_glob;  ///< case does not matter
  bool recursive = false;
};

struct Pair {
  std::filesystem::path rgb;
  std::filesystem::path depth;
  /// Where the results go, relative to the output folder and without extension: the RGB's path
  /// below its folder ("s1/0001"; list entries: below the folder that all of them share).
  std::filesystem::path stem;
};

struct Pairing {
  std::vector<Pair> pairs;                            ///< sorted by the bytes of `stem`
  std::vector<std::filesystem::path> unpaired_rgb;    ///< a failure of the run
  std::vector<std::filesystem::path> unpaired_depth;  ///< worth a warning only
  std::vector<std::string> notes;  ///< sentences for the log: suffixes recognised, hints
};

/// Finds the pairs without opening any image. Throws PairingError for what must stop the run: a
/// path that does not exist or is of the wrong kind, two inputs that would write the same output,
/// two depth files for one RGB, or nothing to do (no RGB image at all).
///
/// When no name fits, suffixes in common use (.color/.depth, _rgb/_depth, _Depth, ...) are tried;
/// if exactly one choice gives pairs it is taken, and notes says so.
Pairing find_pairs(const PairingOptions& options, std::istream* standard_input = nullptr);

/// The part `index` (0-based) of `count`: chosen by a hash of the stem alone, so that the parts are
/// disjoint, cover everything, and stay the same whatever else is in the folder.
std::vector<Pair> shard(const std::vector<Pair>& pairs, std::size_t index, std::size_t count);

}  // namespace hdfnet::app
