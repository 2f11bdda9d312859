// The way from stored numbers to the network's 8-bit map.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <opencv2/core.hpp>

#include "image/depth.h"
#include "image/pil.h"
#include "support.h"

namespace hdfnet::app::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

template <typename Number>
RawDepth row(std::initializer_list<Number> numbers) {
  RawDepth raw;
  raw.values = cv::Mat(1, static_cast<int>(numbers.size()), cv::DataType<Number>::type);
  std::copy(numbers.begin(), numbers.end(), raw.values.ptr<Number>());
  return raw;
}

std::vector<int> levels(const RawDepth& raw, const DepthPolicy& policy = {}) {
  const DepthResult result = depth_to_8bit(raw, policy, "d.png");
  EXPECT_EQ(result.depth8.type(), CV_8UC1);
  return std::vector<int>(result.depth8.begin<unsigned char>(), result.depth8.end<unsigned char>());
}

std::string warnings(const RawDepth& raw, const DepthPolicy& policy = {}) {
  return joined(depth_to_8bit(raw, policy, "d.png").warnings);
}

DepthPolicy policy(const char* range, const char* hole = "0", bool invert = false) {
  return {parse_depth_range(range), invert, parse_depth_hole(hole)};
}

using Levels = std::vector<int>;

TEST(Depth, EightBitIsUsedAsItIs) {
  const RawDepth raw = row<unsigned char>({0, 10, 200});
  EXPECT_EQ(levels(raw), (Levels{0, 10, 200}));
  EXPECT_FALSE(depth_to_8bit(raw, {}, "").scaled);
  EXPECT_EQ(warnings(raw), "");
}

TEST(Depth, SixteenBitIsScaledByItsValidRange) {
  const RawDepth raw = row<std::uint16_t>({1000, 2000, 3000, 0, 1500});
  const DepthResult result = depth_to_8bit(raw, {}, "");
  EXPECT_TRUE(result.scaled);
  EXPECT_EQ(result.low, 1000);
  EXPECT_EQ(result.high, 3000);
  EXPECT_DOUBLE_EQ(result.valid_fraction, 0.8);
  EXPECT_EQ(levels(raw), (Levels{0, 128, 255, 255, 64}));  // 127.5 and 63.75
}

TEST(Depth, FloatsSkipWhatIsNoReading) {
  const RawDepth raw = row<float>({2, kNan, 4, kInf, -kInf, -1, 1e10F, 0, 3});
  const DepthResult result = depth_to_8bit(raw, {}, "");
  EXPECT_EQ(result.low, 2);
  EXPECT_EQ(result.high, 4);
  EXPECT_NEAR(result.valid_fraction, 3.0 / 9, 1e-12);
  EXPECT_EQ(levels(raw), (Levels{0, 255, 255, 255, 255, 255, 255, 255, 128}));
}

TEST(Depth, NegativeIntegersAreHoles) {
  EXPECT_EQ(levels(row<std::int16_t>({-1, 100, 300})), (Levels{0, 0, 255}));
  EXPECT_EQ(levels(row<std::int32_t>({100, 2147483647, 300})), (Levels{0, 255, 255}));
}

TEST(Depth, HolesTakeTheFartherNeighbour) {
  EXPECT_EQ(levels(row<std::uint16_t>({0, 100, 0, 0, 200, 0, 150, 0})),
            (Levels{0, 0, 255, 255, 255, 255, 128, 128}));
}

TEST(Depth, RowsWithoutReadingsTakeTheNearestRow) {
  RawDepth raw;
  raw.values = (cv::Mat_<std::uint16_t>(6, 1) << 0, 100, 0, 0, 0, 200);
  EXPECT_EQ(levels(raw), (Levels{0, 0, 0, 255, 255, 255}));
}

TEST(Depth, FartherIsMeantAfterInversion) {
  // Near = bright in the file: 100 is the farther one.
  EXPECT_EQ(levels(row<std::uint16_t>({100, 0, 200}), policy("auto", "0", true)),
            (Levels{255, 255, 0}));
}

TEST(Depth, InvertTurnsEightBitToo) {
  EXPECT_EQ(levels(row<unsigned char>({0, 10, 255}), policy("auto", "0", true)),
            (Levels{255, 245, 0}));
}

TEST(Depth, AlphaMarksHolesEvenInEightBit) {
  RawDepth raw = row<unsigned char>({10, 99, 30});
  raw.valid = (cv::Mat_<unsigned char>(1, 3) << 255, 0, 255);
  EXPECT_EQ(levels(raw), (Levels{10, 30, 30}));
}

TEST(Depth, HolePolicyIsHeeded) {
  EXPECT_EQ(levels(row<std::uint16_t>({0, 50, 100}), policy("auto", "none")),
            (Levels{0, 128, 255}));
  EXPECT_EQ(levels(row<std::uint16_t>({50, 9999, 100}), policy("auto", "9999")),
            (Levels{0, 255, 255}));
  EXPECT_EQ(levels(row<unsigned char>({50, 255, 100}), policy("auto", "255")),
            (Levels{50, 100, 100}));
  EXPECT_EQ(levels(row<unsigned char>({0, 50, 100}), policy("minmax")), (Levels{0, 0, 255}));
}

TEST(Depth, ManyValuesGetTheLevelsOfTheFormula) {
  for (const int last : {300, 9000, 60000}) {  // by a table, and one by one
    cv::Mat values(300, 400, CV_16UC1);
    cv::randu(values, 100, last + 1);
    values.at<std::uint16_t>(7, 8) = 100;
    values.at<std::uint16_t>(8, 7) = static_cast<std::uint16_t>(last);
    cv::Mat holes = values.clone();
    holes.at<std::uint16_t>(0, 0) = 0;  // beside the range
    RawDepth raw, with_hole;
    raw.values = values;
    with_hole.values = holes;
    const DepthResult result = depth_to_8bit(raw, {}, "d");
    EXPECT_EQ(result.low, 100);
    EXPECT_EQ(result.high, last);
    for (int y = 0; y < values.rows; ++y) {
      for (int x = 0; x < values.cols; ++x) {
        const double level = 255 * (values.at<std::uint16_t>(y, x) - 100.0) / (last - 100.0);
        ASSERT_EQ(result.depth8.at<unsigned char>(y, x), cvRound(level)) << last;
      }
    }
    const cv::Mat filled = depth_to_8bit(with_hole, {}, "d").depth8;
    EXPECT_EQ(filled.at<unsigned char>(0, 0), filled.at<unsigned char>(0, 1));
    EXPECT_EQ(cv::countNonZero(filled != result.depth8) > 1, false) << last;
  }
}

TEST(Depth, AHoleValueThatTheTypeCannotHoldMarksNothing) {
  cv::Mat values(2, 3, CV_16UC1, cv::Scalar(1000));
  values.at<std::uint16_t>(1, 1) = 0;
  values.at<std::uint16_t>(0, 2) = 5;
  RawDepth raw;
  raw.values = values;
  for (const double hole : {0.5, 70000.0, 65536.0 + 1000.0}) {
    EXPECT_EQ(depth_to_8bit(raw, {{}, false, {DepthHole::Kind::value, hole}}, "d").valid_fraction,
              1)
        << hole;
  }
  const DepthPolicy five{{}, false, {DepthHole::Kind::value, 5}};
  EXPECT_DOUBLE_EQ(depth_to_8bit(raw, five, "d").valid_fraction, 5.0 / 6);
}

TEST(Depth, FixedRangeClamps) {
  EXPECT_EQ(levels(row<std::uint16_t>({500, 1000, 1500, 2000, 9000}), policy("1000:2000")),
            (Levels{0, 0, 128, 255, 255}));
  EXPECT_EQ(levels(row<std::uint16_t>({1500, 1500}), policy("1000:2000")), (Levels{128, 128}));
}

TEST(Depth, NoneUsesTheFullRangeOfTheType) {
  EXPECT_EQ(levels(row<std::uint16_t>({0, 257, 65535}), policy("none")), (Levels{0, 1, 255}));
  EXPECT_EQ(levels(row<float>({0, 0.5F, 1, 7}), policy("none")), (Levels{0, 128, 255, 255}));
  EXPECT_THROW(levels(row<std::int32_t>({1, 2}), policy("none")), ImageError);
}

TEST(Depth, FlatMapsHaveTheMiddleLevelAndAWarning) {
  for (const RawDepth& raw : {row<std::uint16_t>({7, 7, 0}), row<float>({1.25F, 1.25F})}) {
    for (const int level : levels(raw)) EXPECT_EQ(level, kFlatDepthLevel);
    EXPECT_NE(warnings(raw).find("'d.png' is flat"), std::string::npos);
  }
}

TEST(Depth, NothingValidIsFlatWithAWarning) {
  for (const RawDepth& raw : {row<std::uint16_t>({0, 0}), row<float>({kNan, kNan})}) {
    for (const char* range : {"auto", "minmax", "1:2", "none"}) {
      if (raw.values.depth() == CV_16U && range == std::string("none"))
        continue;  // 0 is depth there
      EXPECT_EQ(levels(raw, policy(range)), (Levels{kFlatDepthLevel, kFlatDepthLevel}));
      EXPECT_NE(warnings(raw, policy(range)).find("no valid depth"), std::string::npos);
    }
  }
}

TEST(Depth, OnePixelIsNoTrouble) {
  EXPECT_EQ(levels(row<std::uint16_t>({777})), (Levels{128}));
}

TEST(Depth, NearlyEmptyIsSaid) {
  RawDepth raw;
  raw.values = cv::Mat::zeros(10, 10, CV_16UC1);
  raw.values.at<std::uint16_t>(3, 3) = 100;
  raw.values.at<std::uint16_t>(3, 4) = 200;
  EXPECT_NE(warnings(raw).find("nearly empty: only 2 %"), std::string::npos) << warnings(raw);
}

TEST(Depth, ZerosAndOnesAreSaid) {
  EXPECT_NE(warnings(row<unsigned char>({0, 1, 1})).find("only the values 0 and 1"),
            std::string::npos);
  EXPECT_EQ(warnings(row<unsigned char>({0, 1, 2})), "");
}

TEST(Depth, Lone65535IsAHole) {
  const RawDepth raw = row<std::uint16_t>({1000, 65535, 2000, 3000});
  EXPECT_EQ(levels(raw), (Levels{0, 128, 128, 255}));
  EXPECT_NE(warnings(raw).find("treated as holes"), std::string::npos);
}

TEST(Depth, A65535ThatBelongsToTheRangeIsDepth) {
  EXPECT_EQ(warnings(row<std::uint16_t>({1000, 60000, 65535})), "");
  // Beside zeros it may be a clipped wall: kept, but said.
  const RawDepth clipped = row<std::uint16_t>({0, 1000, 2000, 65535});
  EXPECT_EQ(levels(clipped).back(), 255);
  EXPECT_EQ(levels(clipped)[2], 4);
  EXPECT_NE(warnings(clipped).find("--depth-hole 65535"), std::string::npos);
  // Then 0 is the nearest depth.
  EXPECT_EQ(levels(clipped, policy("auto", "65535")), (Levels{0, 128, 255, 255}));
}

TEST(Depth, ResizeToTheRgbIsPillows) {
  RawDepth raw;
  raw.values = cv::Mat(12, 16, CV_8UC1);
  const auto bytes = ruled_bytes(5, 12 * 16);
  std::copy(bytes.begin(), bytes.end(), raw.values.data);
  const DepthResult result = depth_for_rgb(raw, {}, "d.png", {640, 480}, {});
  EXPECT_EQ(largest_difference(result.depth8, pil_resize_bilinear(raw.values, {640, 480})), 0);
  EXPECT_TRUE(result.warnings.empty());
}

RawDepth ramp(cv::Size size) {
  RawDepth raw;
  raw.values = cv::Mat(size, CV_8UC1);
  for (int x = 0; x < size.width; ++x) raw.values.col(x).setTo(x % 256);
  return raw;
}

TEST(Depth, AspectMismatchIsAWarningThatNamesTheSizes) {
  const DepthResult result = depth_for_rgb(ramp({100, 100}), {}, "d.png", {160, 120}, {});
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_NE(result.warnings[0].find("'d.png' is 100 x 100, but its RGB is 160 x 120"),
            std::string::npos);
  EXPECT_EQ(result.depth8.size(), cv::Size(160, 120));
  EXPECT_TRUE(depth_for_rgb(ramp({256, 192}), {}, "", {1920, 1440}, {}).warnings.empty());
  EXPECT_TRUE(depth_for_rgb(ramp({101, 100}), {}, "", {1000, 1000}, {}).warnings.empty());
  EXPECT_EQ(depth_for_rgb(ramp({103, 100}), {}, "", {1000, 1000}, {}).warnings.size(), 1U);
}

TEST(Depth, TurnedDepthIsGuessed) {
  const DepthResult result = depth_for_rgb(ramp({120, 160}), {}, "d.png", {160, 120}, {});
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_NE(result.warnings[0].find("turned by 90 degrees"), std::string::npos);
}

TEST(Depth, ExifThatTurnedOnlyOneIsAnError) {
  ReadInfo turned;
  turned.exif_orientation = 6;
  EXPECT_THROW(depth_for_rgb(ramp({160, 120}), {}, "d.png", {120, 160}, turned), ImageError);
  RawDepth both = ramp({100, 160});
  both.info.exif_orientation = 8;
  EXPECT_THROW(depth_for_rgb(both, {}, "d.png", {160, 120}, {}), ImageError);
  EXPECT_NO_THROW(depth_for_rgb(both, {}, "d.png", {120, 160}, turned));
  EXPECT_NO_THROW(depth_for_rgb(ramp({120, 160}), {}, "d.png", {120, 160}, turned));
}

TEST(Depth, PairsOfTheSharedMaterial) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << "the shared material is not here (set HDFNET_SHARED)";
  const auto prepare = [&](const std::string& name) {
    const std::filesystem::path folder = *shared / "data" / "formats" / "pairs" / name;
    ReadInfo info;
    const cv::Mat rgb = read_rgb(folder / "rgb" / "a.jpg", info);
    const RawDepth raw = read_depth_raw(folder / "depth" / "a.png");
    return depth_for_rgb(raw, {}, "a.png", rgb.size(), info);
  };
  EXPECT_TRUE(prepare("01_plain").warnings.empty());
  EXPECT_EQ(prepare("05_aspect_mismatch").warnings.size(), 1U);
  EXPECT_THROW(prepare("07_exif_rgb_sensor_depth"), ImageError);
  EXPECT_EQ(prepare("21_iphone_lidar").depth8.size(), cv::Size(960, 720));
}

TEST(DepthOptions, RangeIsParsed) {
  EXPECT_EQ(parse_depth_range("auto").kind, DepthRange::Kind::automatic);
  EXPECT_EQ(parse_depth_range("minmax").kind, DepthRange::Kind::minmax);
  const DepthRange range = parse_depth_range("0.5:6e3");
  EXPECT_EQ(range.kind, DepthRange::Kind::fixed);
  EXPECT_EQ(range.low, 0.5);
  EXPECT_EQ(range.high, 6000);
  for (const char* text :
       {"", "Auto", "5", "5:", ":5", "a:b", "5:5", "6:5", "1:2:3", "1:inf", "nan:2"}) {
    EXPECT_THROW(parse_depth_range(text), std::invalid_argument) << text;
  }
}

TEST(DepthOptions, HoleIsParsed) {
  EXPECT_EQ(parse_depth_hole("none").kind, DepthHole::Kind::none);
  EXPECT_EQ(parse_depth_hole("65535").value, 65535);
  EXPECT_EQ(parse_depth_hole("-1").value, -1);
  for (const char* text : {"", "zero", "1x", "nan"}) {
    EXPECT_THROW(parse_depth_hole(text), std::invalid_argument) << text;
  }
}

}  // namespace
}  // namespace hdfnet::app::test
