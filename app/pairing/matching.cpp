#include "pairing/matching.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <set>

namespace hdfnet::app {
namespace {

namespace fs = std::filesystem;

using ByKey = std::map<std::string, std::vector<const Entry*>>;

bool matches_glob(const Entry& entry, const std::string& glob) {
  if (glob.empty()) return true;
  std::string subject = entry.file.filename().string();
  if (glob.find('/') != std::string::npos) subject = entry.stem + entry.file.extension().string();
  return ::fnmatch(glob.c_str(), subject.c_str(), FNM_CASEFOLD) == 0;
}

/// A suffix may be the whole name: s1/color.png goes with s1/depth.png.
bool has_suffix(const Entry& entry, const std::string& suffix) {
  const std::string name = entry.stem.substr(entry.stem.rfind('/') + 1);
  return name.ends_with(suffix);
}

/// One side of a rule.
struct Selector {
  const std::string& glob;
  const std::string& suffix;

  bool given() const { return !glob.empty() || !suffix.empty(); }
  bool chooses(const Entry& entry) const {
    return matches_glob(entry, glob) && has_suffix(entry, suffix);
  }
};

/// The files of one side that can be paired, and those that lack the suffix.
struct Chosen {
  std::vector<Entry> entries;
  std::vector<fs::path> left_over;
};

Chosen choose(const std::vector<Entry>& all, const Selector& own, const Selector& other,
              bool one_folder) {
  Chosen chosen;
  for (const Entry& entry : all) {
    if (!matches_glob(entry, own.glob)) continue;
    if (one_folder) {
      // Here the selectors say which side a file belongs to.
      const bool mine = own.given() ? own.chooses(entry) : !other.chooses(entry);
      if (!mine) continue;
      if (own.given() && other.given() && other.chooses(entry)) {
        throw PairingError(path_in_quotes(entry.file) +
                           " is chosen as RGB and as depth: make the patterns or suffixes differ.");
      }
    } else if (!has_suffix(entry, own.suffix)) {
      chosen.left_over.push_back(entry.file);
      continue;
    }
    chosen.entries.push_back(entry);
    Entry& kept = chosen.entries.back();
    kept.key = kept.stem.substr(0, kept.stem.size() - own.suffix.size());
  }
  return chosen;
}

/// List entries are whole paths: cuts each key down to the longest end that the other side has.
void shorten_keys(std::vector<Entry>& entries, const std::vector<Entry>& other) {
  std::set<std::string> known;
  for (const Entry& entry : other) known.insert(entry.key);
  for (Entry& entry : entries) {
    for (std::string end = entry.key; !end.empty();) {
      if (known.contains(end)) {
        entry.key = end;
        break;
      }
      const std::size_t slash = end.find('/');
      end = slash == std::string::npos ? "" : end.substr(slash + 1);
    }
  }
}

ByKey index(const std::vector<Entry>& entries) {
  ByKey by_key;
  for (const Entry& entry : entries) by_key[entry.key].push_back(&entry);
  return by_key;
}

Pairing join(const std::vector<Entry>& rgb, const std::vector<Entry>& depth) {
  Pairing found;
  const ByKey depth_by_key = index(depth);
  std::set<std::string> used;
  for (const Entry& entry : rgb) {
    const auto fitting = depth_by_key.find(entry.key);
    if (fitting == depth_by_key.end()) {
      found.unpaired_rgb.push_back(entry.file);
      continue;
    }
    const std::vector<const Entry*>& maps = fitting->second;
    if (maps.size() > 1) {
      throw PairingError(path_in_quotes(maps[0]->file) + " and " + path_in_quotes(maps[1]->file) +
                         " both fit the RGB " + path_in_quotes(entry.file) +
                         ": choose one kind with --depth-glob, or remove one.");
    }
    found.pairs.push_back({entry.file, maps.front()->file, entry.stem});
    used.insert(entry.key);
  }
  for (const Entry& entry : depth) {
    if (!used.contains(entry.key)) found.unpaired_depth.push_back(entry.file);
  }
  return found;
}

}  // namespace

Pairing match(const Candidates& candidates, const Rule& rule) {
  const Selector for_rgb{rule.rgb_glob, rule.rgb_suffix};
  const Selector for_depth{rule.depth_glob, rule.depth_suffix};
  Chosen rgb = choose(candidates.rgb, for_rgb, for_depth, candidates.one_folder);
  Chosen depth = choose(candidates.depth, for_depth, for_rgb, candidates.one_folder);
  if (candidates.rgb_is_list) shorten_keys(rgb.entries, depth.entries);
  if (candidates.depth_is_list) shorten_keys(depth.entries, rgb.entries);

  Pairing found = join(rgb.entries, depth.entries);
  const auto append = [](std::vector<fs::path>& to, const std::vector<fs::path>& more) {
    to.insert(to.end(), more.begin(), more.end());
    std::sort(to.begin(), to.end());
  };
  append(found.unpaired_rgb, rgb.left_over);
  append(found.unpaired_depth, depth.left_over);
  return found;
}

void sort_pairs(std::vector<Pair>& pairs) {
  std::sort(pairs.begin(), pairs.end(),
            [](const Pair& a, const Pair& b) { return a.stem.native() < b.stem.native(); });
}

void refuse_collisions(const std::vector<Pair>& pairs) {
  std::map<std::string, const Pair*> by_stem;
  for (const Pair& pair : pairs) {
    const auto [first, is_new] = by_stem.emplace(pair.stem.string(), &pair);
    if (is_new) continue;
    if (first->second->rgb == pair.rgb) {
      throw PairingError(path_in_quotes(pair.rgb) + " is listed twice: remove one of the lines.");
    }
    throw PairingError(path_in_quotes(first->second->rgb) + " and " + path_in_quotes(pair.rgb) +
                       " would both be written as " + path_in_quotes(pair.stem) +
                       ": choose one with --rgb-glob, or rename one.");
  }
}

}  // namespace hdfnet::app
