#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "options/values.h"

namespace hdfnet::app {

/// Every setting of a run. The defaults here are the defaults of the program; names, help texts and
/// spelling are in option_table.cpp. An empty path or text is a setting that was not given.
struct Options {
  // Input
  std::filesystem::path rgb;
  std::filesystem::path depth;
  std::filesystem::path dataset;
  std::string rgb_suffix;
  std::string depth_suffix;
  std::string rgb_glob;
  std::string depth_glob;
  bool recursive = false;
  bool allow_unpaired = false;

  // Depth
  DepthRange depth_range;
  bool depth_invert = false;
  DepthHole depth_hole;

  // Network
  std::filesystem::path weights;
  std::string device = "auto";
  Precision precision = Precision::automatic;
  AutoCount batch;
  InputSize size;
  Ddpm ddpm = Ddpm::fused;
  AutoCount threads;
  bool verify = false;

  // Output
  std::filesystem::path out = "saliency";
  std::vector<Save> save = {Save::map};
  std::optional<Threshold> threshold;
  int bit_depth = 8;
  Upsample upsample = Upsample::bilinear;
  Rounding rounding = Rounding::nearest;
  bool skip_existing = false;
  std::filesystem::path manifest;

  // Run
  bool dry_run = false;
  bool fail_fast = false;
  bool quiet = false;
  ShardChoice shard;

  // Timing
  bool timing = false;
  std::filesystem::path timing_json;
  std::filesystem::path timing_csv;
  std::filesystem::path trace;
  int repeat = 10;
  int warmup = 3;
  std::filesystem::path report;

  // Configuration
  std::filesystem::path config;
  bool print_config = false;
  bool version = false;
};

}  // namespace hdfnet::app
