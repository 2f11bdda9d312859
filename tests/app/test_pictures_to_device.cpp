// Networks that take pictures and finish maps, as one on a GPU does: the files written are the same
// as with a network that takes planes.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <opencv2/core.hpp>
#include <sstream>

#include "application.h"
#include "fake_network.h"
#include "picture_sizes.h"
#include "pictures.h"
#include "require.h"
#include "run/staging.h"
#include "temporary_folder.h"

namespace hdfnet::app {
namespace {

namespace fs = std::filesystem;

class PicturesToDevice : public testing::Test {
 protected:
  PicturesToDevice() { test::write_text(folder / "w.pt", "weights"); }

  /// A pair of files for every size; every third depth has a size of its own.
  int write_pairs() {
    int count = 0;
    for (const cv::Size size : test::kPictureSizes) {
      const std::string name = std::to_string(100 + count);
      test::write_png(folder / ("rgb/" + name + ".png"),
                      test::rgb_picture(size.width, size.height, count));
      const int shrink = count % 3 == 0 ? 2 : 1;
      test::write_png(folder / ("depth/" + name + ".png"),
                      test::depth_picture((size.width + shrink - 1) / shrink,
                                          (size.height + shrink - 1) / shrink, count));
      ++count;
    }
    return count;
  }

  int run(bool pictures, std::vector<std::string> more = {}) {
    provider.behaviour.takes_pictures = pictures;
    std::vector<std::string> arguments = {"--rgb",     (folder / "rgb").string(),
                                          "--depth",   (folder / "depth").string(),
                                          "--out",     out(pictures).string(),
                                          "--weights", (folder / "w.pt").string(),
                                          "--size",    "64x48",
                                          "--batch",   "5"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::ostringstream names;
    log.str("");
    return run_application(arguments, provider, {in, names, log, false});
  }

  fs::path out(bool pictures) const { return folder / (pictures ? "device" : "host"); }

  /// Runs both ways; returns how many files were compared.
  int expect_same_files(const std::vector<std::string>& more) {
    EXPECT_EQ(run(false, more), 0) << log.str();
    EXPECT_EQ(run(true, more), 0) << log.str();
    int files = 0;
    for (const auto& entry : fs::directory_iterator(out(false))) {
      EXPECT_EQ(test::read_text(out(true) / entry.path().filename()), test::read_text(entry.path()))
          << entry.path();
      ++files;
    }
    return files;
  }

  test::TemporaryFolder folder;
  test::FakeProvider provider;
  std::istringstream in;
  std::ostringstream log;
};

TEST_F(PicturesToDevice, MapsAreTheSameFiles) {
  const int pairs = write_pairs();
  EXPECT_EQ(expect_same_files({}), pairs);
  EXPECT_EQ(provider.behaviour.finished, pairs);
}

TEST_F(PicturesToDevice, OtherPicturesAreMadeOfTheFinishedMap) {
  const int pairs = write_pairs();
  EXPECT_EQ(
      expect_same_files({"--save", "map,overlay,cutout,heatmap,mask", "--rounding", "truncate"}),
      5 * pairs);
  EXPECT_EQ(provider.behaviour.finished, pairs);
}

TEST_F(PicturesToDevice, OtherKindsOfMapsAreFinishedOnTheHost) {
  const int pairs = write_pairs();
  EXPECT_EQ(expect_same_files({"--bit-depth", "16"}), pairs);
  fs::remove_all(out(false));
  EXPECT_EQ(expect_same_files({"--upsample", "nearest"}), pairs);
  EXPECT_EQ(provider.behaviour.finished, 0);
}

TEST_F(PicturesToDevice, APairThatCannotBeReadLeavesNoGap) {
  const int pairs = write_pairs();
  for (const char* name : {"rgb/102.png", "rgb/105.png", "depth/106.png"}) {
    test::write_text(folder / name, "no picture");
  }
  EXPECT_EQ(run(false), 1);
  EXPECT_EQ(run(true), 1);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(out(false))) {
    EXPECT_EQ(test::read_text(out(true) / entry.path().filename()), test::read_text(entry.path()));
    ++files;
  }
  EXPECT_EQ(files, pairs - 3);
}

TEST_F(PicturesToDevice, MapsThatAreNotFiniteAreComputedAgain) {
  const int pairs = write_pairs();
  provider.behaviour.gpus = {"cuda:0"};
  provider.behaviour.alter = [](const std::string& precision, std::span<float> map) {
    if (precision == "fp16" && map[0] > 0.2F) map[7] = std::nanf("");
  };
  EXPECT_EQ(expect_same_files({}), pairs);
  EXPECT_NE(log.str().find("computed again in bf16"), std::string::npos) << log.str();
}

TEST_F(PicturesToDevice, TheReportIsMadeOfPicturesToo) {
  write_pairs();
  EXPECT_EQ(run(true, {"--timing"}), 0) << log.str();
  EXPECT_NE(log.str().find("classifier"), std::string::npos) << log.str();
}

TEST(Staging, LargeAndThinPicturesAreResizedOnTheHost) {
  const cv::Size network(320, 320);
  EXPECT_TRUE(goes_as_it_is({1920, 1080}, network));
  EXPECT_TRUE(goes_as_it_is({1, 1}, network));
  EXPECT_FALSE(goes_as_it_is({4000, 3000}, network));
  EXPECT_FALSE(goes_as_it_is({1, 10000}, network)) << "3.2 million pixels after the first pass";

  Staging staging;
  int allocations = 0;
  staging.use([&](std::size_t count) {
    ++allocations;
    return std::shared_ptr<float[]>(new float[count]);
  });
  const test::PicturePair large = test::picture_pair({2100, 1000}, 1);
  staging.put(large.rgb, large.depth, network, std::nullopt);
  EXPECT_EQ(staging.pictures().width, 320);
  EXPECT_EQ(staging.pictures().height, 320);
  const test::PicturePair small = test::picture_pair({31, 17}, 1);
  staging.put(small.rgb, small.depth, network, LevelMap{17, 31, Rounding::nearest});
  EXPECT_EQ(staging.pictures().width, 31);
  EXPECT_EQ(test::require(staging.pictures().map).width, 31);
  EXPECT_EQ(std::memcmp(staging.pictures().bytes, small.rgb.data, 3 * small.rgb.total()), 0);
  EXPECT_EQ(allocations, 1) << "the smaller picture fits in the memory that is there";
}

TEST(Staging, PicturesThatGrowBitByBitTakeMemoryFewTimes) {
  Staging staging;
  std::size_t all = 0;
  int times = 0;
  staging.use([&](std::size_t floats) {
    ++times;
    all += floats;
    return std::shared_ptr<float[]>(new float[floats]);
  });
  for (int side = 20; side <= 200; ++side) {
    const cv::Mat rgb(side, side, CV_8UC3, cv::Scalar(1, 2, 3)), depth(side, side, CV_8UC1);
    staging.put(rgb, depth, {32, 32}, std::nullopt);
    ASSERT_EQ(staging.pictures().bytes[3 * side * side - 1], 3);
  }
  EXPECT_LE(times, 14);
  EXPECT_LE(all, std::size_t{4} * 200 * 200);  // 40,000 floats are the largest
  EXPECT_GE(staging.bytes(), std::size_t{4} * 200 * 200);
}

TEST(Staging, OnlyPlainMapsAreFinishedOnTheDevice) {
  const cv::Size size(640, 480);
  EXPECT_TRUE(finished_on_device(size, {8, Rounding::nearest, Upsample::bilinear}));
  EXPECT_FALSE(finished_on_device(size, {16, Rounding::nearest, Upsample::bilinear}));
  EXPECT_FALSE(finished_on_device(size, {8, Rounding::nearest, Upsample::nearest}));
  EXPECT_FALSE(finished_on_device({4000, 3000}, {8, Rounding::nearest, Upsample::bilinear}));
}

}  // namespace
}  // namespace hdfnet::app
