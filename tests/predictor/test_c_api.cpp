#include <gtest/gtest.h>

#include <cstring>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <string>
#include <thread>
#include <vector>

#include "hdfnet/hdfnet.h"
#include "hdfnet/predictor.h"

namespace {

const std::string examples = TEST_EXAMPLES;

hdfnet_image image(const cv::Mat& mat, hdfnet_pixels pixels) {
  return {mat.data, mat.cols, mat.rows, mat.step, pixels};
}

bool message_has(const std::string& text) {
  const std::string message = hdfnet_last_error();
  EXPECT_NE(message.find(text), std::string::npos) << message;
  return message.find(text) != std::string::npos;
}

/// A predictor of small input, and the teapot.
class CApi : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    hdfnet_settings* settings = hdfnet_settings_create();
    ASSERT_EQ(hdfnet_settings_set(settings, "device", "cpu"), HDFNET_OK);
    ASSERT_EQ(hdfnet_settings_set(settings, "size", "64"), HDFNET_OK);
    ASSERT_EQ(hdfnet_settings_set(settings, "threads", "1"), HDFNET_OK);
    ASSERT_EQ(hdfnet_predictor_create(settings, &predictor), HDFNET_OK) << hdfnet_last_error();
    hdfnet_settings_destroy(settings);
  }
  static void TearDownTestSuite() { hdfnet_predictor_destroy(predictor); }

  CApi() { cv::cvtColor(bgr, rgb, cv::COLOR_BGR2RGB); }

  hdfnet_status predict(const cv::Mat& picture, hdfnet_pixels pixels, const cv::Mat& numbers,
                        hdfnet_pixels depth_pixels, hdfnet_image& map) const {
    const hdfnet_image first = image(picture, pixels), second = image(numbers, depth_pixels);
    return hdfnet_predict(predictor, &first, &second, &map);
  }

  static inline hdfnet_predictor* predictor = nullptr;
  const cv::Mat bgr = cv::imread(examples + "/rgb/teapot.jpg");
  const cv::Mat depth = cv::imread(examples + "/depth/teapot.png", cv::IMREAD_UNCHANGED);
  const cv::Mat millimetres = cv::imread(examples + "/depth_mm/teapot.png", cv::IMREAD_UNCHANGED);
  cv::Mat rgb;
};

TEST_F(CApi, GivesThePredictorsMap) {
  hdfnet::PredictorSettings settings;
  settings.device = "cpu";
  settings.size = {64, 64};
  settings.threads = 1;
  const hdfnet::Predictor cpp(settings);
  cv::Mat map(bgr.size(), CV_8UC1), swapped(bgr.size(), CV_8UC1), floats(50, 70, CV_32FC1);
  hdfnet_image to = image(map, HDFNET_GREY8);
  ASSERT_EQ(predict(rgb, HDFNET_RGB8, depth, HDFNET_GREY8, to), HDFNET_OK) << hdfnet_last_error();
  EXPECT_EQ(cv::norm(map, cpp(bgr, depth), cv::NORM_INF), 0);
  to = image(swapped, HDFNET_GREY8);
  ASSERT_EQ(predict(bgr, HDFNET_BGR8, depth, HDFNET_GREY8, to), HDFNET_OK);
  EXPECT_EQ(cv::norm(map, swapped, cv::NORM_INF), 0);

  cv::Mat metres;
  millimetres.convertTo(metres, CV_32F);
  to = image(floats, HDFNET_FLOAT32);
  ASSERT_EQ(predict(rgb, HDFNET_RGB8, metres, HDFNET_FLOAT32, to), HDFNET_OK);
  const hdfnet::MapFormat format{hdfnet::MapType::float32, {70, 50}, hdfnet::Upsampling::bilinear};
  EXPECT_EQ(cv::norm(floats, cpp(bgr, millimetres, format), cv::NORM_INF), 0);
}

TEST_F(CApi, StridesAreKeptTo) {
  cv::Mat packed(bgr.size(), CV_8UC1);
  hdfnet_image to = image(packed, HDFNET_GREY8);
  to.stride = 0;
  ASSERT_EQ(predict(rgb, HDFNET_RGB8, millimetres, HDFNET_GREY16, to), HDFNET_OK);

  cv::Mat large(600, 800, CV_8UC1, cv::Scalar(7));
  const cv::Mat part = large(cv::Rect(10, 20, bgr.cols, bgr.rows));
  to = image(part, HDFNET_GREY8);
  ASSERT_EQ(predict(rgb, HDFNET_RGB8, millimetres, HDFNET_GREY16, to), HDFNET_OK);
  EXPECT_EQ(cv::norm(part, packed, cv::NORM_INF), 0);
  cv::Mat rest = large.clone();
  rest(cv::Rect(10, 20, bgr.cols, bgr.rows)).setTo(7);
  EXPECT_EQ(cv::norm(rest, cv::Mat(rest.size(), CV_8UC1, cv::Scalar(7)), cv::NORM_INF), 0);
}

TEST_F(CApi, WhatCannotBeIsRefusedAndTheMapLeftAlone) {
  cv::Mat map(bgr.size(), CV_8UC1, cv::Scalar(9));
  hdfnet_image to = image(map, HDFNET_GREY8);
  const hdfnet_image colours = image(rgb, HDFNET_RGB8), numbers = image(depth, HDFNET_GREY8);
  EXPECT_EQ(hdfnet_predict(nullptr, &colours, &numbers, &to), HDFNET_INVALID_ARGUMENT);
  EXPECT_TRUE(message_has("predictor: found a null pointer"));
  EXPECT_EQ(hdfnet_predict(predictor, nullptr, &numbers, &to), HDFNET_INVALID_ARGUMENT);
  EXPECT_TRUE(message_has("rgb: found a null pointer"));
  EXPECT_EQ(hdfnet_predict(predictor, &colours, &numbers, nullptr), HDFNET_INVALID_ARGUMENT);

  hdfnet_image wrong = colours;
  wrong.width = 0;
  EXPECT_EQ(hdfnet_predict(predictor, &wrong, &numbers, &to), HDFNET_INVALID_ARGUMENT);
  EXPECT_TRUE(message_has("rgb: found a size of 0 x 480"));
  wrong = colours;
  wrong.stride = 100;
  EXPECT_EQ(hdfnet_predict(predictor, &wrong, &numbers, &to), HDFNET_INVALID_ARGUMENT);
  EXPECT_TRUE(message_has("a stride of 100 bytes; at least 1920"));
  for (const std::size_t stride : {std::size_t{1} << 60, static_cast<std::size_t>(-1920)}) {
    wrong.stride = stride;
    EXPECT_EQ(hdfnet_predict(predictor, &wrong, &numbers, &to), HDFNET_INVALID_ARGUMENT);
    EXPECT_TRUE(message_has("do not fit into memory"));
  }
  wrong = colours;
  wrong.pixels = 77;
  EXPECT_EQ(hdfnet_predict(predictor, &wrong, &numbers, &to), HDFNET_INVALID_ARGUMENT);
  EXPECT_TRUE(message_has("found pixels 77"));
  EXPECT_EQ(hdfnet_predict(predictor, &colours, &colours, &to), HDFNET_INVALID_ARGUMENT);
  EXPECT_TRUE(message_has("depth: expected pixels of HDFNET_GREY8"));
  EXPECT_EQ(hdfnet_predict(predictor, &colours, &numbers, &colours), HDFNET_INVALID_ARGUMENT);
  EXPECT_EQ(cv::norm(map, cv::Mat(map.size(), CV_8UC1, cv::Scalar(9)), cv::NORM_INF), 0);
}

TEST_F(CApi, StatusAndMessageOfWhatCannotBeLoaded) {
  hdfnet_settings* settings = hdfnet_settings_create();
  EXPECT_EQ(hdfnet_settings_set(settings, "presicion", "fp32"), HDFNET_INVALID_ARGUMENT);
  EXPECT_TRUE(message_has("did you mean 'precision'"));
  EXPECT_EQ(hdfnet_settings_set(nullptr, "size", "64"), HDFNET_INVALID_ARGUMENT);
  EXPECT_EQ(hdfnet_settings_set(settings, "weights", "/nowhere.pt"), HDFNET_OK);
  auto* none = reinterpret_cast<hdfnet_predictor*>(settings);
  EXPECT_EQ(hdfnet_predictor_create(settings, &none), HDFNET_WEIGHTS);
  EXPECT_TRUE(message_has("/nowhere.pt"));
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(hdfnet_predictor_create(settings, nullptr), HDFNET_INVALID_ARGUMENT);
  hdfnet_settings_destroy(settings);
  hdfnet_settings_destroy(nullptr);
  hdfnet_predictor_destroy(nullptr);
}

TEST_F(CApi, MessagesAreEachThreadsOwn) {
  EXPECT_EQ(hdfnet_predict(nullptr, nullptr, nullptr, nullptr), HDFNET_INVALID_ARGUMENT);
  const std::string here = hdfnet_last_error();
  std::string at_first, there;
  std::thread([&] {
    at_first = hdfnet_last_error();
    EXPECT_EQ(hdfnet_settings_set(nullptr, "size", "64"), HDFNET_INVALID_ARGUMENT);
    there = hdfnet_last_error();
  }).join();
  EXPECT_EQ(at_first, "");
  EXPECT_NE(there, here);
  EXPECT_EQ(hdfnet_last_error(), here);
}

TEST_F(CApi, VersionIsTheLibrarys) {
  EXPECT_EQ(hdfnet_version(), hdfnet::library_version());
}

}  // namespace
