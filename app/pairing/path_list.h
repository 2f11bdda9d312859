#pragma once

#include <filesystem>
#include <istream>
#include <string>
#include <vector>

namespace hdfnet::app {

/// A line of a list that names something.
struct ListLine {
  std::size_t number;  ///< counted from 1, as editors do
  std::string text;    ///< without white space around it
};

/// The lines of a list of paths: without byte-order mark, carriage returns, blank lines and
/// comments.
struct PathList {
  std::string label;             ///< the list's name in messages
  std::filesystem::path folder;  ///< where relative paths start
  std::vector<ListLine> lines;
};

/// Reads a list from a file. Throws PairingError when it cannot be read or is UTF-16.
PathList read_list(const std::filesystem::path& file);

/// Reads a list from a stream; relative paths start at the working directory.
PathList read_list(std::istream& stream, const std::string& label);

/// One path a line. A path need not exist (reading it fails later, by name), but a folder, or a
/// line that holds two paths, is a PairingError that quotes it.
std::vector<std::filesystem::path> single_paths(const PathList& list);

struct PathPair {
  std::filesystem::path rgb;
  std::filesystem::path depth;
};

/// Two paths a line, with a tab, comma, semicolon or space between. Where names hold such
/// characters themselves, the place is taken at which both sides exist. Throws PairingError that
/// quotes the line.
std::vector<PathPair> double_paths(const PathList& list);

}  // namespace hdfnet::app
