// Any names: a PairingError, or pairs in which every file has its place.
//
// The input's first four lines are the globs and suffixes of RGB and depth, the fifth is options (a
// letter each); of the rest each line is a file, RGB where it starts with 'r', depth otherwise. The
// same text is read as a list of paths, too.

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "fuzzer.h"
#include "pairing/matching.h"
#include "pairing/path_list.h"

using namespace hdfnet::app;

namespace {

std::string line(std::istream& stream) {
  std::string text;
  std::getline(stream, text);
  return text;
}

struct Input {
  Rule rule;
  Candidates candidates;

  explicit Input(const std::string& text) {
    std::istringstream stream(text);
    rule.rgb_glob = line(stream);
    rule.depth_glob = line(stream);
    rule.rgb_suffix = line(stream);
    rule.depth_suffix = line(stream);
    const std::string options = line(stream);
    candidates.rgb_is_list = options.find('r') != std::string::npos;
    candidates.depth_is_list = options.find('d') != std::string::npos;
    for (std::string name = line(stream); stream; name = line(stream)) {
      if (name.size() < 2) continue;
      const std::string path = name.substr(1);
      const std::string stem = without_extension(path);
      (name[0] == 'r' ? candidates.rgb : candidates.depth).push_back({path, stem, stem});
    }
    candidates.one_folder = options.find('o') != std::string::npos;
    if (candidates.one_folder) candidates.depth = candidates.rgb;
    sort_entries(candidates.rgb);
    sort_entries(candidates.depth);
  }
};

void pair(const Input& input) {
  Pairing found = match(input.candidates, input.rule);
  std::multiset<std::string> placed, known;
  for (const Entry& entry : input.candidates.rgb) known.insert(entry.file.string());
  for (const Pair& pair : found.pairs) placed.insert(pair.rgb.string());
  for (const auto& file : found.unpaired_rgb) placed.insert(file.string());
  HDFNET_REQUIRE(std::includes(known.begin(), known.end(), placed.begin(), placed.end()));
  const bool all = input.rule.rgb_glob.empty() && !input.candidates.one_folder;
  HDFNET_REQUIRE(!all || placed == known);

  sort_pairs(found.pairs);
  std::size_t in_shards = 0;
  for (std::size_t i = 0; i < 3; ++i) in_shards += shard(found.pairs, i, 3).size();
  HDFNET_REQUIRE(in_shards == found.pairs.size());
  refuse_collisions(found.pairs);
  for (std::size_t i = 1; i < found.pairs.size(); ++i) {
    HDFNET_REQUIRE(found.pairs[i - 1].stem.native() < found.pairs[i].stem.native());
  }
}

template <class Work>
void attempt(Work work) {
  try {
    work();
  } catch (const PairingError& error) {
    HDFNET_REQUIRE(*error.what() != '\0');
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  attempt([&] { pair(Input(text)); });
  attempt([&] {
    std::istringstream stream(text);
    single_paths(read_list(stream, "fuzz"));
  });
  attempt([&] {
    std::istringstream stream(text);
    for (const PathPair& both : double_paths(read_list(stream, "fuzz"))) {
      HDFNET_REQUIRE(!both.rgb.empty() && !both.depth.empty());
    }
  });
  return 0;
}
