#include <gtest/gtest.h>

#include "tree.h"

namespace hdfnet::app::test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

PairingOptions dataset(const Tree& tree) {
  PairingOptions options;
  options.dataset = tree.path();
  return options;
}

TEST(Dataset, FindsTheFoldersUnderTheirUsualNames) {
  for (const char* rgb : {"RGB", "Image", "Images", "rgb", "color"}) {
    for (const char* depth : {"depth", "Depth", "depths"}) {
      const Tree tree{"GT/a.png"};
      tree.add(std::string(rgb) + "/a.jpg");
      tree.add(std::string(depth) + "/a.png");
      EXPECT_EQ(described(find_pairs(dataset(tree))), (Names{"a: a.jpg + a.png"})) << rgb << depth;
    }
  }
}

TEST(Dataset, MissingFoldersAreNamedWithWhatIsThere) {
  const Tree tree{"RGB/a.jpg", "GT/a.png"};
  const std::string error = error_of(dataset(tree));
  EXPECT_TRUE(contains(error, "has no depth folder")) << error;
  EXPECT_TRUE(contains(error, "found 'GT', 'RGB'")) << error;
}

TEST(Dataset, SeveralFoldersAreAnError) {
  const Tree tree{"RGB/a.jpg", "Image/a.jpg", "depth/a.png"};
  EXPECT_TRUE(contains(error_of(dataset(tree)), "several RGB folders: 'Image', 'RGB'"));
}

TEST(Dataset, ThatIsNotThereIsNamed) {
  PairingOptions options;
  options.dataset = "/absent/set";
  EXPECT_TRUE(contains(error_of(options), "'/absent/set' cannot be listed"));
}

TEST(Dataset, ExcludesRgbAndDepth) {
  const Tree tree{"RGB/a.jpg", "depth/a.png"};
  PairingOptions options = dataset(tree);
  options.depth = tree / "depth";
  EXPECT_TRUE(contains(error_of(options), "leave out"));
}

}  // namespace
}  // namespace hdfnet::app::test
