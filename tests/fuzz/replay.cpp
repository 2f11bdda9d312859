// Stands in for libFuzzer: every file of the folders and files that are named, as it is, cut short,
// and with bytes changed by a rule. The same inputs in every run.

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <vector>

#include "fuzzer.h"

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

constexpr int changes_per_file = 60;

Bytes read(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// In memory of exactly that size, so that a sanitizer sees a read past its end.
void run(const Bytes& bytes) {
  const Bytes exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

void change(Bytes& bytes, std::mt19937& random) {
  constexpr std::uint8_t interesting[] = {0, 1, 0x7F, 0x80, 0xFF, '\n', '\t', '/', '*', '"'};
  const std::size_t at = random() % bytes.size();
  switch (random() % 4) {
    case 0:
      bytes[at] = static_cast<std::uint8_t>(random());
      break;
    case 1:
      bytes[at] = interesting[random() % std::size(interesting)];
      break;
    case 2:
      bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    default:
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                   static_cast<std::uint8_t>(random()));
  }
}

void replay(const fs::path& file) {
  const Bytes whole = read(file);
  run(whole);
  std::mt19937 random(1);
  for (int round = 0; round < changes_per_file && !whole.empty(); ++round) {
    Bytes changed = whole;
    if (round % 4 == 0) changed.resize(random() % whole.size());
    for (int i = 0; i < 4 && !changed.empty(); ++i) change(changed, random);
    run(changed);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const auto& item : fs::recursive_directory_iterator(argv[i])) {
      if (item.is_regular_file()) files.push_back(item.path());
    }
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) replay(file);
  std::cout << files.size() << " files and " << changes_per_file << " changes to each\n";
  return files.empty() ? 1 : 0;
}
