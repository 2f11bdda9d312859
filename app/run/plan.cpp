#include "run/plan.h"

#include <algorithm>
#include <map>

#include "options/config_file.h"
#include "run/shard.h"
#include "text/printable.h"

namespace hdfnet::app {
namespace {

namespace fs = std::filesystem;

std::string lower_extension(const fs::path& file) {
  std::string extension = file.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

void check_inputs(const Options& options) {
  if (!options.dataset.empty()) {
    if (!options.rgb.empty() || !options.depth.empty()) {
      throw UsageError("--dataset stands for --rgb and --depth: give either it or those two.");
    }
    return;
  }
  if (options.rgb.empty()) {
    throw UsageError(
        "No input: give --rgb and --depth (images, folders or lists), or --dataset. --help lists "
        "every option.");
  }
}

/// Whether --out names one file. An existing folder is a folder whatever its name.
bool out_is_file(const Options& options, std::size_t pairs) {
  const std::string extension = lower_extension(options.out);
  std::error_code error;
  if (fs::is_directory(options.out, error)) return false;
  static constexpr const char* pictures[] = {".jpg",  ".jpeg", ".bmp", ".tif", ".tiff",
                                             ".webp", ".pgm",  ".ppm", ".exr"};
  if (std::find(std::begin(pictures), std::end(pictures), extension) != std::end(pictures)) {
    throw UsageError("--out " + options.out.string() +
                     ": results are written as PNG only; name a "
                     ".png file or a folder.");
  }
  if (extension != ".png") return false;
  if (pairs > 1) {
    throw UsageError("--out " + options.out.string() + " is one file, but there are " +
                     counted(pairs, "pair") + " to write; name a folder.");
  }
  return true;
}

const char* suffix(Save kind) {
  switch (kind) {
    case Save::map:
      return "";
    case Save::overlay:
      return "_overlay";
    case Save::cutout:
      return "_cutout";
    case Save::heatmap:
      return "_heatmap";
    case Save::mask:
      break;
  }
  return "_mask";
}

/// Absolute and free of `.`, `..` and links, so that two spellings of one file compare equal.
fs::path identity(const fs::path& file) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(file, error);
  return error ? fs::absolute(file).lexically_normal() : canonical;
}

void check_collisions(const std::vector<Pair>& pairs, const std::vector<Job>& jobs) {
  std::map<fs::path, fs::path> inputs;
  for (const Pair& pair : pairs) {
    inputs.emplace(identity(pair.rgb), pair.rgb);
    inputs.emplace(identity(pair.depth), pair.depth);
  }
  std::map<fs::path, const Job*> writers;
  for (const Job& job : jobs) {
    for (const Output& output : job.outputs) {
      const fs::path file = identity(output.file);
      if (const auto input = inputs.find(file); input != inputs.end()) {
        throw UsageError("The result of " + job.rgb.string() + " would overwrite the input " +
                         input->second.string() + "; name another folder with --out.");
      }
      const auto [other, is_new] = writers.emplace(file, &job);
      if (!is_new) {
        throw UsageError("The results of " + other->second->rgb.string() + " and " +
                         job.rgb.string() + " would both be written to " + output.file.string() +
                         "; rename one of them or leave one kind out of --save.");
      }
    }
  }
}

Job make_job(const Pair& pair, const Options& options, bool to_file) {
  return {pair.stem.string(), pair.rgb, pair.depth, outputs_for(pair, options, to_file)};
}

PairingOptions pairing_options(const Options& options) {
  return {options.rgb,          options.depth,    options.dataset,    options.rgb_suffix,
          options.depth_suffix, options.rgb_glob, options.depth_glob, options.recursive};
}

/// RGB images without depth, as pairs without depth, so that shards divide them in the same way.
std::vector<Pair> unpaired_as_pairs(const std::vector<fs::path>& files) {
  std::vector<Pair> pairs;
  pairs.reserve(files.size());
  for (const fs::path& file : files) {
    pairs.push_back({file, {}, (file.parent_path() / file.stem()).lexically_normal()});
  }
  return pairs;
}

}  // namespace

std::vector<Save> kinds_to_save(const Options& options) {
  std::vector<Save> kinds = options.save;
  const bool has_mask = std::find(kinds.begin(), kinds.end(), Save::mask) != kinds.end();
  if (options.threshold && !has_mask) kinds.push_back(Save::mask);
  return kinds;
}

std::vector<Output> outputs_for(const Pair& pair, const Options& options, bool out_is_file) {
  const fs::path base =
      out_is_file ? options.out.parent_path() / options.out.stem() : options.out / pair.stem;
  std::vector<Output> outputs;
  for (const Save kind : kinds_to_save(options)) {
    fs::path file = base;
    file += suffix(kind);
    file += ".png";
    if (out_is_file && kind == Save::map) file = options.out;
    outputs.push_back({kind, file});
  }
  return outputs;
}

Plan make_plan(const Options& options, std::istream* standard_input) {
  check_inputs(options);
  const Shard part = resolve_shard(options.shard);
  Pairing pairing = find_pairs(pairing_options(options), standard_input);
  const bool to_file = out_is_file(options, pairing.pairs.size());

  std::vector<Job> all;
  all.reserve(pairing.pairs.size());
  for (const Pair& pair : pairing.pairs) all.push_back(make_job(pair, options, to_file));
  check_collisions(pairing.pairs, all);

  Plan plan;
  plan.notes = std::move(pairing.notes);
  plan.unpaired_depth = std::move(pairing.unpaired_depth);
  for (const Pair& pair : shard(pairing.pairs, part.index, part.count)) {
    plan.jobs.push_back(make_job(pair, options, to_file));
  }
  const std::vector<Pair> alone = unpaired_as_pairs(pairing.unpaired_rgb);
  for (const Pair& pair : shard(alone, part.index, part.count)) {
    plan.unpaired.push_back({pair.stem.string(), pair.rgb, {}, {}});
  }
  return plan;
}

bool is_done(const Job& job) {
  return std::all_of(job.outputs.begin(), job.outputs.end(), [](const Output& output) {
    std::error_code error;
    return fs::is_regular_file(output.file, error) && fs::file_size(output.file, error) > 0;
  });
}

}  // namespace hdfnet::app
