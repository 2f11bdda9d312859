#include "pairing/path_list.h"

#include <cerrno>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "pairing/entry.h"
#include "pairing/pairing.h"

namespace hdfnet::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

std::string trimmed(std::string_view text) {
  const std::size_t start = text.find_first_not_of(kWhiteSpace);
  if (start == std::string_view::npos) return "";
  return std::string(text.substr(start, text.find_last_not_of(kWhiteSpace) - start + 1));
}

void refuse_utf16(const std::string& line, const std::string& label) {
  if (line.starts_with("\xFF\xFE") || line.starts_with("\xFE\xFF")) {
    throw PairingError("the list " + label + " is UTF-16: save it as UTF-8.");
  }
}

[[noreturn]] void fail(const PathList& list, const ListLine& line, const std::string& what) {
  throw PairingError("the list " + list.label + ", line " + std::to_string(line.number) + ": '" +
                     line.text + "' " + what);
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::optional<PathPair> split_at(const PathList& list, const std::string& text, std::size_t at) {
  const std::string first = trimmed(std::string_view(text).substr(0, at));
  const std::string second = trimmed(std::string_view(text).substr(at + 1));
  if (first.empty() || second.empty()) return std::nullopt;
  return PathPair{list.folder / first, list.folder / second};
}

/// The place where both sides exist; else, where there is only one possible place, that one.
std::optional<PathPair> split(const PathList& list, const std::string& text, bool must_exist) {
  std::vector<PathPair> possible;
  constexpr std::string_view kSeparators = "\t,; ";
  for (std::size_t at = text.find_first_of(kSeparators); at != std::string::npos;
       at = text.find_first_of(kSeparators, at + 1)) {
    std::optional<PathPair> paths = split_at(list, text, at);
    if (!paths) continue;
    if (is_there(paths->rgb) && is_there(paths->depth)) return paths;
    possible.push_back(std::move(*paths));
  }
  if (must_exist || possible.size() != 1) return std::nullopt;
  return possible.front();
}

}  // namespace

PathList read_list(std::istream& stream, const std::string& label) {
  PathList list{label, "", {}};
  std::string line;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    if (number == 1) {
      refuse_utf16(line, label);
      if (line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    }
    std::string text = trimmed(line);
    if (!text.empty() && text[0] != '#') list.lines.push_back({number, std::move(text)});
  }
  if (stream.bad()) throw PairingError("the list " + label + " cannot be read to its end.");
  return list;
}

PathList read_list(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    throw PairingError("the list " + path_in_quotes(file) +
                       " cannot be opened: " + std::generic_category().message(errno) + ".");
  }
  PathList list = read_list(stream, path_in_quotes(file));
  list.folder = file.parent_path();
  return list;
}

std::vector<fs::path> single_paths(const PathList& list) {
  std::vector<fs::path> paths;
  for (const ListLine& line : list.lines) {
    fs::path path = list.folder / line.text;
    std::error_code error;
    if (fs::is_directory(path, error)) fail(list, line, "is a folder; a list names files.");
    if (!is_there(path) && split(list, line.text, true)) {
      fail(list, line,
           "holds two paths. To use both columns, give the same list as --rgb and as --depth.");
    }
    paths.push_back(std::move(path));
  }
  return paths;
}

std::vector<PathPair> double_paths(const PathList& list) {
  std::vector<PathPair> pairs;
  for (const ListLine& line : list.lines) {
    std::optional<PathPair> paths = split(list, line.text, false);
    if (!paths) {
      fail(list, line,
           "is no pair of paths: an RGB and a depth file with a tab, comma or space between are "
           "needed, and where the names hold spaces, both must exist.");
    }
    pairs.push_back(std::move(*paths));
  }
  return pairs;
}

}  // namespace hdfnet::app
