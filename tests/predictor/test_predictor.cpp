#include <gtest/gtest.h>

#include <cstdlib>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <thread>
#include <utility>

#include "hdfnet/predictor.h"
#include "temporary_folder.h"

namespace hdfnet {
namespace {

namespace fs = std::filesystem;

const fs::path examples = TEST_EXAMPLES;

PredictorSettings small() {
  PredictorSettings settings;
  settings.device = "cpu";
  settings.size = {64, 64};
  settings.threads = 1;  // the machine may be loaded
  return settings;
}

/// One for all tests that need no other settings.
const Predictor& predictor() {
  static const Predictor shared(small());
  return shared;
}

cv::Mat example_rgb(const std::string& name = "teapot") {
  return cv::imread((examples / "rgb" / (name + ".jpg")).string());
}
cv::Mat example_depth(const std::string& name = "teapot", const std::string& folder = "depth") {
  return cv::imread((examples / folder / (name + ".png")).string(), cv::IMREAD_UNCHANGED);
}

bool equal(const cv::Mat& a, const cv::Mat& b) {
  return a.size() == b.size() && a.type() == b.type() && cv::norm(a, b, cv::NORM_INF) == 0;
}

std::vector<cv::Mat> pair_of(const cv::Mat& image) {
  return {image, image};
}

/// What hdfnet-infer writes for the pair.
cv::Mat infer(const fs::path& rgb, const fs::path& depth, const std::string& options) {
  const app::test::TemporaryFolder folder;
  const fs::path map = folder / "map.png";
  const std::string command = std::string(TEST_INFER) + " --device cpu --quiet --rgb " +
                              rgb.string() + " --depth " + depth.string() + " --out " +
                              map.string() + " " + options + " > /dev/null";
  // NOLINTNEXTLINE(bugprone-command-processor,cert-env33-c)
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  return cv::imread(map.string(), cv::IMREAD_UNCHANGED);
}

/// The code of the Error that `work` throws; the message must have `text`.
template <class Work>
ErrorCode code_of(Work work, const std::string& text) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::failed;
}

TEST(Predictor, EqualsTheProgramToTheBit) {
  PredictorSettings settings;
  settings.device = "cpu";
  settings.threads = 1;
  const cv::Mat map = Predictor(settings)(example_rgb(), example_depth());
  ASSERT_EQ(map.type(), CV_8UC1);
  EXPECT_EQ(map.size(), cv::Size(640, 480));
  EXPECT_TRUE(
      equal(map, infer(examples / "rgb/teapot.jpg", examples / "depth/teapot.png", "--threads 1")));
}

TEST(Predictor, EqualsTheProgramWithOtherSettings) {
  PredictorSettings settings = small();
  settings.size = {96, 64};
  settings.precision = Precision::fp32;
  settings.depth_range = "500:4000";
  settings.depth_hole = "none";
  settings.depth_invert = true;
  settings.map.upsample = Upsampling::nearest;
  settings.map.type = MapType::grey16;
  const cv::Mat map = Predictor(settings)(example_rgb("duck"), example_depth("duck", "depth_mm"));
  ASSERT_EQ(map.type(), CV_16UC1);
  EXPECT_TRUE(equal(map, infer(examples / "rgb/duck.jpg", examples / "depth_mm/duck.png",
                               "--size 96x64 --precision fp32 --threads 1 --depth-range 500:4000 "
                               "--depth-hole none --depth-invert --upsample nearest --bit-depth "
                               "16")));
}

TEST(Predictor, SettingsBySpellingAreTheSameSettings) {
  PredictorSettings settings;
  settings.set("weights", TEST_WEIGHTS);
  settings.set("device", "cpu");
  settings.set("precision", "bf16");
  settings.set("size", "96x64");
  settings.set("threads", "3");
  settings.set("depth-range", "0.5:6");
  settings.set("depth-invert", "true");
  settings.set("depth-hole", "none");
  settings.set("upsample", "nearest");
  EXPECT_EQ(settings.weights, TEST_WEIGHTS);
  EXPECT_EQ(settings.device, "cpu");
  EXPECT_EQ(settings.precision, Precision::bf16);
  EXPECT_EQ(settings.size, cv::Size(96, 64));
  EXPECT_EQ(settings.threads, 3);
  EXPECT_EQ(settings.depth_range, "0.5:6");
  EXPECT_TRUE(settings.depth_invert);
  EXPECT_EQ(settings.depth_hole, "none");
  EXPECT_EQ(settings.map.upsample, Upsampling::nearest);
  settings.set("threads", "auto");
  EXPECT_EQ(settings.threads, 0);
}

TEST(Predictor, SettingsThatAreNoneAreNamed) {
  PredictorSettings settings;
  EXPECT_EQ(code_of([&] { settings.set("depht-range", "auto"); }, "'depth-range'"),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { settings.set("out", "x"); }, "'out' is no setting"),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { settings.set("precision", "fp8"); }, "precision: 'fp8' is not one of"),
            ErrorCode::invalid_argument);
  settings.device = "all";
  EXPECT_EQ(code_of([&] { const Predictor one(settings); }, "runs on one device"),
            ErrorCode::invalid_argument);
}

TEST(Predictor, ChannelOrders) {
  const cv::Mat bgr = example_rgb();
  const cv::Mat map = predictor()(bgr, example_depth());
  cv::Mat rgb, bgra, wide;
  cv::cvtColor(bgr, rgb, cv::COLOR_BGR2RGB);
  cv::cvtColor(bgr, bgra, cv::COLOR_BGR2BGRA);
  bgr.convertTo(wide, CV_16U, 256);
  PredictorSettings settings = small();
  settings.channels = ChannelOrder::rgb;
  EXPECT_TRUE(equal(Predictor(settings)(rgb, example_depth()), map));
  EXPECT_TRUE(equal(predictor()(bgra, example_depth()), map));
  EXPECT_TRUE(equal(predictor()(wide, example_depth()), map));
  EXPECT_FALSE(equal(predictor()(rgb, example_depth()), map));
}

TEST(Predictor, RowsMayLieApartAndInputsAreLeftAlone) {
  const cv::Mat rgb = example_rgb(), depth = example_depth();
  cv::Mat large(600, 800, CV_8UC3, cv::Scalar(1, 2, 3));
  cv::Mat part = large(cv::Rect(50, 40, rgb.cols, rgb.rows));
  rgb.copyTo(part);
  const cv::Mat before = large.clone(), depth_before = depth.clone();
  EXPECT_TRUE(equal(predictor()(part, depth), predictor()(rgb, depth)));
  EXPECT_TRUE(equal(large, before));
  EXPECT_TRUE(equal(depth, depth_before));
}

TEST(Predictor, DepthOfEveryType) {
  const cv::Mat rgb = example_rgb(), depth = example_depth("teapot", "depth_mm");
  const cv::Mat map = predictor()(rgb, depth);
  for (const int type : {CV_16S, CV_32S, CV_32F, CV_64F}) {
    cv::Mat other;
    depth.convertTo(other, type);
    EXPECT_TRUE(equal(predictor()(rgb, other), map)) << type;
  }
  cv::Mat three;
  cv::cvtColor(depth, three, cv::COLOR_GRAY2BGR);
  EXPECT_TRUE(equal(predictor()(rgb, three), map));
}

TEST(Predictor, FormsOfTheMapAgree) {
  const cv::Mat rgb = example_rgb(), depth = example_depth();
  const cv::Mat grey = predictor()(rgb, depth);
  const cv::Mat floats = predictor()(rgb, depth, {MapType::float32, {}, Upsampling::bilinear});
  ASSERT_EQ(floats.type(), CV_32FC1);
  cv::Mat rounded;
  floats.convertTo(rounded, CV_8U, 255);
  EXPECT_LE(cv::norm(rounded, grey, cv::NORM_INF), 1);
  EXPECT_GT(cv::countNonZero(grey), 0);

  const cv::Mat asked = predictor()(rgb, depth, {MapType::grey8, {100, 30}, Upsampling::nearest});
  EXPECT_EQ(asked.size(), cv::Size(100, 30));
  const cv::Mat own = predictor()(rgb, depth, {MapType::float32, {64, 64}, Upsampling::nearest});
  cv::Mat by_hand;
  cv::resize(own, by_hand, rgb.size(), 0, 0, cv::INTER_LINEAR);
  EXPECT_LE(cv::norm(by_hand, floats, cv::NORM_INF), 1e-6);
}

TEST(Predictor, BatchesMayMixSizes) {
  const std::vector<cv::Mat> rgb = {
      example_rgb("teapot"), example_rgb("duck")(cv::Rect(0, 0, 320, 400)), example_rgb("cactus")};
  const std::vector<cv::Mat> depth = {example_depth("teapot"),
                                      example_depth("duck")(cv::Rect(0, 0, 320, 400)),
                                      example_depth("cactus", "depth_mm")};
  const std::vector<cv::Mat> maps = predictor()(rgb, depth);
  ASSERT_EQ(maps.size(), 3u);
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const cv::Mat alone = predictor()(rgb[i], depth[i]);
    ASSERT_EQ(maps[i].size(), alone.size());
    // The convolutions of another batch size may round in another order.
    EXPECT_LE(cv::norm(maps[i], alone, cv::NORM_INF), 1) << i;
  }
  EXPECT_TRUE(predictor()(std::vector<cv::Mat>{}, std::vector<cv::Mat>{}).empty());
}

TEST(Predictor, InputsThatCannotBeUsedAreNamed) {
  const cv::Mat rgb = example_rgb(), depth = example_depth();
  EXPECT_EQ(code_of([&] { predictor()(cv::Mat(), depth); }, "rgb: expected a CV_8U or CV_16U"),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { predictor()(rgb, cv::Mat()); }, "depth: expected"),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { predictor()(cv::Mat(8, 8, CV_32FC3), depth); }, "found CV_32FC3"),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { predictor()(rgb, cv::Mat(8, 8, CV_8UC4)); }, "found CV_8UC4"),
            ErrorCode::invalid_argument);
  EXPECT_EQ(
      code_of([&] { predictor()(pair_of(rgb), std::vector<cv::Mat>{depth}); }, "found 1 and 2"),
      ErrorCode::invalid_argument);
  EXPECT_EQ(code_of(
                [&] {
                  predictor()(pair_of(rgb), std::vector<cv::Mat>{depth, {}});
                },
                "pair 1: "),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of(
                [&] {
                  predictor()(rgb, depth, {MapType::grey8, {-1, 4}});
                },
                "-1 x 4"),
            ErrorCode::invalid_argument);
  EXPECT_FALSE(predictor()(rgb, depth).empty());  // it still works
}

TEST(Predictor, WhatCannotBeLoadedHasItsCode) {
  PredictorSettings settings = small();
  settings.weights = "/nowhere/weights.pt";
  EXPECT_EQ(code_of([&] { const Predictor none(settings); }, "/nowhere/weights.pt"),
            ErrorCode::weights);
  settings = small();
  settings.device = "cuda:99";
  EXPECT_EQ(code_of([&] { const Predictor none(settings); }, "cuda:99"), ErrorCode::device);
  settings = small();
  settings.precision = Precision::fp16;
  EXPECT_EQ(code_of([&] { const Predictor none(settings); }, "fp16"), ErrorCode::device);
}

TEST(Predictor, DoubtfulDepthIsTold) {
  PredictorSettings settings = small();
  std::vector<std::string> warnings;
  settings.on_warning = [&warnings](const std::string& text) { warnings.push_back(text); };
  const Predictor telling(settings);
  telling(example_rgb(), example_depth());
  EXPECT_TRUE(warnings.empty());
  telling(example_rgb(), cv::Mat(480, 640, CV_16UC1, cv::Scalar(0)));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("'depth' has no valid depth at all"), std::string::npos);
}

TEST(Predictor, SeveralThreadsMayCallIt) {
  const cv::Mat rgb = example_rgb(), depth = example_depth();
  const cv::Mat expected = predictor()(rgb, depth);
  std::vector<int> wrong(4, 1);
  std::vector<std::thread> threads;
  threads.reserve(wrong.size());
  for (int& result : wrong) {
    threads.emplace_back([&] {
      result = 0;
      for (int i = 0; i < 3; ++i) result += equal(predictor()(rgb, depth), expected) ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Predictor, MovesAndTellsWhatItIs) {
  Predictor first(small());
  Predictor second = std::move(first);
  EXPECT_EQ(second.device(), "cpu");
  EXPECT_EQ(second.precision(), "fp32");
  EXPECT_EQ(second.variant(), "VGG16");
  EXPECT_TRUE(fs::equivalent(second.weights(), TEST_WEIGHTS));
  first = std::move(second);
  EXPECT_FALSE(first(example_rgb(), example_depth()).empty());
  EXPECT_FALSE(library_version().empty());
}

}  // namespace
}  // namespace hdfnet
