// The folder layouts and real data sets of the shared material.

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "tree.h"

namespace hdfnet::app::test {
namespace {

namespace fs = std::filesystem;

class SharedLayouts : public testing::Test {
 protected:
  void SetUp() override {
    const char* chosen = std::getenv("HDFNET_SHARED");
    data_ = fs::path(chosen ? chosen : HDFNET_SHARED_DEFAULT) / "data";
    if (!fs::is_directory(data_)) {
      GTEST_SKIP() << "the shared material is not here (set HDFNET_SHARED)";
    }
  }

  PairingOptions layout(const std::string& name) const {
    PairingOptions options;
    options.rgb = data_ / "formats" / "pairs" / name / "rgb";
    options.depth = data_ / "formats" / "pairs" / name / "depth";
    return options;
  }

  PairingOptions real(const std::string& rgb, const std::string& depth) const {
    PairingOptions options;
    options.rgb = data_ / "pairs" / rgb;
    options.depth = data_ / "pairs" / depth;
    return options;
  }

  fs::path data_;
};

TEST_F(SharedLayouts, Plain) {
  const Pairing found = find_pairs(layout("01_plain"));
  EXPECT_EQ(described(found), (Names{"a: a.jpg + a.png", "b: b.jpg + b.png"}));
  EXPECT_TRUE(found.unpaired_rgb.empty() && found.unpaired_depth.empty() && found.notes.empty());
}

TEST_F(SharedLayouts, ExtraDepth) {
  const Pairing found = find_pairs(layout("03_extra_depth"));
  EXPECT_EQ(described(found), (Names{"a: a.jpg + a.png"}));
  EXPECT_EQ(names(found.unpaired_depth), (Names{"b.png"}));
  EXPECT_TRUE(found.unpaired_rgb.empty());
}

TEST_F(SharedLayouts, ColorAndDepthSuffix) {
  EXPECT_EQ(find_pairs(layout("09_color_depth_suffix")).pairs.size(), 1U);
}

TEST_F(SharedLayouts, UpperCaseExtensions) {
  EXPECT_EQ(described(find_pairs(layout("11_upper_case_ext"))), (Names{"A: A.JPG + A.PNG"}));
}

TEST_F(SharedLayouts, ListWithCarriageReturns) {
  PairingOptions options;
  options.rgb = options.depth = data_ / "formats" / "pairs" / "13_crlf_list" / "list.txt";
  EXPECT_EQ(described(find_pairs(options)), (Names{"a: a.jpg + a.png", "b: b.jpg + b.png"}));
}

TEST_F(SharedLayouts, NestedSameNames) {
  PairingOptions options = layout("15_nested_same_names");
  EXPECT_NE(error_of(options).find("--recursive"), std::string::npos);
  options.recursive = true;
  EXPECT_EQ(described(find_pairs(options)),
            (Names{"s1/0001: 0001.jpg + 0001.png", "s2/0001: 0001.jpg + 0001.png"}));
}

TEST_F(SharedLayouts, OneBadOfThreeIsPairedLikeTheOthers) {
  EXPECT_EQ(find_pairs(layout("17_one_bad_of_three")).pairs.size(), 3U);
}

TEST_F(SharedLayouts, GapInNumbers) {
  const Pairing found = find_pairs(layout("19_numeric_order_gap"));
  EXPECT_EQ(described(found), (Names{"img1: img1.jpg + img1.png", "img10: img10.jpg + img10.png"}));
  EXPECT_EQ(names(found.unpaired_rgb), (Names{"img2.jpg"}));
}

TEST_F(SharedLayouts, GoldenFolderHoldsBothSides) {
  PairingOptions options = real("golden", "golden");
  EXPECT_NE(error_of(options), "");
  options.rgb_glob = "*.jpg";
  options.depth_glob = "*.png";
  const Pairing found = find_pairs(options);
  EXPECT_EQ(found.pairs.size(), 5U);
  EXPECT_TRUE(found.unpaired_rgb.empty());
  EXPECT_EQ(found.unpaired_depth.size(), 5U);  // the *_golden.png
}

TEST_F(SharedLayouts, Nlpr16WithAndWithoutItsSuffix) {
  PairingOptions options = real("nlpr16/RGB", "nlpr16/depth");
  EXPECT_EQ(find_pairs(options).pairs.size(), 5U);
  options.depth_suffix = "_Depth";
  const Pairing found = find_pairs(options);
  EXPECT_EQ(found.pairs.size(), 5U);
  EXPECT_TRUE(found.notes.empty());
}

TEST_F(SharedLayouts, DatasetFolders) {
  for (const auto& [name, count] : {std::pair{"scan", 2U},
                                    {"tabletop", 2U},
                                    {"stereo224", 3U},
                                    {"rawstereo", 2U},
                                    {"nlpr16", 5U}}) {
    PairingOptions options;
    options.dataset = data_ / "pairs" / name;
    EXPECT_EQ(find_pairs(options).pairs.size(), count) << name;
  }
}

}  // namespace
}  // namespace hdfnet::app::test
