#include "hdfnet/predictor.h"

#include <mutex>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "data_files.h"
#include "errors.h"
#include "frame.h"
#include "hdfnet/version.h"
#include "run/batch.h"
#include "run/console.h"
#include "run/robust_network.h"
#include "run/usable_cores.h"
#include "settings.h"
#include "torch_network.h"

namespace hdfnet {
namespace {

/// The form asked for, checked before any work is done.
struct Form {
  explicit Form(const MapFormat& format)
      : style(to_style(format)), floats(format.type == MapType::float32), size(format.size) {}

  cv::Size size_for(cv::Size rgb) const { return size.empty() ? rgb : size; }

  /// What the network's device is asked to finish.
  std::optional<app::LevelMap> on_device(cv::Size rgb) const {
    if (floats) return std::nullopt;
    return app::finished_on_device(size_for(rgb), style);
  }

  /// The map in memory of its own.
  cv::Mat apply(const app::RobustMap& map, cv::Size rgb) const {
    const cv::Size to = size_for(rgb);
    // cv::Mat has no read-only form; the map is only read.
    if (map.levels() != nullptr) {
      return cv::Mat(to, CV_8UC1, const_cast<unsigned char*>(map.levels())).clone();
    }
    const cv::Mat values(map.maps.height, map.maps.width, CV_32FC1,
                         const_cast<float*>(map.values().data()));
    return floats ? app::saliency_values(values, to, style.upsample)
                  : app::saliency_image(values, to, style);
  }

  app::MapStyle style;
  bool floats;
  cv::Size size;
};

/// "pair 3: " where there are more than one.
std::string place(std::size_t index, std::size_t count) {
  return count == 1 ? "" : "pair " + std::to_string(index) + ": ";
}

}  // namespace

std::string library_version() {
  return HDFNET_VERSION;
}

struct Predictor::Impl {
  explicit Impl(const PredictorSettings& given) : settings(given), options(to_options(given)) {
    const Form check(settings.map);
    options.weights = app::find_weights(options.weights);
    provider->set_threads(options.threads.value.value_or(app::usable_cores()));
    provider->load(options.weights);
    const std::string device = provider->devices(options.device).front();
    const auto make = [this, device](app::Precision precision) {
      return provider->make({device, precision, options.ddpm});
    };
    network = std::make_unique<app::RobustNetwork>(make(options.precision), make, console);
  }

  const app::NetworkInfo& info() { return network->network().info(); }

  std::vector<cv::Mat> predict(const std::vector<cv::Mat>& rgb, const std::vector<cv::Mat>& depth,
                               const MapFormat& format) {
    if (rgb.size() != depth.size()) {
      throw app::ValueError("expected as many depth maps as RGB pictures, found " +
                            std::to_string(depth.size()) + " and " + std::to_string(rgb.size()) +
                            ".");
    }
    const Form form(format);
    if (rgb.empty()) return {};
    app::Batch batch;
    batch.open(0, static_cast<int>(rgb.size()));
    for (std::size_t i = 0; i < rgb.size(); ++i) {
      const std::string where = place(i, rgb.size());
      with_public_errors(where, [&] {
        fill(batch, i, rgb[i], depth[i], form.on_device(rgb[i].size()), where + "depth");
      });
    }
    batch.close_gaps(options.size.height, options.size.width);
    const std::vector<app::RobustMap> result =
        run(batch.view(options.size.height, options.size.width));
    std::vector<cv::Mat> maps(rgb.size());
    for (std::size_t i = 0; i < rgb.size(); ++i) {
      with_public_errors(place(i, rgb.size()), [&] {
        const app::RobustMap& map = result[i];
        if (!map.finite) throw std::runtime_error(map.not_finite());
        maps[i] = form.apply(map, rgb[i].size());
      });
    }
    return maps;
  }

  /// Writes pair `index` into the batch, by the steps of run/pair_files.cpp.
  void fill(app::Batch& batch, std::size_t index, const cv::Mat& picture, const cv::Mat& numbers,
            const std::optional<app::LevelMap>& map, const std::string& label) const {
    const cv::Mat rgb = to_rgb8(picture, settings.channels);
    const app::RawDepth raw = to_raw_depth(numbers, settings.channels, label);
    const app::DepthPolicy policy{options.depth_range, options.depth_invert, options.depth_hole};
    const app::DepthResult depth = app::depth_for_rgb(raw, policy, label, rgb.size(), {});
    const app::Network& target = network->network();
    const auto allocate = [&](std::size_t count) { return target.allocate(count); };
    app::store_input(rgb, depth.depth8, map,
                     batch.input(static_cast<int>(index), options.size.height, options.size.width,
                                 target.takes_pictures(), allocate));
    batch.slots[index].loaded = true;
    if (!settings.on_warning) return;
    for (const std::string& warning : depth.warnings) settings.on_warning(warning);
  }

  std::vector<app::RobustMap> run(const app::BatchView& batch) {
    const std::lock_guard lock(mutex);
    return network->forward(batch);
  }

  const PredictorSettings settings;
  app::Options options;
  std::ostream nowhere{nullptr};
  app::Console console{nowhere, false, true};
  std::unique_ptr<app::NetworkProvider> provider = app::make_torch_provider();
  std::mutex mutex;  ///< of the network
  std::unique_ptr<app::RobustNetwork> network;
};

Predictor::Predictor(const PredictorSettings& settings)
    : impl_(with_public_errors("", [&] { return std::make_unique<Impl>(settings); })) {}
Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor& Predictor::operator=(Predictor&&) noexcept = default;

std::vector<cv::Mat> Predictor::operator()(const std::vector<cv::Mat>& rgb,
                                           const std::vector<cv::Mat>& depth,
                                           const MapFormat& format) const {
  return with_public_errors("", [&] { return impl_->predict(rgb, depth, format); });
}

std::vector<cv::Mat> Predictor::operator()(const std::vector<cv::Mat>& rgb,
                                           const std::vector<cv::Mat>& depth) const {
  return (*this)(rgb, depth, impl_->settings.map);
}

cv::Mat Predictor::operator()(const cv::Mat& rgb, const cv::Mat& depth,
                              const MapFormat& format) const {
  return (*this)(std::vector<cv::Mat>{rgb}, std::vector<cv::Mat>{depth}, format).front();
}

cv::Mat Predictor::operator()(const cv::Mat& rgb, const cv::Mat& depth) const {
  return (*this)(rgb, depth, impl_->settings.map);
}

std::string Predictor::device() const {
  return impl_->info().device;
}
std::string Predictor::precision() const {
  return impl_->info().precision;
}
std::string Predictor::variant() const {
  return impl_->info().variant;
}
std::filesystem::path Predictor::weights() const {
  return impl_->options.weights;
}

}  // namespace hdfnet
