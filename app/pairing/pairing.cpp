#include "pairing/pairing.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <system_error>

#include "pairing/dataset.h"
#include "pairing/entry.h"
#include "pairing/folder_scan.h"
#include "pairing/matching.h"
#include "pairing/path_list.h"
#include "pairing/suffixes.h"

namespace hdfnet::app {
namespace {

namespace fs = std::filesystem;

enum class Kind { image, folder, list, standard_input };

/// A path without image extension is a list when it starts like text.
bool starts_like_text(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  char beginning[4096];
  stream.read(beginning, sizeof beginning);
  const std::string_view text(beginning, static_cast<std::size_t>(stream.gcount()));
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) return true;  // named later
  const bool picture =
      text.starts_with("\xFF\xD8\xFF") || text.starts_with("\x89PNG") || text.starts_with("%PDF");
  return !picture && text.find('\0') == std::string_view::npos;
}

Kind kind_of(const fs::path& path, Role role) {
  if (path == "-") return Kind::standard_input;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    throw PairingError("the " + std::string(name(role)) + " input " + path_in_quotes(path) +
                       " does not exist.");
  }
  if (status.type() == fs::file_type::none || status.type() == fs::file_type::unknown) {
    throw PairingError("the " + std::string(name(role)) + " input " + path_in_quotes(path) +
                       " cannot be looked at: " + error.message() + ".");
  }
  if (fs::is_directory(status)) return Kind::folder;
  if (has_image_extension(path, Role::depth) || !fs::is_regular_file(status)) return Kind::image;
  return starts_like_text(path) ? Kind::list : Kind::image;
}

/// The two inputs and what they are.
struct Inputs {
  fs::path rgb, depth;
  Kind rgb_kind, depth_kind;
  std::istream* standard_input;

  bool rgb_is_list() const { return rgb_kind == Kind::list || rgb_kind == Kind::standard_input; }
  bool depth_is_list() const {
    return depth_kind == Kind::list || depth_kind == Kind::standard_input;
  }
};

PathList list_from(const Inputs& inputs, const fs::path& path, Kind kind) {
  if (kind == Kind::list) return read_list(path);
  if (!inputs.standard_input) {
    throw PairingError("'-' reads the list from standard input, which is not available here.");
  }
  return read_list(*inputs.standard_input, "on standard input");
}

/// The folder that all of the paths share.
fs::path common_folder(const std::vector<fs::path>& files) {
  std::optional<fs::path> common;
  for (const fs::path& file : files) {
    const fs::path folder = fs::absolute(file).lexically_normal().parent_path();
    if (!common) common = folder;
    const auto [end, unused] =
        std::mismatch(common->begin(), common->end(), folder.begin(), folder.end());
    fs::path shared;
    for (auto part = common->begin(); part != end; ++part) shared /= *part;
    common = shared;
  }
  return common.value_or(fs::path());
}

/// The path of a file below a folder, without extension: where its results go.
fs::path stem_below(const fs::path& folder, const fs::path& file) {
  const fs::path below = fs::absolute(file).lexically_normal().lexically_relative(folder);
  return without_extension(below.generic_string());
}

std::vector<Entry> entries_of(const std::vector<fs::path>& files) {
  std::vector<Entry> entries;
  for (const fs::path& file : files) {
    const std::string whole = fs::absolute(file).lexically_normal().generic_string();
    entries.push_back({file, without_extension(whole), ""});
  }
  return entries;
}

Pairing pair_line_by_line(const std::vector<fs::path>& rgb, const std::vector<fs::path>& depth) {
  const fs::path folder = common_folder(rgb);
  Pairing found;
  for (std::size_t i = 0; i < rgb.size(); ++i) {
    found.pairs.push_back({rgb[i], depth[i], stem_below(folder, rgb[i])});
  }
  return found;
}

/// One list with two columns.
Pairing pair_columns(const PathList& list) {
  std::vector<fs::path> rgb, depth;
  for (const PathPair& paths : double_paths(list)) {
    rgb.push_back(paths.rgb);
    depth.push_back(paths.depth);
  }
  return pair_line_by_line(rgb, depth);
}

Pairing pair_lists(const Inputs& inputs) {
  const PathList rgb = list_from(inputs, inputs.rgb, inputs.rgb_kind);
  const PathList depth = list_from(inputs, inputs.depth, inputs.depth_kind);
  if (rgb.lines.size() != depth.lines.size()) {
    throw PairingError("two lists are paired line by line, but " + rgb.label + " names " +
                       std::to_string(rgb.lines.size()) + " files and " + depth.label + " names " +
                       std::to_string(depth.lines.size()) + ".");
  }
  return pair_line_by_line(single_paths(rgb), single_paths(depth));
}

std::vector<Entry> candidates_of(const Inputs& inputs, Role role, bool recursive) {
  const bool is_rgb = role == Role::rgb;
  const fs::path& path = is_rgb ? inputs.rgb : inputs.depth;
  const Kind kind = is_rgb ? inputs.rgb_kind : inputs.depth_kind;
  const Kind other_kind = is_rgb ? inputs.depth_kind : inputs.rgb_kind;
  if (kind == Kind::image) return entries_of({path});
  if (kind != Kind::folder) return entries_of(single_paths(list_from(inputs, path, kind)));
  ScanOptions options{role, recursive, ""};
  if (other_kind == Kind::folder) options.except = is_rgb ? inputs.depth : inputs.rgb;
  return scan_folder(path, options);
}

Candidates gather(const Inputs& inputs, bool recursive) {
  Candidates candidates;
  candidates.rgb = candidates_of(inputs, Role::rgb, recursive);
  candidates.depth = candidates_of(inputs, Role::depth, recursive);
  candidates.one_folder = inputs.rgb_kind == Kind::folder && inputs.depth_kind == Kind::folder &&
                          fs::equivalent(inputs.rgb, inputs.depth);
  candidates.rgb_is_list = inputs.rgb_kind != Kind::folder;
  candidates.depth_is_list = inputs.depth_kind != Kind::folder;
  return candidates;
}

/// Throws when a folder holds nothing to work on.
void refuse_empty(const Inputs& inputs, const Candidates& candidates, bool recursive) {
  for (const Role role : {Role::rgb, Role::depth}) {
    const bool is_rgb = role == Role::rgb;
    if (!(is_rgb ? candidates.rgb : candidates.depth).empty()) continue;
    const fs::path& path = is_rgb ? inputs.rgb : inputs.depth;
    if ((is_rgb ? inputs.rgb_kind : inputs.depth_kind) != Kind::folder) {
      throw PairingError("the " + std::string(name(role)) + " list " + path_in_quotes(path) +
                         " names no file.");
    }
    const bool deeper = !recursive && !scan_folder(path, {role, true, ""}).empty();
    throw PairingError(
        "the " + std::string(name(role)) + " folder " + path_in_quotes(path) + " holds no image" +
        (deeper ? " itself, but its sub-folders do: give --recursive." : " in a known format."));
  }
}

/// A known pair of suffixes that gives pairs, if exactly one does.
std::optional<SuffixPair> recognise_suffixes(const Candidates& candidates, const Rule& rule) {
  std::optional<SuffixPair> found;
  for (const SuffixPair& suffixes : known_suffixes()) {
    Rule attempt = rule;
    attempt.rgb_suffix = suffixes.rgb;
    attempt.depth_suffix = suffixes.depth;
    if (match(candidates, attempt).pairs.empty()) continue;
    if (found) return std::nullopt;
    found = suffixes;
  }
  return found;
}

std::string describe(const SuffixPair& suffixes) {
  const std::string rgb = suffixes.rgb.empty() ? "no suffix" : path_in_quotes(suffixes.rgb);
  return rgb + " for RGB and " + path_in_quotes(suffixes.depth) + " for depth";
}

/// Says what was looked for, so that the right option can be seen.
std::string hint(const Inputs& inputs, const Pairing& found, const Candidates& candidates) {
  const fs::path& first =
      found.unpaired_rgb.empty() ? candidates.rgb.front().file : found.unpaired_rgb.front();
  return "no depth fits any RGB: for " + path_in_quotes(first) + ", " +
         path_in_quotes(without_extension(first.filename().string()) + ".*") +
         " was looked for in " + path_in_quotes(inputs.depth) + ", which holds for example " +
         path_in_quotes(candidates.depth.front().file.filename()) +
         ". If the names differ by an ending, give --rgb-suffix or --depth-suffix.";
}

bool can_tell_sides_apart(const Candidates& candidates, const Rule& rule) {
  return !candidates.one_folder || !rule.rgb_glob.empty() || !rule.depth_glob.empty() ||
         !rule.rgb_suffix.empty() || !rule.depth_suffix.empty();
}

Pairing pair_by_name(const Inputs& inputs, const Candidates& candidates, const Rule& rule) {
  const bool sides_known = can_tell_sides_apart(candidates, rule);
  Pairing found;
  if (sides_known) found = match(candidates, rule);
  const bool suffixes_given = !rule.rgb_suffix.empty() || !rule.depth_suffix.empty();
  if (!found.pairs.empty()) return found;
  if (!suffixes_given) {
    if (const auto suffixes = recognise_suffixes(candidates, rule)) {
      Rule recognised = rule;
      recognised.rgb_suffix = suffixes->rgb;
      recognised.depth_suffix = suffixes->depth;
      found = match(candidates, recognised);
      found.notes.push_back("the names pair with " + describe(*suffixes) + ", so these are used.");
      return found;
    }
  }
  if (!sides_known) {
    throw PairingError(path_in_quotes(inputs.rgb) +
                       " is given as RGB and as depth: say which files are which with --rgb-glob "
                       "and --depth-glob, or with --rgb-suffix and --depth-suffix.");
  }
  found.notes.push_back(hint(inputs, found, candidates));
  return found;
}

/// Listed files and single images keep their place below the folder that they share.
void set_list_stems(std::vector<Pair>& pairs, const std::vector<Entry>& rgb) {
  std::vector<fs::path> files(rgb.size());
  std::transform(rgb.begin(), rgb.end(), files.begin(), [](const Entry& e) { return e.file; });
  const fs::path folder = common_folder(files);
  for (Pair& pair : pairs) pair.stem = stem_below(folder, pair.rgb);
}

Pairing pair_with_folder(const Inputs& inputs, const PairingOptions& options) {
  const Candidates candidates = gather(inputs, options.recursive);
  refuse_empty(inputs, candidates, options.recursive);
  const Rule rule{options.rgb_glob, options.depth_glob, options.rgb_suffix, options.depth_suffix};
  Pairing found = pair_by_name(inputs, candidates, rule);
  if (inputs.rgb_kind != Kind::folder) {
    set_list_stems(found.pairs, candidates.rgb);
    found.unpaired_depth.clear();  // the list is a choice: the rest is not missing anything
  }
  return found;
}

Pairing pair_inputs(const Inputs& inputs, const PairingOptions& options) {
  if (inputs.rgb_is_list() && inputs.rgb == inputs.depth) {
    return pair_columns(list_from(inputs, inputs.rgb, inputs.rgb_kind));
  }
  if (inputs.rgb_kind == Kind::image && inputs.depth_kind == Kind::image) {
    return pair_line_by_line({inputs.rgb}, {inputs.depth});
  }
  if (inputs.depth_kind == Kind::image) {
    throw PairingError("--depth names one image, " + path_in_quotes(inputs.depth) +
                       ", but --rgb names many: give the folder or list of the depth maps.");
  }
  if (inputs.rgb_is_list() && inputs.depth_is_list()) return pair_lists(inputs);
  return pair_with_folder(inputs, options);
}

Inputs resolve(const PairingOptions& options, std::istream* standard_input) {
  Inputs inputs{options.rgb, options.depth, Kind::folder, Kind::folder, standard_input};
  if (!options.dataset.empty()) {
    if (!options.rgb.empty() || !options.depth.empty()) {
      throw PairingError(
          "a data set folder already names RGB and depth: leave out --rgb and "
          "--depth, or --dataset.");
    }
    const DatasetFolders folders = find_dataset_folders(options.dataset);
    inputs.rgb = folders.rgb;
    inputs.depth = folders.depth;
    return inputs;
  }
  if (inputs.rgb.empty()) throw PairingError("no RGB input is given: use --rgb or --dataset.");
  inputs.rgb_kind = kind_of(inputs.rgb, Role::rgb);
  if (inputs.depth.empty() && inputs.rgb_is_list()) inputs.depth = inputs.rgb;
  if (inputs.depth.empty()) throw PairingError("no depth input is given: use --depth.");
  inputs.depth_kind = kind_of(inputs.depth, Role::depth);
  return inputs;
}

}  // namespace

Pairing find_pairs(const PairingOptions& options, std::istream* standard_input) {
  Pairing found = pair_inputs(resolve(options, standard_input), options);
  if (found.pairs.empty() && found.unpaired_rgb.empty()) {
    throw PairingError("no RGB image is left to work on: check the patterns, suffixes and lists.");
  }
  refuse_collisions(found.pairs);
  sort_pairs(found.pairs);
  return found;
}

}  // namespace hdfnet::app
