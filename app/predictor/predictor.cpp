#include "hdfnet/predictor.h"

#include <mutex>
#include <ostream>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "data_files.h"
#include "errors.h"
#include "frame.h"
#include "hdfnet/version.h"
#include "image/network_input.h"
#include "image/pil.h"
#include "run/console.h"
#include "run/robust_network.h"
#include "run/usable_cores.h"
#include "settings.h"
#include "torch_network.h"

namespace hdfnet {
namespace {

/// Input of a batch in memory that the device reads fast.
struct Batch {
  Batch(const app::Network& network, std::size_t count, const app::InputSize& size)
      : plane(static_cast<std::size_t>(size.height) * size.width),
        rgb(network.allocate(3 * plane * count)),
        depth(network.allocate(plane * count)),
        view{rgb.get(), depth.get(), static_cast<int>(count), size.height, size.width} {}

  std::size_t plane;
  std::shared_ptr<float[]> rgb, depth;
  app::BatchView view;
};

/// The form asked for, checked before any work is done.
struct Form {
  explicit Form(const MapFormat& format)
      : style(to_style(format)), floats(format.type == MapType::float32), size(format.size) {}

  cv::Mat apply(std::span<const float> values, int height, int width, cv::Size rgb) const {
    // cv::Mat has no read-only form; the map is only read.
    const cv::Mat map(height, width, CV_32FC1, const_cast<float*>(values.data()));
    const cv::Size to = size.empty() ? rgb : size;
    return floats ? app::saliency_values(map, to, style.upsample)
                  : app::saliency_image(map, to, style);
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
    const Batch batch(network->network(), rgb.size(), options.size);
    for (std::size_t i = 0; i < rgb.size(); ++i) {
      const std::string where = place(i, rgb.size());
      with_public_errors(where, [&] { fill(batch, i, rgb[i], depth[i], where + "depth"); });
    }
    const std::vector<app::RobustMap> result = run(batch.view);
    std::vector<cv::Mat> maps(rgb.size());
    for (std::size_t i = 0; i < rgb.size(); ++i) {
      with_public_errors(place(i, rgb.size()), [&] {
        const app::RobustMap& map = result[i];
        if (!map.finite) throw std::runtime_error(map.not_finite());
        maps[i] = form.apply(map.values(), map.maps.height, map.maps.width, rgb[i].size());
      });
    }
    return maps;
  }

  /// Writes pair `index` into the batch, by the steps of run/pair_files.cpp.
  void fill(const Batch& batch, std::size_t index, const cv::Mat& picture, const cv::Mat& numbers,
            const std::string& label) const {
    const cv::Mat rgb = to_rgb8(picture, settings.channels);
    const app::RawDepth raw = to_raw_depth(numbers, settings.channels, label);
    const app::DepthPolicy policy{options.depth_range, options.depth_invert, options.depth_hole};
    const app::DepthResult depth = app::depth_for_rgb(raw, policy, label, rgb.size(), {});
    const cv::Size size(options.size.width, options.size.height);
    app::rgb_to_planes(app::pil_resize_bilinear(rgb, size),
                       batch.rgb.get() + 3 * batch.plane * index);
    app::depth_to_plane(app::pil_resize_bilinear(depth.depth8, size),
                        batch.depth.get() + batch.plane * index);
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
