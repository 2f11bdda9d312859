// The metrics equal PySODMetrics' to 1e-6; the values are in reference.json.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <opencv2/core.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "eval/metrics.h"
#include "eval/summary.h"
#include "image/read.h"
#include "reference_cases.h"

namespace hdfnet::eval {
namespace {

namespace fs = std::filesystem;

TEST(Metrics, EqualTheReferenceOnMadeImages) {
  for (const auto& entry : test::reference()["cases"]) {
    SCOPED_TRACE(entry["name"].get<std::string>());
    const test::Images images = test::make_images(entry);
    test::expect_equal(summarise(score(images.prediction, images.truth)), entry);
  }
}

TEST(Metrics, MeansOverADataSetEqualTheReference) {
  std::vector<Scores> scores;
  for (const auto& entry : test::reference()["cases"]) {
    const test::Images images = test::make_images(entry);
    scores.push_back(score(images.prediction, images.truth));
  }
  test::expect_equal(summarise(scores), test::reference()["all_cases"]);
}

TEST(Metrics, EqualTheReferenceOnRealImages) {
  const char* given = std::getenv("HDFNET_SHARED");
  const fs::path shared =
      given != nullptr ? fs::path(given) : fs::path(HDFNET_TEST_ROOT "/../shared");
  const auto& pairs = test::reference()["real"];
  if (!fs::exists(shared / pairs[0]["truth"].get<std::string>())) {
    GTEST_SKIP() << "the pictures are not in " << shared << "; set HDFNET_SHARED";
  }
  const auto read = [&](const nlohmann::json& name) {
    return app::read_depth_raw(shared / name.get<std::string>()).values;
  };
  for (const auto& entry : pairs) {
    SCOPED_TRACE(entry["prediction"].get<std::string>());
    test::expect_equal(summarise(score(read(entry["prediction"]), read(entry["truth"]))), entry);
  }
}

TEST(Metrics, SixteenBitsAreTheSameMapWithFinerSteps) {
  const test::Images images = test::make_images(test::reference()["cases"][0]);
  cv::Mat prediction16, truth16;
  images.prediction.convertTo(prediction16, CV_16U, 257);
  images.truth.convertTo(truth16, CV_16U, 257);
  const Summary a = summarise(score(images.prediction, images.truth));
  const Summary b = summarise(score(prediction16, truth16));
  EXPECT_NEAR(a.mae, b.mae, 1e-12);
  EXPECT_NEAR(a.structure, b.structure, 1e-12);
  EXPECT_NEAR(a.weighted_f, b.weighted_f, 1e-12);
}

TEST(Metrics, ObjectInTheLastRowAndColumnGivesANumber) {
  cv::Mat truth = cv::Mat::zeros(12, 9, CV_8U), prediction = cv::Mat::zeros(12, 9, CV_8U);
  truth.at<unsigned char>(11, 8) = 255;
  prediction.at<unsigned char>(11, 8) = 255;
  const Scores scores = score(prediction, truth);
  EXPECT_NEAR(scores.structure, 1, 1e-9);
}

TEST(Metrics, PartsOfLargerImagesAreTaken) {
  const test::Images images = test::make_images(test::reference()["cases"][0]);
  const cv::Rect part(10, 5, 60, 50);
  const Scores whole = score(images.prediction(part).clone(), images.truth(part).clone());
  const Scores view = score(images.prediction(part), images.truth(part));
  EXPECT_EQ(whole.mae, view.mae);
  EXPECT_EQ(whole.structure, view.structure);
  EXPECT_EQ(whole.weighted_f, view.weighted_f);
}

TEST(Metrics, RefusesOtherSizesAndTypes) {
  const cv::Mat small = cv::Mat::zeros(4, 5, CV_8U), large = cv::Mat::zeros(5, 4, CV_8U);
  try {
    score(small, large);
    FAIL() << "sizes differ";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "the saliency map is 5x4, but the true mask is 4x5");
  }
  EXPECT_THROW(score(cv::Mat::zeros(4, 5, CV_32F), small), std::invalid_argument);
  EXPECT_THROW(score(cv::Mat::zeros(4, 5, CV_8UC3), small), std::invalid_argument);
  EXPECT_THROW(score(cv::Mat(0, 0, CV_8U), cv::Mat(0, 0, CV_8U)), std::invalid_argument);
}

}  // namespace
}  // namespace hdfnet::eval
