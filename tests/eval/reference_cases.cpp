#include "reference_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

namespace hdfnet::eval::test {
namespace {

constexpr double kTolerance = 1e-6;

/// Bytes of a linear congruential generator.
class Random {
 public:
  explicit Random(std::uint32_t seed) : state_(seed) {}
  int byte() {
    state_ = state_ * 1664525U + 1013904223U;
    return static_cast<int>(state_ >> 24);
  }

 private:
  std::uint32_t state_;
};

int truth_at(const std::string& kind, int x, int y, cv::Size size, int noise) {
  const int width = size.width, height = size.height, small = std::min(width, height);
  if (kind == "disc") {
    const int dx = 2 * x - width + 1, dy = 2 * y - height + 1;
    return dx * dx + dy * dy <= small * small * 4 / 9 ? 255 : 0;
  }
  if (kind == "blobs") {
    const int dx = x - width / 4, dy = y - height / 3;
    const bool disc = dx * dx + dy * dy <= small * small / 36;
    const bool box =
        width * 3 / 5 <= x && x < width * 9 / 10 && height / 2 <= y && y < height * 4 / 5;
    return disc || box ? 255 : 0;
  }
  if (kind == "border") return x < width / 3 || y >= height - height / 5 ? 255 : 0;
  if (kind == "dots") return noise < 16 ? 255 : 0;
  if (kind == "soft") return noise;
  if (kind == "empty") return 0;
  if (kind == "full") return 255;
  if (kind == "single") return x == width / 2 && y == height / 3 ? 255 : 0;
  throw std::invalid_argument("unknown mask '" + kind + "'");
}

int prediction_at(const std::string& kind, int x, int y, cv::Size size, int truth, int noise) {
  if (kind == "ramp") {
    const int distance = std::abs(x - size.width / 2 + 3) + std::abs(y - size.height / 2 - 2);
    return std::clamp(255 - 3 * distance + (noise >> 4) - 8, 0, 255);
  }
  if (kind == "noise") return noise;
  if (kind == "mixture") return truth > 128 ? 200 + (noise >> 3) : noise >> 2;
  if (kind == "range") return 60 + (noise >> 2);
  if (kind == "perfect") return truth;
  if (kind == "inverse") return 255 - truth;
  if (kind == "black") return 0;
  if (kind == "white") return 255;
  if (kind == "grey") return 128;
  if (kind == "patch") return x < size.width / 2 ? 90 : noise;
  throw std::invalid_argument("unknown map '" + kind + "'");
}

void expect_curve(const Curve& curve, const nlohmann::json& expected, const std::string& name) {
  const nlohmann::json& samples = reference()["curve_samples"];
  for (std::size_t i = 0; i < samples.size(); ++i) {
    EXPECT_NEAR(curve[samples[i].get<std::size_t>()], expected[i].get<double>(), kTolerance)
        << name << " at index " << samples[i];
  }
}

}  // namespace

Images make_images(const nlohmann::json& entry) {
  const cv::Size size(entry["width"], entry["height"]);
  const std::string truth_kind = entry["truth"], prediction_kind = entry["prediction"];
  Random random(entry["seed"]);
  Images images{cv::Mat(size, CV_8UC1), cv::Mat(size, CV_8UC1)};
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      images.truth.at<unsigned char>(y, x) =
          static_cast<unsigned char>(truth_at(truth_kind, x, y, size, random.byte()));
    }
  }
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      images.prediction.at<unsigned char>(y, x) = static_cast<unsigned char>(prediction_at(
          prediction_kind, x, y, size, images.truth.at<unsigned char>(y, x), random.byte()));
    }
  }
  return images;
}

const nlohmann::json& reference() {
  static const nlohmann::json document = [] {
    std::ifstream file(HDFNET_TEST_EVAL_DIR "/reference.json");
    return nlohmann::json::parse(file);
  }();
  return document;
}

void expect_equal(const Summary& summary, const nlohmann::json& expected) {
  const auto near = [&](double value, const char* key) {
    EXPECT_NEAR(value, expected[key].get<double>(), kTolerance) << key;
  };
  near(summary.mae, "mae");
  near(summary.max_f, "max_f");
  near(summary.mean_f, "mean_f");
  near(summary.adaptive_f, "adaptive_f");
  near(summary.weighted_f, "weighted_f");
  near(summary.structure, "s_measure");
  near(summary.max_e, "max_e");
  near(summary.mean_e, "mean_e");
  near(summary.adaptive_e, "adaptive_e");
  const nlohmann::json& curves = expected["curves"];
  expect_curve(summary.precision, curves["precision"], "precision");
  expect_curve(summary.recall, curves["recall"], "recall");
  expect_curve(summary.f_measure, curves["f_measure"], "F");
  expect_curve(summary.e_measure, curves["e_measure"], "E");
}

}  // namespace hdfnet::eval::test
