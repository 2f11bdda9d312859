#include <gtest/gtest.h>

#include <limits>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "image/pil.h"
#include "image/saliency_output.h"
#include "support.h"

namespace hdfnet::app::test {
namespace {

const cv::Mat kFour = (cv::Mat_<float>(1, 4) << 0.0F, 0.499F, 0.5F, 1.0F);

cv::Mat image(int bits, Rounding rounding) {
  return saliency_image(kFour, kFour.size(), {bits, rounding, Upsample::bilinear});
}

TEST(SaliencyOutput, RoundingTruncatesOrRounds) {
  EXPECT_EQ(largest_difference(image(8, Rounding::truncate),
                               (cv::Mat_<unsigned char>(1, 4) << 0, 127, 127, 255)),
            0);
  EXPECT_EQ(largest_difference(image(8, Rounding::nearest),
                               (cv::Mat_<unsigned char>(1, 4) << 0, 127, 128, 255)),
            0);
  EXPECT_EQ(largest_difference(image(16, Rounding::nearest),
                               (cv::Mat_<std::uint16_t>(1, 4) << 0, 32702, 32768, 65535)),
            0);
}

TEST(SaliencyOutput, SlightlyOutOfRangeIsClamped) {
  const cv::Mat map = (cv::Mat_<float>(1, 2) << -1e-6F, 1.000001F);
  const cv::Mat saliency = saliency_image(map, map.size(), {});
  EXPECT_EQ(saliency.at<unsigned char>(0, 0), 0);
  EXPECT_EQ(saliency.at<unsigned char>(0, 1), 255);
}

TEST(SaliencyOutput, NearestQuantisesFirstAsTheReferenceDoes) {
  cv::Mat map(320, 320, CV_32FC1);
  cv::randu(map, 0, 1);
  cv::Mat levels(map.size(), CV_8UC1);
  for (int y = 0; y < map.rows; ++y) {
    for (int x = 0; x < map.cols; ++x) {
      levels.at<unsigned char>(y, x) = static_cast<unsigned char>(map.at<float>(y, x) * 255.0F);
    }
  }
  const MapStyle reference{8, Rounding::truncate, Upsample::nearest};
  const cv::Mat saliency = saliency_image(map, {641, 479}, reference);
  EXPECT_EQ(largest_difference(saliency, pil_resize_nearest(levels, {641, 479})), 0);
}

TEST(SaliencyOutput, BilinearInterpolatesBeforeQuantising) {
  const cv::Mat map = (cv::Mat_<float>(1, 2) << 0.0F, 1.0F);
  // Half-pixel centres: 0, 0.25, 0.75, 1.
  const cv::Mat saliency = saliency_image(map, {4, 1}, {});
  EXPECT_EQ(largest_difference(saliency, (cv::Mat_<unsigned char>(1, 4) << 0, 64, 191, 255)), 0);
}

TEST(SaliencyOutput, NanAndInfinityAreErrors) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    cv::Mat map(3, 3, CV_32FC1, cv::Scalar(0.5));
    map.at<float>(2, 1) = bad;
    EXPECT_THROW(saliency_image(map, {9, 9}, {}), OutputError);
  }
}

TEST(SaliencyOutput, WrongArgumentsAreErrors) {
  EXPECT_THROW(saliency_image(cv::Mat(3, 3, CV_8UC1), {9, 9}, {}), std::invalid_argument);
  EXPECT_THROW(saliency_image(kFour, {4, 1}, {12, Rounding::nearest, Upsample::bilinear}),
               std::invalid_argument);
}

TEST(SaliencyOutput, MaskKeepsWhatIsAtLeastTheThreshold) {
  const cv::Mat saliency = (cv::Mat_<unsigned char>(1, 4) << 0, 127, 128, 255);
  EXPECT_EQ(largest_difference(binary_mask(saliency, parse_threshold("0.5")),
                               (cv::Mat_<unsigned char>(1, 4) << 0, 0, 255, 255)),
            0);
  EXPECT_EQ(cv::countNonZero(binary_mask(saliency, parse_threshold("0"))), 4);
  EXPECT_EQ(cv::countNonZero(binary_mask(saliency, parse_threshold("1"))), 1);
  const cv::Mat saliency16 = (cv::Mat_<std::uint16_t>(1, 2) << 32767, 32768);
  EXPECT_EQ(cv::countNonZero(binary_mask(saliency16, parse_threshold("0.5"))), 1);
}

TEST(SaliencyOutput, OtsuParts) {
  cv::Mat saliency(10, 10, CV_8UC1, cv::Scalar(20));
  saliency(cv::Rect(0, 0, 5, 4)).setTo(90);  // well below 0.5
  EXPECT_EQ(cv::countNonZero(binary_mask(saliency, parse_threshold("otsu"))), 20);
  cv::Mat saliency16;
  saliency.convertTo(saliency16, CV_16U, 257);
  EXPECT_EQ(cv::countNonZero(binary_mask(saliency16, parse_threshold("otsu"))), 20);
  EXPECT_EQ(cv::countNonZero(binary_mask(cv::Mat(4, 4, CV_8UC1, cv::Scalar(10)), {true, 0})), 0);
  EXPECT_EQ(cv::countNonZero(binary_mask(cv::Mat(4, 4, CV_8UC1, cv::Scalar(200)), {true, 0})), 16);
}

TEST(SaliencyOutput, ThresholdIsParsed) {
  EXPECT_TRUE(parse_threshold("otsu").otsu);
  EXPECT_EQ(parse_threshold("0.25").value, 0.25);
  for (const char* text : {"", "Otsu", "1.01", "-0.1", "50%", "nan"}) {
    EXPECT_THROW(parse_threshold(text), std::invalid_argument) << text;
  }
}

TEST(SaliencyOutput, PngRoundTripsEveryKind) {
  cv::Mat grey(7, 9, CV_8UC1), grey16(7, 9, CV_16UC1), rgb(7, 9, CV_8UC3), rgba(7, 9, CV_8UC4);
  for (cv::Mat* picture : {&grey, &grey16, &rgb, &rgba}) {
    cv::randu(*picture, 0, picture->depth() == CV_16U ? 65536 : 256);
    const std::vector<std::byte> png = encode_png(*picture);
    const cv::Mat bytes(1, static_cast<int>(png.size()), CV_8UC1,
                        const_cast<std::byte*>(png.data()));
    cv::Mat decoded = cv::imdecode(bytes, cv::IMREAD_UNCHANGED);
    if (decoded.channels() == 3) cv::cvtColor(decoded, decoded, cv::COLOR_BGR2RGB);
    if (decoded.channels() == 4) cv::cvtColor(decoded, decoded, cv::COLOR_BGRA2RGBA);
    ASSERT_EQ(decoded.type(), picture->type());
    EXPECT_EQ(largest_difference(decoded, *picture), 0) << picture->channels();
  }
}

TEST(SaliencyOutput, GreyPngOfEverySizeHoldsItsPixels) {
  cv::Mat large(70, 90, CV_8UC1);
  cv::randu(large, 0, 256);
  for (const cv::Rect part : {cv::Rect(0, 0, 1, 1), cv::Rect(3, 5, 1, 60), cv::Rect(5, 3, 80, 1),
                              cv::Rect(10, 20, 33, 17), cv::Rect(0, 0, 90, 70)}) {
    const cv::Mat grey = large(part);
    const std::vector<std::byte> png = encode_png(grey);
    const cv::Mat bytes(1, static_cast<int>(png.size()), CV_8UC1,
                        const_cast<std::byte*>(png.data()));
    const cv::Mat decoded = cv::imdecode(bytes, cv::IMREAD_UNCHANGED);
    ASSERT_EQ(decoded.type(), CV_8UC1);
    EXPECT_EQ(largest_difference(decoded, grey), 0) << part;
  }
}

TEST(SaliencyOutput, PngOfAMapIsNotMuchLargerThanWithEveryFilterTried) {
  cv::Mat coarse(12, 16, CV_8UC1), map;
  cv::randu(coarse, 0, 256);
  cv::resize(coarse, map, {640, 480}, 0, 0, cv::INTER_CUBIC);
  std::vector<unsigned char> all;
  cv::imencode(
      ".png", map, all,
      {cv::IMWRITE_PNG_COMPRESSION, 3, cv::IMWRITE_PNG_STRATEGY, cv::IMWRITE_PNG_STRATEGY_RLE});
  EXPECT_LT(static_cast<double>(encode_png(map).size()), 1.2 * static_cast<double>(all.size()));
}

TEST(SaliencyOutput, PngIsTheSameEveryTime) {
  cv::Mat grey(70, 90, CV_8UC1);
  cv::randu(grey, 0, 256);
  EXPECT_EQ(encode_png(grey), encode_png(grey.clone()));
}

TEST(Visualise, CutoutCarriesTheSaliencyAsAlpha) {
  const cv::Mat rgb(2, 2, CV_8UC3, cv::Scalar(10, 20, 30));
  const cv::Mat saliency(2, 2, CV_16UC1, cv::Scalar(128 * 257));
  EXPECT_EQ(cutout(rgb, saliency).at<cv::Vec4b>(1, 1), cv::Vec4b(10, 20, 30, 128));
}

TEST(Visualise, OverlayTintsAndDims) {
  const cv::Mat rgb(1, 2, CV_8UC3, cv::Scalar(100, 100, 100));
  const cv::Mat saliency = (cv::Mat_<unsigned char>(1, 2) << 0, 255);
  const cv::Mat shown = overlay(rgb, saliency);
  EXPECT_EQ(shown.at<cv::Vec3b>(0, 0), cv::Vec3b(50, 50, 50));
  EXPECT_GT(shown.at<cv::Vec3b>(0, 1)[0], 150);
  EXPECT_LT(shown.at<cv::Vec3b>(0, 1)[1], 100);
}

TEST(Visualise, HeatMapRunsFromDarkBlueToYellow) {
  const cv::Mat saliency = (cv::Mat_<unsigned char>(1, 2) << 0, 255);
  const cv::Mat colours = heat_map(saliency);
  const auto& low = colours.at<cv::Vec3b>(0, 0);
  const auto& high = colours.at<cv::Vec3b>(0, 1);
  EXPECT_LT(low[1], 20);
  EXPECT_GT(low[2], low[1]);
  EXPECT_GT(high[0], 200);
  EXPECT_GT(high[1], 200);
  EXPECT_LT(high[2], 80);
}

TEST(Visualise, SizesMustAgree) {
  const cv::Mat rgb(2, 2, CV_8UC3), saliency(2, 3, CV_8UC1);
  EXPECT_THROW(overlay(rgb, saliency), std::invalid_argument);
  EXPECT_THROW(cutout(rgb, saliency), std::invalid_argument);
  EXPECT_THROW(heat_map(rgb), std::invalid_argument);
}

}  // namespace
}  // namespace hdfnet::app::test
