// Every kind of picture in tests/data/image against the pixels that Pillow gives for it.

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <opencv2/core.hpp>

#include "image/read.h"
#include "support.h"

namespace hdfnet::app::test {
namespace {

struct Picture {
  std::string file;
  cv::Mat expected;
  double tolerance;
};

std::vector<Picture> pictures() {
  std::ifstream pixels(data_folder() / "pictures.rgb", std::ios::binary);
  std::vector<Picture> all;
  for (const CsvRow& row : read_csv(data_folder() / "pictures.csv")) {
    cv::Mat expected(std::stoi(row.at("height")), std::stoi(row.at("width")), CV_8UC3);
    pixels.read(reinterpret_cast<char*>(expected.data),
                static_cast<std::streamsize>(expected.total() * expected.elemSize()));
    all.push_back({row.at("file"), expected, std::stod(row.at("tolerance"))});
  }
  EXPECT_TRUE(pixels);
  return all;
}

/// A build may lack TIFF or WebP; then those files must fail by name.
bool this_build_reads(const std::string& file) {
  const std::string formats = supported_formats();
  if (file.ends_with(".tif")) return formats.find("TIFF") != std::string::npos;
  if (file.ends_with(".webp")) return formats.find("WebP") != std::string::npos;
  return true;
}

TEST(Pictures, EqualPillow) {
  for (const Picture& picture : pictures()) {
    SCOPED_TRACE(picture.file);
    ReadInfo info;
    if (!this_build_reads(picture.file)) {
      EXPECT_THROW(read_rgb(data_folder() / picture.file, info), ImageError);
      continue;
    }
    const cv::Mat rgb = read_rgb(data_folder() / picture.file, info);
    ASSERT_EQ(rgb.type(), CV_8UC3);
    ASSERT_EQ(rgb.size(), picture.expected.size());
    EXPECT_LE(largest_difference(rgb, picture.expected), picture.tolerance);
  }
}

TEST(Pictures, OrientationIsReported) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    ReadInfo info;
    read_rgb(data_folder() / ("exif_" + std::to_string(orientation) + ".jpg"), info);
    EXPECT_EQ(info.exif_orientation, orientation);
    EXPECT_EQ(info.turned(), orientation >= 5);
    EXPECT_EQ(info.stored_size, cv::Size(29, 18));
    EXPECT_EQ(info.format, ImageFormat::jpeg);
    EXPECT_TRUE(info.warnings.empty());
  }
}

TEST(Pictures, ContentDecidesNotTheExtension) {
  ReadInfo info;
  const std::vector<std::byte> png = read_bytes(data_folder() / "rgb.png");
  decode_rgb(png, "photo.jpg", info);
  EXPECT_EQ(info.format, ImageFormat::png);
}

TEST(Pictures, OnlyTheFirstOfSeveralIsUsedAndSaid) {
  for (const char* file : {"animated.png", "animated.webp", "animated_lossy.webp", "pages.tif"}) {
    if (!this_build_reads(file)) continue;
    SCOPED_TRACE(file);
    ReadInfo info;
    read_rgb(data_folder() / file, info);
    ASSERT_EQ(info.warnings.size(), 1U);
    EXPECT_NE(info.warnings[0].find(file), std::string::npos);
    EXPECT_NE(info.warnings[0].find("first"), std::string::npos);
  }
}

TEST(Pictures, EmptyAndForeignPathsAreErrors) {
  ReadInfo info;
  EXPECT_THROW(read_rgb(data_folder() / "absent.png", info), ImageError);
  EXPECT_THROW(read_rgb(data_folder(), info), ImageError);
  EXPECT_THROW(read_rgb("/dev/zero", info), ImageError);
}

TEST(Pictures, NamesNeedNotBeUtf8) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "caf\xE9 \xF0\x9F\x98\x80.png";
  std::filesystem::copy_file(data_folder() / "rgb.png", file);
  ReadInfo info;
  EXPECT_EQ(read_rgb(file, info).size(), cv::Size(29, 18));
}

TEST(Pictures, FloatsAreNoColours) {
  const std::vector<std::byte> pfm = bytes_of(std::string("Pf\n1 1\n-1\n") + std::string(4, '\0'));
  EXPECT_NE(rgb_error(pfm, "d.pfm").find("'d.pfm' holds floating-point"), std::string::npos);
}

}  // namespace
}  // namespace hdfnet::app::test
