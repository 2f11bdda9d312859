#include "settings.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "errors.h"
#include "options/nearest.h"
#include "options/option_table.h"

namespace hdfnet {
namespace {

/// The options that a Predictor has, of hdfnet-infer's.
const std::vector<std::string>& setting_names() {
  static const std::vector<std::string> names = {"weights",      "device",     "precision",
                                                 "size",         "threads",    "depth-range",
                                                 "depth-invert", "depth-hole", "upsample"};
  return names;
}

void set_option(app::Options& options, const std::string& name, const std::string& value) {
  try {
    app::find_option(name)->set(options, value);
  } catch (const app::ValueError& error) {
    throw app::ValueError(name + ": " + error.what() + ".");
  }
}

app::Precision to_app(Precision precision) {
  switch (precision) {
    case Precision::automatic:
      return app::Precision::automatic;
    case Precision::fp32:
      return app::Precision::fp32;
    case Precision::tf32:
      return app::Precision::tf32;
    case Precision::fp16:
      return app::Precision::fp16;
    case Precision::bf16:
      return app::Precision::bf16;
  }
  throw app::ValueError("precision: " + std::to_string(static_cast<int>(precision)) +
                        " is no value of hdfnet::Precision.");
}

void check_value(const char* name, int value, int count) {
  if (value >= 0 && value < count) return;
  throw app::ValueError(std::string(name) + ": " + std::to_string(value) +
                        " is no value of its enumeration.");
}

Precision from_app(app::Precision precision) {
  switch (precision) {
    case app::Precision::automatic:
      break;
    case app::Precision::fp32:
      return Precision::fp32;
    case app::Precision::tf32:
      return Precision::tf32;
    case app::Precision::fp16:
      return Precision::fp16;
    case app::Precision::bf16:
      return Precision::bf16;
  }
  return Precision::automatic;
}

}  // namespace

app::Options to_options(const PredictorSettings& settings) {
  check_value("channels", static_cast<int>(settings.channels), 2);
  app::Options options;
  options.weights = settings.weights;
  options.precision = to_app(settings.precision);
  set_option(options, "device", settings.device);
  if (options.device == "all") {
    throw app::ValueError(
        "device: a predictor runs on one device; choose cuda:N, or make one "
        "predictor for each.");
  }
  set_option(options, "size",
             std::to_string(settings.size.width) + "x" + std::to_string(settings.size.height));
  if (settings.threads != 0) set_option(options, "threads", std::to_string(settings.threads));
  set_option(options, "depth-range", settings.depth_range);
  options.depth_invert = settings.depth_invert;
  set_option(options, "depth-hole", settings.depth_hole);
  return options;
}

app::MapStyle to_style(const MapFormat& format) {
  if (format.size != cv::Size() && (format.size.width < 1 || format.size.height < 1)) {
    throw app::ValueError("map size: " + std::to_string(format.size.width) + " x " +
                          std::to_string(format.size.height) + " has no pixels.");
  }
  if (static_cast<std::int64_t>(format.size.width) * format.size.height > app::kMaxPixels) {
    throw app::ValueError("map size: " + std::to_string(format.size.width) + " x " +
                          std::to_string(format.size.height) + " is more than the " +
                          std::to_string(app::kMaxPixels) + " pixels that a picture may have.");
  }
  check_value("map type", static_cast<int>(format.type), 3);
  check_value("upsample", static_cast<int>(format.upsample), 2);
  app::MapStyle style;
  style.bit_depth = format.type == MapType::grey16 ? 16 : 8;
  style.upsample =
      format.upsample == Upsampling::nearest ? app::Upsample::nearest : app::Upsample::bilinear;
  return style;
}

void PredictorSettings::set(std::string_view name, std::string_view value) {
  with_public_errors("", [&] {
    const std::vector<std::string>& names = setting_names();
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw app::ValueError("'" + std::string(name) + "' is no setting; did you mean '" +
                            app::nearest(name, names) + "'? Known: " + app::listing(names) + ".");
    }
    app::Options options;
    set_option(options, std::string(name), std::string(value));
    if (name == "weights") weights = options.weights;
    if (name == "device") device = options.device;
    if (name == "precision") precision = from_app(options.precision);
    if (name == "size") size = {options.size.width, options.size.height};
    if (name == "threads") threads = options.threads.value.value_or(0);
    if (name == "depth-range") depth_range = value;
    if (name == "depth-invert") depth_invert = options.depth_invert;
    if (name == "depth-hole") depth_hole = value;
    if (name == "upsample") {
      map.upsample =
          options.upsample == app::Upsample::nearest ? Upsampling::nearest : Upsampling::bilinear;
    }
  });
}

}  // namespace hdfnet
