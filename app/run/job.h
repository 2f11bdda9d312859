#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "options/values.h"

namespace hdfnet::app {

/// One file that a pair's result goes into.
struct Output {
  Save kind = Save::map;
  std::filesystem::path file;
};

/// One pair to be done.
struct Job {
  std::string name;  ///< relative path without extension, as messages and the outputs call it
  std::filesystem::path rgb;
  std::filesystem::path depth;
  std::vector<Output> outputs;
};

enum class Status {
  written,
  skipped,  ///< --skip-existing: all its files are there
  failed,
  unpaired,  ///< an RGB image without depth
  not_done,  ///< the run was stopped before it
};
const char* name(Status status);

/// Milliseconds spent on one pair; the network's share is its batch's time by the batch's size,
/// with what it waited there for the batch before.
struct PairTimes {
  double decode = 0;
  double preprocess = 0;
  double network = 0;
  double postprocess = 0;
  double encode = 0;
};

/// What became of one pair.
struct Result {
  Status status = Status::not_done;
  std::string error;  ///< a sentence; empty unless failed or unpaired
  int width = 0;      ///< of the RGB image
  int height = 0;
  std::string precision;  ///< the network's arithmetic for this pair
  PairTimes times;
};

}  // namespace hdfnet::app
