// The table of awkward inputs in the shared material: each row must have the outcome that it
// states.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "image/depth.h"
#include "image/read.h"
#include "support.h"

namespace hdfnet::app::test {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  std::string error;  ///< of the ImageError, or empty
  std::vector<std::string> warnings;
  cv::Mat rgb;
  RawDepth raw;
  DepthResult depth;
};

Outcome read(const fs::path& file, bool as_depth) {
  Outcome outcome;
  try {
    if (as_depth) {
      outcome.raw = read_depth_raw(file);
      outcome.depth = depth_to_8bit(outcome.raw, {}, file.string());
      outcome.warnings = outcome.depth.warnings;
    } else {
      ReadInfo info;
      outcome.rgb = read_rgb(file, info);
      outcome.warnings = info.warnings;
    }
  } catch (const ImageError& error) {
    outcome.error = error.what();
    EXPECT_FALSE(outcome.error.empty());
  }
  return outcome;
}

bool format_is_in_this_build(const fs::path& file) {
  const std::string formats = supported_formats();
  if (file.extension() == ".tif") return formats.find("TIFF") != std::string::npos;
  if (file.extension() == ".exr") return formats.find("OpenEXR") != std::string::npos;
  return true;
}

void compare_rgb(const CsvRow& row, const fs::path& folder, const cv::Mat& rgb) {
  if (row.at("expected_png").empty()) return;
  cv::Mat expected = cv::imread((folder / row.at("expected_png")).string(), cv::IMREAD_COLOR);
  cv::cvtColor(expected, expected, cv::COLOR_BGR2RGB);
  ASSERT_EQ(rgb.size(), expected.size());
  EXPECT_LE(largest_difference(rgb, expected), std::stod(row.at("tolerance")));
}

bool invalid_by_rule(const std::string& rule, double value) {
  if (rule == "==0") return value == 0;
  if (rule == "==65535") return value == 65535;
  if (rule == "==255") return value == 255;
  if (rule == "<0") return value < 0;
  if (rule == "nan/inf") return !std::isfinite(value);
  if (rule == ">=1e10") return value >= 1e10;
  return false;
}

/// The stored numbers must come through: their range and the share of holes are in the table.
void compare_depth(const CsvRow& row, const Outcome& outcome) {
  EXPECT_EQ(outcome.raw.values.channels(), 1);
  ASSERT_EQ(outcome.raw.values.size(),
            cv::Size(std::stoi(row.at("width")), std::stoi(row.at("height"))));
  EXPECT_EQ(outcome.depth.depth8.type(), CV_8UC1);
  if (row.at("depth_valid_min").empty() || row.at("expect") == "fail_or_warn") return;
  cv::Mat values;
  outcome.raw.values.convertTo(values, CV_64F);
  double least = std::numeric_limits<double>::infinity(), most = -least;
  double invalid = 0;
  for (int y = 0; y < values.rows; ++y) {
    for (int x = 0; x < values.cols; ++x) {
      const double value = values.at<double>(y, x);
      if (invalid_by_rule(row.at("invalid_rule"), value)) {
        ++invalid;
        continue;
      }
      least = std::min(least, value);
      most = std::max(most, value);
    }
  }
  EXPECT_NEAR(least, std::stod(row.at("depth_valid_min")), 1e-5 * std::abs(least));
  EXPECT_NEAR(most, std::stod(row.at("depth_valid_max")), 1e-5 * std::abs(most));
  EXPECT_NEAR(invalid / static_cast<double>(values.total()),
              std::stod(row.at("depth_fraction_invalid")), 1e-5);
}

/// Anything but a flat map must use the range: all black or all white is the classic fault.
void check_contrast(const CsvRow& row, const Outcome& outcome) {
  if (row.at("depth_valid_min") == row.at("depth_valid_max")) return;
  double least = 0, most = 0;
  cv::minMaxIdx(outcome.depth.depth8, &least, &most);
  EXPECT_GT(most - least, 100);
  EXPECT_GT(cv::mean(outcome.depth.depth8)[0], 5);
  EXPECT_LT(cv::mean(outcome.depth.depth8)[0], 250);
}

void check_row(const CsvRow& row, const fs::path& folder) {
  const fs::path file = folder / row.at("path");
  const bool as_depth = row.at("role") == "depth";
  const std::string& expect = row.at("expect");
  const Outcome outcome = read(file, as_depth);
  if (!outcome.error.empty()) {
    EXPECT_NE(outcome.error.find(file.string()), std::string::npos) << outcome.error;
  }
  if (!format_is_in_this_build(file)) {
    EXPECT_FALSE(outcome.error.empty());
    return;
  }
  if (expect == "decode") {
    ASSERT_EQ(outcome.error, "");
  } else if (expect == "fail" || expect == "ignore") {
    ASSERT_NE(outcome.error, "");
  } else if (expect == "fail_or_warn") {
    EXPECT_TRUE(!outcome.error.empty() || !outcome.warnings.empty());
  }
  if (!outcome.error.empty()) return;
  if (!as_depth) return compare_rgb(row, folder, outcome.rgb);
  compare_depth(row, outcome);
  if (expect != "fail_or_warn") check_contrast(row, outcome);
}

TEST(Manifest, EveryRowHasItsOutcome) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << "the shared material is not here (set HDFNET_SHARED)";
  enable_openexr();
  const fs::path folder = *shared / "data" / "formats";
  for (const CsvRow& row : read_csv(folder / "manifest.csv")) {
    SCOPED_TRACE(row.at("path") + ": " + row.at("what"));
    check_row(row, folder);
  }
}

TEST(Manifest, EveryRealPairReads) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << "the shared material is not here (set HDFNET_SHARED)";
  std::size_t count = 0;
  for (const auto& item : fs::recursive_directory_iterator(*shared / "data" / "pairs")) {
    const std::string folder = item.path().parent_path().filename().string();
    if (!item.is_regular_file() || item.path().extension() == ".md") continue;
    SCOPED_TRACE(item.path().string());
    const bool as_depth =
        folder == "depth" || (folder == "golden" && item.path().extension() == ".png");
    EXPECT_EQ(read(item.path(), as_depth).error, "");
    ++count;
  }
  EXPECT_GT(count, 40U);
}

}  // namespace
}  // namespace hdfnet::app::test
