#include "run/pair_files.h"

#include <algorithm>
#include <opencv2/core.hpp>

#include "image/depth.h"
#include "image/read.h"
#include "image/saliency_output.h"
#include "run/plan.h"

namespace hdfnet::app {
namespace {

bool shows_rgb(const Options& options) {
  const std::vector<Save> kinds = kinds_to_save(options);
  return std::any_of(kinds.begin(), kinds.end(),
                     [](Save kind) { return kind == Save::overlay || kind == Save::cutout; });
}

/// The saliency image; it may be a view of the map's levels. cv::Mat has no read-only form; the map
/// is only read.
cv::Mat saliency_of(const MapView& map, cv::Size size, const MapStyle& style) {
  if (map.levels != nullptr) {
    return {size, CV_8UC1, const_cast<unsigned char*>(map.levels)};
  }
  const cv::Mat values(map.height, map.width, CV_32FC1, const_cast<float*>(map.values.data()));
  return saliency_image(values, size, style);
}

/// The picture of one kind, made from the saliency image.
cv::Mat picture(Save kind, const cv::Mat& rgb, const cv::Mat& saliency, const Options& options) {
  switch (kind) {
    case Save::map:
      return saliency;
    case Save::overlay:
      return overlay(rgb, saliency);
    case Save::cutout:
      return cutout(rgb, saliency);
    case Save::heatmap:
      return heat_map(saliency);
    case Save::mask:
      break;
  }
  return binary_mask(saliency, options.threshold.value_or(Threshold{true, 0}));
}

}  // namespace

PairFiles::PairFiles(const Options& options, Console& console, StageClock& clock, Gallery* gallery)
    : options_(options),
      console_(console),
      clock_(clock),
      gallery_(gallery),
      keep_rgb_(shows_rgb(options)),
      style_{options.bit_depth, options.rounding, options.upsample} {}

void PairFiles::say_scaling(const std::string& file, double low, double high) {
  if (scaling_said_.exchange(true)) return;
  console_.info("Depth is scaled to 0..1 per image, by the range of its valid pixels (" + file +
                ": " + print_value(low) + " to " + print_value(high) +
                "); --depth-range LOW:HIGH fixes it for all");
}

LoadedPair PairFiles::load(const Job& job, const Planes& planes, const std::string& lane,
                           PairTimes& times) {
  StageTimer decoding(clock_, lane, Stage::decode, job.name);
  ReadInfo rgb_info;
  cv::Mat rgb = read_rgb(job.rgb, rgb_info);
  const RawDepth raw = read_depth_raw(job.depth);
  times.decode = decoding.stop();

  StageTimer processing(clock_, lane, Stage::preprocess, job.name);
  const DepthPolicy policy{options_.depth_range, options_.depth_invert, options_.depth_hole};
  const DepthResult depth = depth_for_rgb(raw, policy, job.depth.string(), rgb.size(), rgb_info);
  store_input(rgb, depth.depth8, finished_on_device(rgb.size(), style_), planes);
  times.preprocess = processing.stop();

  for (const std::string& warning : rgb_info.warnings) console_.warning(warning);
  for (const std::string& warning : depth.warnings) console_.warning(warning);
  if (depth.scaled && options_.depth_range.kind != DepthRange::Kind::fixed) {
    say_scaling(job.depth.string(), depth.low, depth.high);
  }
  LoadedPair pair;
  pair.width = rgb.cols;
  pair.height = rgb.rows;
  if (gallery_ != nullptr && gallery_->claim()) {
    pair.small_rgb = shrink(rgb);
    pair.small_depth = shrink(depth.depth8);
  }
  if (keep_rgb_) pair.rgb = std::move(rgb);
  return pair;
}

void PairFiles::save(const Job& job, const LoadedPair& pair, const MapView& map,
                     const std::string& lane, PairTimes& times) {
  StageTimer processing(clock_, lane, Stage::postprocess, job.name);
  const cv::Mat saliency = saliency_of(map, {pair.width, pair.height}, style_);
  std::vector<cv::Mat> pictures;
  pictures.reserve(job.outputs.size());
  for (const Output& output : job.outputs) {
    pictures.push_back(picture(output.kind, pair.rgb, saliency, options_));
  }
  times.postprocess = processing.stop();

  StageTimer encoding(clock_, lane, Stage::encode, job.name);
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    write_file(job.outputs[i].file, encode_png(pictures[i]));
  }
  times.encode = encoding.stop();

  if (!pair.small_rgb.empty()) {
    gallery_->add(job.name, make_thumbnails(pair.small_rgb, pair.small_depth, saliency));
  }
}

}  // namespace hdfnet::app
