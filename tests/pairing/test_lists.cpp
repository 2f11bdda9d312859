// Text files of paths, and standard input.

#include <gtest/gtest.h>

#include <sstream>

#include "tree.h"

namespace hdfnet::app::test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Lists, TwoListsArePairedLineByLine) {
  const Tree tree{"r/b.jpg", "r/a.jpg", "d/1.png", "d/2.png"};
  tree.write("rgb.txt", "r/b.jpg\nr/a.jpg\n");
  tree.write("depth.txt", "d/1.png\nd/2.png\n");
  EXPECT_EQ(described(find_pairs(tree.options("rgb.txt", "depth.txt"))),
            (Names{"a: a.jpg + 2.png", "b: b.jpg + 1.png"}));
}

TEST(Lists, OfDifferentLengthAreAnError) {
  const Tree tree{};
  tree.write("rgb.txt", "a.jpg\nb.jpg\n");
  tree.write("depth.txt", "a.png\n");
  const std::string error = error_of(tree.options("rgb.txt", "depth.txt"));
  EXPECT_TRUE(contains(error, "names 2 files")) << error;
  EXPECT_TRUE(contains(error, "names 1.")) << error;
}

TEST(Lists, WindowsFilesAreRead) {
  const Tree tree{"rgb/a b.jpg", "depth/a b.png"};
  tree.write("list.txt", "\xEF\xBB\xBF\r\n# comment\r\n\trgb/a b.jpg \r\n\r\n");
  EXPECT_EQ(described(find_pairs(tree.options("list.txt", "depth"))),
            (Names{"a b: a b.jpg + a b.png"}));
}

TEST(Lists, LackOfAFinalNewlineLosesNothing) {
  const Tree tree{"rgb/a.jpg", "rgb/b.jpg", "depth/a.png", "depth/b.png"};
  tree.write("list.txt", "rgb/a.jpg\nrgb/b.jpg");
  EXPECT_EQ(find_pairs(tree.options("list.txt", "depth")).pairs.size(), 2U);
}

TEST(Lists, RelativePathsStartAtTheList) {
  const Tree tree{"set/rgb/a.jpg", "set/depth/a.png"};
  tree.write("set/list.txt", "rgb/a.jpg\n" + (tree / "set/rgb/../rgb/b.jpg").string() + "\n");
  tree.add("set/rgb/b.jpg");
  tree.add("set/depth/b.png");
  EXPECT_EQ(described(find_pairs(tree.options("set/list.txt", "set/depth"))),
            (Names{"a: a.jpg + a.png", "b: b.jpg + b.png"}));
}

TEST(Lists, BesideAFolderTheLongestEndOfThePathCounts) {
  const Tree tree{"rgb/s1/1.jpg", "rgb/s2/1.jpg", "depth/s1/1.png", "depth/s2/1.png",
                  "depth/1.png"};
  tree.write("list.txt", "rgb/s2/1.jpg\nrgb/s1/1.jpg\n");
  PairingOptions options = tree.options("list.txt", "depth");
  options.recursive = true;
  const Pairing found = find_pairs(options);
  EXPECT_EQ(described(found), (Names{"s1/1: 1.jpg + 1.png", "s2/1: 1.jpg + 1.png"}));
  EXPECT_EQ(found.pairs[0].depth, tree / "depth/s1/1.png");
  EXPECT_TRUE(found.unpaired_depth.empty());
}

TEST(Lists, OfDepthBesideAFolderOfRgb) {
  const Tree tree{"rgb/a.jpg", "rgb/b.jpg", "depth/a.png", "depth/c.png"};
  tree.write("list.txt", "depth/a.png\ndepth/c.png\n");
  const Pairing found = find_pairs(tree.options("rgb", "list.txt"));
  EXPECT_EQ(described(found), (Names{"a: a.jpg + a.png"}));
  EXPECT_EQ(names(found.unpaired_rgb), (Names{"b.jpg"}));
  EXPECT_EQ(names(found.unpaired_depth), (Names{"c.png"}));
}

TEST(Lists, MissingFilesStayAndFailLater) {
  const Tree tree{"rgb/a.jpg", "depth/a.png", "depth/gone.png"};
  tree.write("list.txt", "rgb/a.jpg\nrgb/gone.jpg\n");
  EXPECT_EQ(described(find_pairs(tree.options("list.txt", "depth"))),
            (Names{"a: a.jpg + a.png", "gone: gone.jpg + gone.png"}));
}

TEST(Lists, OfTwoColumns) {
  const Tree tree{"rgb/a.jpg", "depth/a.png", "rgb/b c.jpg", "depth/b c.png"};
  tree.write("list.txt", "rgb/a.jpg\tdepth/a.png\nrgb/b c.jpg depth/b c.png");
  const Names both{"a: a.jpg + a.png", "b c: b c.jpg + b c.png"};
  EXPECT_EQ(described(find_pairs(tree.options("list.txt", "list.txt"))), both);
  PairingOptions only_rgb;
  only_rgb.rgb = tree / "list.txt";
  EXPECT_EQ(described(find_pairs(only_rgb)), both);
}

TEST(Lists, OfTwoColumnsQuoteTheLineThatIsNone) {
  const Tree tree{"rgb/a.jpg", "depth/a.png"};
  tree.write("list.txt", "# two columns\nrgb/a.jpg, depth/a.png\nrgb/b.jpg\n");
  const std::string error = error_of(tree.options("list.txt", "list.txt"));
  EXPECT_TRUE(contains(error, "list.txt', line 3: 'rgb/b.jpg' is no pair of paths")) << error;
}

TEST(Lists, TwoColumnsWhereOneIsExpectedAreExplained) {
  const Tree tree{"rgb/a.jpg", "depth/a.png"};
  tree.write("list.txt", "rgb/a.jpg depth/a.png\n");
  const std::string error = error_of(tree.options("list.txt", "depth"));
  EXPECT_TRUE(contains(error, "line 1: 'rgb/a.jpg depth/a.png' holds two paths")) << error;
}

TEST(Lists, FoldersInThemAreErrors) {
  const Tree tree{"rgb/a.jpg", "depth/a.png"};
  tree.write("list.txt", "\nrgb\n");
  EXPECT_TRUE(contains(error_of(tree.options("list.txt", "depth")), "line 2: 'rgb' is a folder"));
}

TEST(Lists, EmptyOnesAreErrors) {
  const Tree tree{"depth/a.png"};
  tree.write("list.txt", "# nothing\n\n");
  EXPECT_TRUE(contains(error_of(tree.options("list.txt", "depth")), "names no file"));
  EXPECT_NE(error_of(tree.options("list.txt", "list.txt")), "");
}

TEST(Lists, TheSameFileTwiceIsAnError) {
  const Tree tree{"rgb/a.jpg", "depth/a.png"};
  tree.write("list.txt", "rgb/a.jpg\nrgb/a.jpg\n");
  EXPECT_TRUE(contains(error_of(tree.options("list.txt", "depth")), "is listed twice"));
}

TEST(Lists, InUtf16AreNamed) {
  const Tree tree{"depth/a.png"};
  tree.write("list.txt", std::string("\xFF\xFE"
                                     "a\0",
                                     4));
  EXPECT_TRUE(contains(error_of(tree.options("list.txt", "depth")), "is UTF-16"));
}

TEST(Lists, ComeFromStandardInput) {
  const Tree tree{"rgb/a.jpg", "depth/a.png"};
  std::istringstream input((tree / "rgb/a.jpg").string() + "\r\n");
  PairingOptions options;
  options.rgb = "-";
  options.depth = tree / "depth";
  EXPECT_EQ(described(find_pairs(options, &input)), (Names{"a: a.jpg + a.png"}));
  EXPECT_TRUE(contains(error_of(options), "standard input"));
}

TEST(Lists, OfTwoColumnsComeFromStandardInput) {
  const Tree tree{"rgb/a.jpg", "depth/z.png"};
  std::istringstream input((tree / "rgb/a.jpg").string() + "\t" + (tree / "depth/z.png").string());
  PairingOptions options;
  options.rgb = "-";
  options.depth = "-";
  EXPECT_EQ(described(find_pairs(options, &input)), (Names{"a: a.jpg + z.png"}));
}

TEST(Lists, AnImageUnderAnotherNameIsNoList) {
  const Tree tree{"d.png"};
  tree.write("photo", "\x89PNG\r\n");
  tree.write("photo.dat", std::string("\0\0\0", 3));
  EXPECT_EQ(described(find_pairs(tree.options("photo", "d.png"))), (Names{"photo: photo + d.png"}));
  EXPECT_EQ(find_pairs(tree.options("photo.dat", "d.png")).pairs.size(), 1U);
}

}  // namespace
}  // namespace hdfnet::app::test
