// Names that differ by an ending.

#include <gtest/gtest.h>

#include "tree.h"

namespace hdfnet::app::test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Suffixes, AreTakenOffToPair) {
  const Tree tree{"rgb/1_L.jpg", "depth/1_Depth.png"};
  PairingOptions options = tree.options("rgb", "depth");
  options.rgb_suffix = "_L";
  options.depth_suffix = "_Depth";
  // The output is named after the RGB file.
  EXPECT_EQ(described(find_pairs(options)), (Names{"1_L: 1_L.jpg + 1_Depth.png"}));
}

TEST(Suffixes, FilesWithoutThemAreListed) {
  const Tree tree{"rgb/1.jpg", "rgb/2.jpg", "depth/1_Depth.png", "depth/2.png", "depth/_Depth.png"};
  PairingOptions options = tree.options("rgb", "depth");
  options.depth_suffix = "_Depth";
  const Pairing found = find_pairs(options);
  EXPECT_EQ(described(found), (Names{"1: 1.jpg + 1_Depth.png"}));
  EXPECT_EQ(names(found.unpaired_rgb), (Names{"2.jpg"}));
  EXPECT_EQ(names(found.unpaired_depth), (Names{"2.png", "_Depth.png"}));
}

TEST(Suffixes, TellSidesApartInOneFolder) {
  const Tree tree{"all/1.png", "all/1_Depth.png", "all/2.png", "all/2_Depth.png"};
  PairingOptions options = tree.options("all", "all");
  options.depth_suffix = "_Depth";
  const Pairing found = find_pairs(options);
  EXPECT_EQ(described(found), (Names{"1: 1.png + 1_Depth.png", "2: 2.png + 2_Depth.png"}));
  EXPECT_TRUE(found.unpaired_rgb.empty());
  EXPECT_TRUE(found.unpaired_depth.empty());
}

TEST(Suffixes, MayBeTheWholeName) {
  const Tree tree{"all/s1/color.png", "all/s1/depth.png", "all/s2/color.png", "all/s2/depth.png"};
  PairingOptions options = tree.options("all", "all");
  options.recursive = true;
  options.rgb_suffix = "color";
  options.depth_suffix = "depth";
  EXPECT_EQ(described(find_pairs(options)),
            (Names{"s1/color: color.png + depth.png", "s2/color: color.png + depth.png"}));
}

TEST(Suffixes, KnownOnesAreRecognisedAndSaid) {
  const Tree tree{"rgb/frame-000000.color.jpg", "depth/frame-000000.depth.png"};
  const Pairing found = find_pairs(tree.options("rgb", "depth"));
  EXPECT_EQ(described(found),
            (Names{"frame-000000.color: frame-000000.color.jpg + frame-000000.depth.png"}));
  EXPECT_TRUE(contains(notes_of(found), "'.color' for RGB and '.depth' for depth"));
}

TEST(Suffixes, KnownOnesAreRecognisedInOneFolder) {
  const Tree tree{"all/1.png", "all/1_Depth.png"};
  const Pairing found = find_pairs(tree.options("all", "all"));
  EXPECT_EQ(described(found), (Names{"1: 1.png + 1_Depth.png"}));
  EXPECT_TRUE(contains(notes_of(found), "'_Depth' for depth"));
}

TEST(Suffixes, PlainNamesComeFirst) {
  const Tree tree{"rgb/1.jpg", "rgb/2.jpg", "depth/1.png", "depth/2_Depth.png"};
  const Pairing found = find_pairs(tree.options("rgb", "depth"));
  EXPECT_EQ(described(found), (Names{"1: 1.jpg + 1.png"}));
  EXPECT_EQ(names(found.unpaired_rgb), (Names{"2.jpg"}));
}

TEST(Suffixes, AmbiguousOnesAreNotGuessed) {
  const Tree tree{"rgb/1.jpg", "rgb/2.jpg", "depth/1_Depth.png", "depth/2.depth.png"};
  const Pairing found = find_pairs(tree.options("rgb", "depth"));
  EXPECT_TRUE(found.pairs.empty());
  EXPECT_EQ(found.unpaired_rgb.size(), 2U);
  EXPECT_TRUE(contains(notes_of(found), "--depth-suffix"));
}

TEST(Suffixes, NothingIsGuessedAgainstAGivenSuffix) {
  const Tree tree{"rgb/1.jpg", "depth/1_Depth.png"};
  PairingOptions options = tree.options("rgb", "depth");
  options.depth_suffix = "_depth_map";
  EXPECT_TRUE(find_pairs(options).pairs.empty());
}

TEST(Suffixes, WhenNothingPairsTheFirstFileIsNamed) {
  const Tree tree{"rgb/left01.jpg", "depth/disp01.png"};
  const Pairing found = find_pairs(tree.options("rgb", "depth"));
  EXPECT_EQ(names(found.unpaired_rgb), (Names{"left01.jpg"}));
  const std::string notes = notes_of(found);
  EXPECT_TRUE(contains(notes, "left01.jpg'")) << notes;
  EXPECT_TRUE(contains(notes, "'left01.*' was looked for")) << notes;
  EXPECT_TRUE(contains(notes, "'disp01.png'")) << notes;
}

}  // namespace
}  // namespace hdfnet::app::test
