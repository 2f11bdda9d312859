#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "run/job.h"

namespace hdfnet::app {

/// The file of --manifest: one JSON object a line and pair, in the order of the pairs, written as
/// they are done, so that a stopped run's file tells how far it came.
class Manifest {
 public:
  /// No file, no manifest. Throws UsageError when the file cannot be written.
  Manifest(const std::filesystem::path& file, std::string weights_sha256);

  void add(const Job& job, const Result& result);

  /// False when something could not be written (disk full).
  bool good();

 private:
  std::ofstream stream_;
  std::string weights_sha256_;
};

/// One line of the manifest, without its end.
std::string manifest_line(const Job& job, const Result& result, const std::string& weights_sha256);

}  // namespace hdfnet::app
