#include "run/manifest.h"

#include <nlohmann/json.hpp>

#include "options/config_file.h"
#include "text/utf8.h"

namespace hdfnet::app {
namespace {

using Json = nlohmann::ordered_json;

Json times_json(const PairTimes& times) {
  return {{"decode", times.decode},
          {"preprocess", times.preprocess},
          {"network", times.network},
          {"postprocess", times.postprocess},
          {"encode", times.encode}};
}

}  // namespace

std::string manifest_line(const Job& job, const Result& result, const std::string& weights_sha256) {
  Json line;
  line["name"] = to_utf8(job.name);
  line["rgb"] = to_utf8(job.rgb.native());
  line["depth"] = job.depth.empty() ? Json() : Json(to_utf8(job.depth.native()));
  line["outputs"] = Json::object();
  for (const Output& output : job.outputs) {
    line["outputs"][print_value(output.kind)] = to_utf8(output.file.native());
  }
  line["status"] = name(result.status);
  line["error"] = result.error.empty() ? Json() : Json(to_utf8(result.error));
  if (result.width > 0) {
    line["width"] = result.width;
    line["height"] = result.height;
  }
  if (result.status == Status::written) {
    line["precision"] = result.precision;
    line["milliseconds"] = times_json(result.times);
    line["weights_sha256"] = weights_sha256;
  }
  return line.dump();
}

Manifest::Manifest(const std::filesystem::path& file, std::string weights_sha256)
    : weights_sha256_(std::move(weights_sha256)) {
  if (file.empty()) return;
  stream_.open(file, std::ios::binary | std::ios::trunc);
  if (!stream_) {
    throw UsageError("--manifest " + file.string() +
                     " cannot be written; its folder must exist and be writable.");
  }
}

void Manifest::add(const Job& job, const Result& result) {
  if (!stream_.is_open()) return;
  stream_ << manifest_line(job, result, weights_sha256_) << '\n' << std::flush;
}

bool Manifest::good() {
  return !stream_.is_open() || stream_.good();
}

}  // namespace hdfnet::app
