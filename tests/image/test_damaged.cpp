// Truncated and corrupted files: a named failure, or the right pixels; never wrong pixels in
// silence where the format lets the fault be seen, never a crash.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <opencv2/core.hpp>

#include "image/depth.h"
#include "image/read.h"
#include "support.h"

namespace hdfnet::app::test {
namespace {

std::vector<std::string> sample_files() {
  std::vector<std::string> files;
  for (const CsvRow& row : read_csv(data_folder() / "pictures.csv"))
    files.push_back(row.at("file"));
  return files;
}

bool this_build_reads(std::span<const std::byte> bytes) {
  return rgb_error(bytes).empty();
}

TEST(Damaged, EveryTruncationFailsOrGivesTheRightPixels) {
  for (const std::string& file : sample_files()) {
    SCOPED_TRACE(file);
    const std::vector<std::byte> whole = read_bytes(data_folder() / file);
    if (!this_build_reads(whole)) continue;
    ReadInfo info;
    const cv::Mat expected = decode_rgb(whole, file, info);
    const int orientation = info.exif_orientation;
    const std::size_t step = std::max<std::size_t>(1, whole.size() / 97);
    for (std::size_t length = 0; length < whole.size(); length += step) {
      try {
        const cv::Mat rgb = decode_rgb(span_of(whole).first(length), file, info);
        if (info.exif_orientation != orientation) continue;  // it stood behind the cut
        ASSERT_EQ(rgb.size(), expected.size()) << length;
        EXPECT_EQ(largest_difference(rgb, expected), 0) << length << " of " << whole.size();
      } catch (const ImageError& error) {
        EXPECT_TRUE(std::string(error.what()).starts_with("'" + file + "' ")) << error.what();
      }
    }
  }
}

TEST(Damaged, TruncatedJpegIsNamed) {
  const std::vector<std::byte> whole = read_bytes(data_folder() / "sampling_420.jpg");
  const std::string error = rgb_error(span_of(whole).first(whole.size() - 40), "photo.jpg");
  EXPECT_NE(error.find("'photo.jpg' is a truncated JPEG"), std::string::npos) << error;
}

TEST(Damaged, TruncatedProgressiveJpegIsNamed) {
  // Whole scans are missing: the decoder would only see a coarser picture.
  const std::vector<std::byte> whole = read_bytes(data_folder() / "progressive.jpg");
  for (const std::size_t missing : {std::size_t{10}, whole.size() / 4, whole.size() / 3}) {
    EXPECT_NE(rgb_error(span_of(whole).first(whole.size() - missing)), "");
  }
}

TEST(Damaged, JpegWithoutEndMarkerIsWholeAndWarned) {
  const std::vector<std::byte> whole = read_bytes(data_folder() / "sampling_420.jpg");
  ReadInfo info;
  const cv::Mat rgb = decode_rgb(span_of(whole).first(whole.size() - 2), "photo.jpg", info);
  EXPECT_EQ(largest_difference(rgb, decode_rgb(whole, "", info)), 0);
  decode_rgb(span_of(whole).first(whole.size() - 2), "photo.jpg", info);
  EXPECT_NE(joined(info.warnings).find("'photo.jpg' lacks the end marker"), std::string::npos);
}

TEST(Damaged, CorruptJpegIsNamed) {
  // A marker in the middle of the coded data ends it early.
  std::vector<std::byte> bytes = read_bytes(data_folder() / "sampling_444.jpg");
  const std::size_t middle = bytes.size() - 200;
  bytes[middle] = std::byte{0xFF};
  bytes[middle + 1] = std::byte{0xD9};
  const std::string error = rgb_error(bytes, "photo.jpg");
  EXPECT_NE(error.find("'photo.jpg' is a corrupt JPEG"), std::string::npos) << error;
}

TEST(Damaged, TruncatedPngIsNamed) {
  const std::vector<std::byte> whole = read_bytes(data_folder() / "rgb.png");
  const std::string error = rgb_error(span_of(whole).first(whole.size() - 60), "x.png");
  EXPECT_NE(error.find("'x.png' is a damaged or truncated PNG"), std::string::npos) << error;
}

TEST(Damaged, TiffWithFewerStripsThanItsHeightNeedsIsNamed) {
  std::vector<std::byte> bytes = read_bytes(data_folder() / "exif_1.tif");
  if (!this_build_reads(bytes)) GTEST_SKIP() << "this build reads no TIFF";
  // The directory's entry of ImageLength (tag 257): 18 rows become 180.
  const std::vector<std::byte> entry = bytes_of({"\x01\x01\x04\0\x01\0\0\0\x12", 9});
  const auto at = std::search(bytes.begin(), bytes.end(), entry.begin(), entry.end());
  ASSERT_NE(at, bytes.end());
  at[8] = std::byte{180};
  const std::string error = rgb_error(bytes, "x.tif");
  EXPECT_NE(error.find("'x.tif' is a damaged or truncated TIFF"), std::string::npos) << error;
}

TEST(Damaged, PngWithoutEndChunkIsWholeAndWarned) {
  const std::vector<std::byte> whole = read_bytes(data_folder() / "rgb.png");
  ReadInfo info;
  decode_rgb(span_of(whole).first(whole.size() - 12), "x.png", info);
  EXPECT_NE(joined(info.warnings).find("damaged behind its pixels"), std::string::npos);
}

/// How often to try; HDFNET_TEST_SCALE multiplies it for long runs.
std::size_t rounds(std::size_t base) {
  const char* scale = std::getenv("HDFNET_TEST_SCALE");
  return base * (scale ? std::strtoul(scale, nullptr, 10) : 1);
}

/// Whatever the bytes are: an ImageError, or a picture within the limits.
void decode_both_ways(std::span<const std::byte> bytes) {
  try {
    ReadInfo info;
    EXPECT_FALSE(decode_rgb(bytes, "fuzz", info).empty());
  } catch (const ImageError& error) {
    EXPECT_STRNE(error.what(), "");
  }
  try {
    const DepthResult depth = depth_to_8bit(decode_depth_raw(bytes, "fuzz"), {}, "fuzz");
    EXPECT_EQ(depth.depth8.type(), CV_8UC1);
  } catch (const ImageError& error) {
    EXPECT_STRNE(error.what(), "");
  }
}

TEST(Damaged, RandomChangesNeverCrash) {
  std::uint64_t seed = 1;
  for (const std::string& file : sample_files()) {
    SCOPED_TRACE(file);
    const std::vector<std::byte> whole = read_bytes(data_folder() / file);
    for (std::size_t round = 0; round < rounds(40); ++round) {
      std::vector<std::byte> bytes = whole;
      const std::vector<unsigned char> random = ruled_bytes(seed++, 64);
      const std::size_t changes = 1 + random[0] % 6;
      for (std::size_t i = 0; i < changes; ++i) {
        const unsigned char* r = &random[1 + 5 * i];
        std::size_t place = (r[0] << 16 | r[1] << 8 | r[2]) % bytes.size();
        if (r[4] % 2 == 0) place %= std::min<std::size_t>(bytes.size(), 200);  // the headers
        bytes[place] = std::byte{r[3]};
      }
      decode_both_ways(bytes);
    }
  }
}

}  // namespace
}  // namespace hdfnet::app::test
