// Images and folders.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tree.h"

namespace hdfnet::app::test {
namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Folders, PairByNameWithAnyExtensionInAnyCase) {
  const Tree tree{"rgb/a.jpg",   "rgb/b.JPEG",  "rgb/c.tif",
                  "depth/a.PNG", "depth/b.pgm", "depth/c.exr"};
  const Pairing found = find_pairs(tree.options("rgb", "depth"));
  EXPECT_EQ(described(found), (Names{"a: a.jpg + a.PNG", "b: b.JPEG + b.pgm", "c: c.tif + c.exr"}));
  EXPECT_TRUE(found.notes.empty());
}

TEST(Folders, NamesAreComparedWhole) {
  // By sorted position, img2 would take the depth of img10.
  const Tree tree{"rgb/img1.jpg", "rgb/img10.jpg", "rgb/img2.jpg", "depth/img1.png",
                  "depth/img10.png"};
  const Pairing found = find_pairs(tree.options("rgb", "depth"));
  EXPECT_EQ(described(found), (Names{"img1: img1.jpg + img1.png", "img10: img10.jpg + img10.png"}));
  EXPECT_EQ(names(found.unpaired_rgb), (Names{"img2.jpg"}));
}

TEST(Folders, UnpairedFilesAreListedOnBothSides) {
  const Tree tree{"rgb/a.jpg", "rgb/z.jpg", "depth/a.png", "depth/b.png", "depth/c.png"};
  const Pairing found = find_pairs(tree.options("rgb", "depth"));
  EXPECT_EQ(names(found.unpaired_rgb), (Names{"z.jpg"}));
  EXPECT_EQ(names(found.unpaired_depth), (Names{"b.png", "c.png"}));
}

TEST(Folders, OtherFilesAreLeftOut) {
  const Tree tree{"rgb/a.jpg",          "rgb/._a.jpg",   "rgb/.DS_Store",
                  "rgb/Thumbs.db",      "rgb/notes.txt", "rgb/.hidden/b.jpg",
                  "rgb/__MACOSX/a.jpg", "depth/a.png",   "depth/._a.png"};
  PairingOptions options = tree.options("rgb", "depth");
  options.recursive = true;
  const Pairing found = find_pairs(options);
  EXPECT_EQ(described(found), (Names{"a: a.jpg + a.png"}));
  EXPECT_TRUE(found.unpaired_rgb.empty());
  EXPECT_TRUE(found.unpaired_depth.empty());
}

TEST(Folders, FormatsOfNumbersAreDepthOnly) {
  const Tree tree{"rgb/a.jpg", "rgb/b.npy", "depth/a.npy", "depth/b.pfm"};
  const Pairing found = find_pairs(tree.options("rgb", "depth"));
  EXPECT_EQ(described(found), (Names{"a: a.jpg + a.npy"}));
}

TEST(Folders, SubfoldersKeepEqualNamesApart) {
  const Tree tree{"rgb/s1/0001.jpg", "rgb/s2/0001.jpg", "depth/s1/0001.png", "depth/s2/0001.png"};
  PairingOptions options = tree.options("rgb", "depth");
  options.recursive = true;
  const Pairing found = find_pairs(options);
  EXPECT_EQ(described(found),
            (Names{"s1/0001: 0001.jpg + 0001.png", "s2/0001: 0001.jpg + 0001.png"}));
  EXPECT_EQ(found.pairs[1].depth, tree / "depth/s2/0001.png");
}

TEST(Folders, WithoutRecursionSubfoldersAreHinted) {
  const Tree tree{"rgb/s1/0001.jpg", "depth/s1/0001.png"};
  EXPECT_TRUE(contains(error_of(tree.options("rgb", "depth")), "give --recursive"));
}

TEST(Folders, NonRecursiveTakesOnlyTheTop) {
  const Tree tree{"rgb/a.jpg", "rgb/s/b.jpg", "depth/a.png", "depth/s/b.png"};
  EXPECT_EQ(described(find_pairs(tree.options("rgb", "depth"))), (Names{"a: a.jpg + a.png"}));
}

TEST(Folders, OnlyTheLastExtensionCounts) {
  const Tree tree{"rgb/a.b.jpg", "rgb/v1.2/x.jpg", "depth/a.b.png", "depth/v1.2/x.png"};
  PairingOptions options = tree.options("rgb", "depth");
  options.recursive = true;
  EXPECT_EQ(described(find_pairs(options)),
            (Names{"a.b: a.b.jpg + a.b.png", "v1.2/x: x.jpg + x.png"}));
}

TEST(Folders, OrderIsThatOfTheBytes) {
  const Tree tree{"rgb/b.jpg", "rgb/B.jpg", "rgb/a 2.jpg", "rgb/a.jpg", "rgb/\xC3\xA4.jpg",
                  "d/b.png",   "d/B.png",   "d/a 2.png",   "d/a.png",   "d/\xC3\xA4.png"};
  const Pairing found = find_pairs(tree.options("rgb", "d"));
  Names stems;
  for (const Pair& pair : found.pairs) stems.push_back(pair.stem.string());
  EXPECT_EQ(stems, (Names{"B", "a", "a 2", "b", "\xC3\xA4"}));
}

TEST(Folders, NamesNeedNotBeUtf8) {
  const Tree tree{"rgb/caf\xE9 \xF0\x9F\x98\x80.jpg", "depth/caf\xE9 \xF0\x9F\x98\x80.png"};
  EXPECT_EQ(find_pairs(tree.options("rgb", "depth")).pairs.at(0).stem, "caf\xE9 \xF0\x9F\x98\x80");
}

TEST(Folders, TwoInputsForOneOutputAreAnError) {
  const Tree tree{"rgb/a.jpg", "rgb/a.png", "depth/a.png"};
  const std::string error = error_of(tree.options("rgb", "depth"));
  EXPECT_TRUE(contains(error, "rgb/a.jpg'")) << error;
  EXPECT_TRUE(contains(error, "rgb/a.png'")) << error;
  EXPECT_TRUE(contains(error, "would both be written as 'a'")) << error;
  PairingOptions options = tree.options("rgb", "depth");
  options.rgb_glob = "*.JPG";
  EXPECT_EQ(described(find_pairs(options)), (Names{"a: a.jpg + a.png"}));
}

TEST(Folders, TwoDepthFilesForOneRgbAreAnError) {
  const Tree tree{"rgb/a.jpg", "depth/a.png", "depth/a.tif"};
  EXPECT_TRUE(contains(error_of(tree.options("rgb", "depth")), "both fit the RGB"));
  PairingOptions options = tree.options("rgb", "depth");
  options.depth_glob = "*.tif";
  EXPECT_EQ(described(find_pairs(options)), (Names{"a: a.jpg + a.tif"}));
}

TEST(Folders, GlobsChooseInOneFolder) {
  const Tree tree{"all/a.jpg", "all/a.png", "all/a_golden.png", "all/b.jpg", "all/b.png"};
  PairingOptions options = tree.options("all", "all");
  options.rgb_glob = "*.jpg";
  options.depth_glob = "*.png";
  const Pairing found = find_pairs(options);
  EXPECT_EQ(described(found), (Names{"a: a.jpg + a.png", "b: b.jpg + b.png"}));
  EXPECT_EQ(names(found.unpaired_depth), (Names{"a_golden.png"}));
}

TEST(Folders, OneGlobIsEnoughInOneFolder) {
  const Tree tree{"all/a.jpg", "all/a.png"};
  PairingOptions options = tree.options("all", "all");
  options.depth_glob = "*.png";
  EXPECT_EQ(described(find_pairs(options)), (Names{"a: a.jpg + a.png"}));
}

TEST(Folders, GlobsWithASlashSeeTheRelativePath) {
  const Tree tree{"all/x/rgb/1.png", "all/x/depth/1.png"};
  PairingOptions options = tree.options("all", "all");
  options.recursive = true;
  options.rgb_glob = "*/rgb/*";
  options.depth_glob = "*/depth/*";
  const Pairing found = find_pairs(options);
  EXPECT_EQ(names(found.unpaired_rgb), (Names{"1.png"}));
  EXPECT_EQ(found.unpaired_depth.at(0), tree / "all/x/depth/1.png");
}

TEST(Folders, OneFolderWithoutAnythingToTellThemApartIsAnError) {
  const Tree tree{"all/a.jpg", "all/b.jpg"};
  EXPECT_TRUE(contains(error_of(tree.options("all", "all")), "--rgb-glob"));
  EXPECT_TRUE(contains(error_of(tree.options("all", "all/../all/")), "--rgb-glob"));
}

TEST(Folders, AFileChosenForBothSidesIsAnError) {
  const Tree tree{"all/a.png", "all/a.jpg"};
  PairingOptions options = tree.options("all", "all");
  options.rgb_glob = "a.*";
  options.depth_glob = "*.png";
  EXPECT_TRUE(contains(error_of(options), "is chosen as RGB and as depth"));
}

TEST(Folders, TheOtherSideBelowIsLeftOut) {
  const Tree tree{"set/1.png", "set/depth/1.png"};
  PairingOptions options = tree.options("set", "set/depth");
  options.recursive = true;
  const Pairing found = find_pairs(options);
  EXPECT_EQ(described(found), (Names{"1: 1.png + 1.png"}));
  EXPECT_TRUE(found.unpaired_rgb.empty());
}

TEST(Folders, LoopsOfLinksEnd) {
  const Tree tree{"rgb/s/a.jpg", "depth/s/a.png"};
  fs::create_directory_symlink(tree / "rgb", tree / "rgb/s/loop");
  fs::create_directory_symlink(tree / "rgb/s", tree / "rgb/again");
  fs::create_symlink("self.jpg", tree / "rgb/self.jpg");
  PairingOptions options = tree.options("rgb", "depth");
  options.recursive = true;
  const Pairing found = find_pairs(options);
  EXPECT_EQ(described(found), (Names{"s/a: a.jpg + a.png"}));
  EXPECT_EQ(names(found.unpaired_rgb), (Names{"self.jpg"}));  // broken, but not in silence
}

TEST(Folders, LinkedFoldersAreFollowed) {
  const Tree tree{"far/a.jpg", "depth/s/a.png", "rgb/b.jpg"};
  fs::create_directory_symlink(tree / "far", tree / "rgb/s");
  PairingOptions options = tree.options("rgb", "depth");
  options.recursive = true;
  EXPECT_EQ(described(find_pairs(options)), (Names{"s/a: a.jpg + a.png"}));
}

TEST(Folders, TwoImagesArePairedWhateverTheirNames) {
  const Tree tree{"one.jpg", "d/other.png"};
  EXPECT_EQ(described(find_pairs(tree.options("one.jpg", "d/other.png"))),
            (Names{"one: one.jpg + other.png"}));
}

TEST(Folders, AnImageFindsItsDepthInAFolder) {
  const Tree tree{"rgb/a.jpg", "rgb/b.jpg", "depth/a.png", "depth/b.png"};
  const Pairing found = find_pairs(tree.options("rgb/b.jpg", "depth"));
  EXPECT_EQ(described(found), (Names{"b: b.jpg + b.png"}));
  EXPECT_TRUE(found.unpaired_depth.empty());  // not asked for
}

TEST(Folders, AFolderNeedsMoreThanOneDepthImage) {
  const Tree tree{"rgb/a.jpg", "depth/a.png"};
  EXPECT_TRUE(contains(error_of(tree.options("rgb", "depth/a.png")), "--depth names one image"));
}

TEST(Folders, WhatIsNotThereIsNamed) {
  const Tree tree{"rgb/a.jpg"};
  const std::string depth = error_of(tree.options("rgb", "absent"));
  EXPECT_TRUE(contains(depth, "the depth input")) << depth;
  EXPECT_TRUE(contains(depth, "absent' does not exist")) << depth;
  EXPECT_TRUE(contains(error_of(tree.options("absent.jpg", "rgb")), "the RGB input"));
  EXPECT_TRUE(contains(error_of({}), "no RGB input"));
  PairingOptions only_rgb;
  only_rgb.rgb = tree / "rgb";
  EXPECT_TRUE(contains(error_of(only_rgb), "no depth input"));
}

TEST(Folders, EmptyFoldersAreNamed) {
  const Tree tree{"rgb/notes.txt", "depth/a.png", "full/a.jpg"};
  fs::create_directory(tree / "none");
  EXPECT_TRUE(contains(error_of(tree.options("rgb", "depth")), "rgb' holds no image"));
  EXPECT_TRUE(contains(error_of(tree.options("full", "none")), "none' holds no image"));
}

TEST(Folders, NothingLeftAfterTheGlobIsAnError) {
  const Tree tree{"rgb/a.jpg", "depth/a.png"};
  PairingOptions options = tree.options("rgb", "depth");
  options.rgb_glob = "*.bmp";
  EXPECT_TRUE(contains(error_of(options), "no RGB image is left"));
}

}  // namespace
}  // namespace hdfnet::app::test
