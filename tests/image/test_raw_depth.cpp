// Stored depth comes out as the numbers in the file.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>

#include "image/exif.h"
#include "image/read.h"
#include "support.h"

namespace hdfnet::app::test {
namespace {

using namespace std::string_literals;

/// A file that OpenCV writes; colours in R,G,B order.
std::vector<std::byte> encoded(const cv::Mat& image, const char* extension) {
  std::vector<unsigned char> bytes;
  cv::imencode(extension, image, bytes);
  return bytes_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

RawDepth decode(const std::vector<std::byte>& bytes) {
  return decode_depth_raw(bytes, "d.png");
}

template <typename Number>
std::vector<std::byte> npy(const std::string& type, const std::vector<Number>& numbers,
                           const std::string& shape, bool column_major = false) {
  std::string header = "{'descr': '" + type +
                       "', 'fortran_order': " + (column_major ? "True" : "False") +
                       ", 'shape': " + shape + ", }";
  header += std::string(117 - header.size() % 64, ' ') + "\n";
  std::string file = "\x93NUMPY\x01\0"s + static_cast<char>(header.size() % 256) +
                     static_cast<char>(header.size() / 256) + header;
  file.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number));
  return bytes_of(file);
}

TEST(RawDepth, SixteenBitPngKeepsItsNumbers) {
  const cv::Mat values = (cv::Mat_<std::uint16_t>(2, 3) << 0, 1, 255, 256, 40000, 65535);
  const RawDepth raw = decode(encoded(values, ".png"));
  EXPECT_EQ(raw.values.type(), CV_16UC1);
  EXPECT_EQ(largest_difference(raw.values, values), 0);
  EXPECT_TRUE(raw.valid.empty());
}

TEST(RawDepth, ThreeEqual16BitChannelsKeep16Bits) {
  cv::Mat rgb(1, 2, CV_16UC3);
  rgb.at<cv::Vec3w>(0, 0) = {1234, 1234, 1234};
  rgb.at<cv::Vec3w>(0, 1) = {60001, 60001, 60001};
  const RawDepth raw = decode(encoded(rgb, ".png"));
  EXPECT_EQ(raw.values.at<std::uint16_t>(0, 0), 1234);
  EXPECT_EQ(raw.values.at<std::uint16_t>(0, 1), 60001);
  EXPECT_TRUE(raw.info.warnings.empty());
}

TEST(RawDepth, DifferingChannelsBecomeGreyWithAWarning) {
  const cv::Mat bgr(4, 4, CV_8UC3, cv::Scalar(30, 200, 100));
  const RawDepth raw = decode(encoded(bgr, ".png"));
  EXPECT_EQ(raw.values.at<unsigned char>(0, 0),
            (19595 * 100 + 38470 * 200 + 7471 * 30 + 32768) >> 16);
  ASSERT_EQ(raw.info.warnings.size(), 1U);
  EXPECT_NE(raw.info.warnings[0].find("'d.png' has colour channels that differ"),
            std::string::npos);
}

TEST(RawDepth, Differing16BitChannelsBecomeGreyOfTheirHighBytes) {
  const cv::Mat bgr(4, 4, CV_16UC3, cv::Scalar(30 * 256 + 99, 200 * 256, 100 * 256 + 255));
  const RawDepth raw = decode(encoded(bgr, ".png"));
  EXPECT_EQ(raw.values.type(), CV_8UC1);
  EXPECT_EQ(raw.values.at<unsigned char>(0, 0),
            (19595 * 100 + 38470 * 200 + 7471 * 30 + 32768) >> 16);
  EXPECT_EQ(raw.info.warnings.size(), 1U);
}

TEST(RawDepth, ChromaNoiseOfAJpegIsLetPass) {
  cv::Mat bgr(16, 16, CV_8UC3, cv::Scalar(100, 102, 101));
  EXPECT_TRUE(decode(encoded(bgr, ".jpg")).info.warnings.empty());
  bgr.setTo(cv::Scalar(200, 30, 30));
  EXPECT_EQ(decode(encoded(bgr, ".jpg")).info.warnings.size(), 1U);
}

TEST(RawDepth, AlphaZeroMarksHoles) {
  cv::Mat bgra(1, 3, CV_8UC4, cv::Scalar(9, 9, 9, 255));
  EXPECT_TRUE(decode(encoded(bgra, ".png")).valid.empty());
  bgra.at<cv::Vec4b>(0, 1)[3] = 0;
  const RawDepth raw = decode(encoded(bgra, ".png"));
  ASSERT_FALSE(raw.valid.empty());
  EXPECT_NE(raw.valid.at<unsigned char>(0, 0), 0);
  EXPECT_EQ(raw.valid.at<unsigned char>(0, 1), 0);
  bgra.setTo(cv::Scalar(9, 9, 9, 0));
  const RawDepth all = decode(encoded(bgra, ".png"));
  EXPECT_TRUE(all.valid.empty());
  EXPECT_EQ(all.info.warnings.size(), 1U);
}

TEST(RawDepth, OrientationIsAppliedToDepthToo) {
  const RawDepth raw = read_depth_raw(data_folder() / "exif_8.png");
  EXPECT_EQ(raw.values.size(), cv::Size(18, 29));
  EXPECT_TRUE(raw.info.turned());
}

TEST(RawDepth, PfmIsUpsideDownAndOfEitherByteOrder) {
  const float rows[2] = {1.5F, -2.0F};  // bottom, top
  std::string numbers(reinterpret_cast<const char*>(rows), sizeof rows);
  const RawDepth little = decode(bytes_of("Pf\n1 2\n-1.0\n" + numbers));
  EXPECT_EQ(little.values.at<float>(0, 0), -2.0F);
  EXPECT_EQ(little.values.at<float>(1, 0), 1.5F);
  for (std::size_t i : {0U, 4U}) std::reverse(numbers.begin() + i, numbers.begin() + i + 4);
  EXPECT_EQ(largest_difference(decode(bytes_of("Pf 1 2 1.0\n" + numbers)).values, little.values),
            0);
}

TEST(RawDepth, ThreeDifferingFloatChannelsAreRefused) {
  const float pixel[3] = {1, 2, 3};
  const std::string numbers(reinterpret_cast<const char*>(pixel), sizeof pixel);
  const std::string error = depth_error(bytes_of("PF\n1 1\n-1\n" + numbers), "xyz.pfm");
  EXPECT_NE(error.find("'xyz.pfm' has three differing channels"), std::string::npos) << error;
}

TEST(RawDepth, EqualNansInThreeChannelsAreEqual) {
  const float nan = std::nanf("");
  const float pixel[3] = {nan, nan, nan};
  const std::string numbers(reinterpret_cast<const char*>(pixel), sizeof pixel);
  EXPECT_EQ(depth_error(bytes_of("PF\n1 1\n-1\n" + numbers)), "");
}

TEST(RawDepth, PgmMaximumScalesOnly8Bit) {
  EXPECT_EQ(decode(bytes_of("P5\n2 1\n100\n"s + "\x64\x32")).values.at<unsigned char>(0, 0), 255);
  const RawDepth raw = decode(bytes_of("P5\n1 1\n1023\n"s + "\x03\xE8"));
  EXPECT_EQ(raw.values.type(), CV_16UC1);
  EXPECT_EQ(raw.values.at<std::uint16_t>(0, 0), 1000);
}

TEST(RawDepth, NumpyTypesAndOrders) {
  const std::vector<float> six = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(decode(npy<float>("<f4", six, "(2, 3)")).values.at<float>(1, 0), 4);
  EXPECT_EQ(decode(npy<float>("<f4", six, "(2, 3)", true)).values.at<float>(1, 0), 2);
  EXPECT_EQ(decode(npy<float>("<f4", six, "(1, 2, 3)")).values.size(), cv::Size(3, 2));
  EXPECT_EQ(decode(npy<float>("<f4", six, "(2, 3, 1)")).values.size(), cv::Size(3, 2));
  EXPECT_EQ(decode(npy<double>("<f8", {1, 2.5}, "(1, 2)")).values.at<float>(0, 1), 2.5F);
  EXPECT_EQ(decode(npy<std::uint16_t>(">u2", {0x0102}, "(1, 1)")).values.at<std::uint16_t>(0, 0),
            0x0201);
  EXPECT_EQ(decode(npy<std::uint16_t>("<f2", {0x4200}, "(1, 1)")).values.at<float>(0, 0), 3.0F);
  EXPECT_EQ(decode(npy<std::int32_t>("<i4", {-7}, "(1, 1)")).values.at<std::int32_t>(0, 0), -7);
  EXPECT_NE(depth_error(npy<float>("<f4", six, "(6,)")), "");
  EXPECT_NE(depth_error(npy<float>("<f4", six, "(2, 4)")), "");
  EXPECT_NE(depth_error(npy<std::int64_t>("<i8", {1}, "(1, 1)")).find("'<i8'"), std::string::npos);
}

TEST(RawDepth, AllEightOrientations) {
  const cv::Mat image = (cv::Mat_<unsigned char>(2, 3) << 1, 2, 3, 4, 5, 6);
  const cv::Mat expected[] = {
      (cv::Mat_<unsigned char>(2, 3) << 1, 2, 3, 4, 5, 6),
      (cv::Mat_<unsigned char>(2, 3) << 3, 2, 1, 6, 5, 4),
      (cv::Mat_<unsigned char>(2, 3) << 6, 5, 4, 3, 2, 1),
      (cv::Mat_<unsigned char>(2, 3) << 4, 5, 6, 1, 2, 3),
      (cv::Mat_<unsigned char>(3, 2) << 1, 4, 2, 5, 3, 6),
      (cv::Mat_<unsigned char>(3, 2) << 4, 1, 5, 2, 6, 3),
      (cv::Mat_<unsigned char>(3, 2) << 6, 3, 5, 2, 4, 1),
      (cv::Mat_<unsigned char>(3, 2) << 3, 6, 2, 5, 1, 4),
  };
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const cv::Mat turned = apply_orientation(image, orientation);
    ASSERT_EQ(turned.size(), expected[orientation - 1].size()) << orientation;
    EXPECT_EQ(largest_difference(turned, expected[orientation - 1]), 0) << orientation;
  }
}

}  // namespace
}  // namespace hdfnet::app::test
