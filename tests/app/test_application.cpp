#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <opencv2/core.hpp>
#include <sstream>

#include "application.h"
#include "fake_network.h"
#include "pictures.h"
#include "temporary_folder.h"

namespace hdfnet::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The whole program with a network that returns the depth it is given.
class ApplicationTest : public testing::Test {
 protected:
  ApplicationTest() { test::write_text(folder / "w.pt", "weights"); }

  int run(const std::vector<std::string>& arguments) {
    out.str("");
    err.str("");
    return run_application(arguments, provider, {in, out, err, false});
  }

  /// A run on FOLDER/rgb and FOLDER/depth into FOLDER/out, at the pictures' own size.
  int run_folders(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"--rgb",     (folder / "rgb").string(),
                                          "--depth",   (folder / "depth").string(),
                                          "--out",     (folder / "out").string(),
                                          "--weights", (folder / "w.pt").string(),
                                          "--size",    "48x40"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }

  std::vector<std::string> lines(const std::string& text) const {
    std::istringstream stream(text);
    std::vector<std::string> result;
    for (std::string line; std::getline(stream, line);) result.push_back(line);
    return result;
  }

  /// The map written for that pair, which is its depth.
  void expect_map_is_depth(const std::string& name) const {
    const cv::Mat map = test::read_png(folder / ("out/" + name + ".png"));
    const cv::Mat depth = test::read_png(folder / ("depth/" + name + ".png"));
    ASSERT_EQ(map.size(), depth.size()) << name;
    ASSERT_EQ(map.type(), CV_8UC1);
    EXPECT_EQ(cv::norm(map, depth, cv::NORM_INF), 0) << name;
  }

  bool says(const std::string& text) const { return err.str().find(text) != std::string::npos; }

  test::TemporaryFolder folder;
  test::FakeProvider provider;
  std::istringstream in;
  std::ostringstream out, err;
};

TEST_F(ApplicationTest, WritesMapsAndNamesThemInOrder) {
  for (const char* name : {"c", "a", "b"}) test::write_pair(folder.path(), name, name[0]);
  EXPECT_EQ(run_folders(), 0) << err.str();
  const std::string base = (folder / "out/").string();
  EXPECT_EQ(lines(out.str()),
            (std::vector<std::string>{base + "a.png", base + "b.png", base + "c.png"}));
  for (const char* name : {"a", "b", "c"}) expect_map_is_depth(name);
  EXPECT_TRUE(says("3 written"));
}

TEST_F(ApplicationTest, NamesWithSpacesAndBytesThatAreNotUtf8) {
  test::write_pair(folder.path(), "two words \xC3\xA4", 1);
  test::write_pair(folder.path(), "latin1 \xE4", 2);
  EXPECT_EQ(run_folders({"--manifest", (folder / "m.jsonl").string()}), 0) << err.str();
  expect_map_is_depth("two words \xC3\xA4");
  expect_map_is_depth("latin1 \xE4");
  for (const std::string& line : lines(test::read_text(folder / "m.jsonl"))) {
    EXPECT_TRUE(json::accept(line)) << line;
  }
}

TEST_F(ApplicationTest, SavesEveryKind) {
  test::write_pair(folder.path(), "a", 1);
  EXPECT_EQ(run_folders({"--save", "map,overlay,cutout,heatmap", "--threshold", "0.3"}), 0);
  EXPECT_EQ(lines(out.str()).size(), 5u);
  EXPECT_EQ(test::read_png(folder / "out/a_overlay.png").channels(), 3);
  EXPECT_EQ(test::read_png(folder / "out/a_cutout.png").channels(), 4);
  EXPECT_EQ(test::read_png(folder / "out/a_heatmap.png").channels(), 3);
  const cv::Mat mask = test::read_png(folder / "out/a_mask.png");
  const cv::Mat depth = test::read_png(folder / "depth/a.png");
  const cv::Mat wanted = depth >= 0.3 * 255;
  EXPECT_EQ(cv::norm(mask, wanted, cv::NORM_INF), 0);
}

TEST_F(ApplicationTest, SixteenBitMaps) {
  test::write_pair(folder.path(), "a", 1);
  EXPECT_EQ(run_folders({"--bit-depth", "16"}), 0);
  const cv::Mat map = test::read_png(folder / "out/a.png");
  const cv::Mat depth = test::read_png(folder / "depth/a.png");
  ASSERT_EQ(map.type(), CV_16UC1);
  EXPECT_EQ(map.at<ushort>(3, 5), 257 * depth.at<uchar>(3, 5));
}

TEST_F(ApplicationTest, MapsComeBackAtThePicturesSize) {
  test::write_pair(folder.path(), "a", 1, 64, 80);
  EXPECT_EQ(run_folders({"--size", "32"}), 2);  // given twice
  EXPECT_EQ(run({"--rgb", (folder / "rgb/a.png").string(), "--depth",
                 (folder / "depth/a.png").string(), "--out", (folder / "one.png").string(),
                 "--weights", (folder / "w.pt").string(), "--size", "32"}),
            0)
      << err.str();
  EXPECT_EQ(test::read_png(folder / "one.png").size(), cv::Size(64, 80));
}

TEST_F(ApplicationTest, AFailedPairIsListedAndTheRestIsWritten) {
  for (const char* name : {"a", "b", "c"}) test::write_pair(folder.path(), name, name[0]);
  test::write_text(folder / "rgb/b.png", "no picture");
  EXPECT_EQ(run_folders(), 1);
  EXPECT_EQ(lines(out.str()).size(), 2u);
  EXPECT_TRUE(says("error: b: ")) << err.str();
  EXPECT_TRUE(says("2 written, 1 failed"));
  EXPECT_FALSE(fs::exists(folder / "out/b.png"));
}

TEST_F(ApplicationTest, FailFastStops) {
  for (int i = 100; i < 200; ++i) test::write_pair(folder.path(), std::to_string(i), i, 8, 8);
  test::write_text(folder / "rgb/100.png", "no picture");
  EXPECT_EQ(run_folders({"--fail-fast", "--threads", "1", "--batch", "1"}), 1);
  EXPECT_TRUE(says("not done"));
  EXPECT_LT(lines(out.str()).size(), 50u);
}

TEST_F(ApplicationTest, UnpairedPicturesAreListed) {
  test::write_pair(folder.path(), "a", 1);
  test::write_png(folder / "rgb/lonely.png", test::rgb_picture(8, 8, 1));
  EXPECT_EQ(run_folders(), 1);
  EXPECT_TRUE(says("lonely.png: RGB image without depth"));
  EXPECT_EQ(run_folders({"--allow-unpaired"}), 0);
  EXPECT_TRUE(says("1 without depth"));
}

TEST_F(ApplicationTest, DepthWithoutAPictureIsOnlyAWarning) {
  test::write_pair(folder.path(), "a", 1);
  test::write_png(folder / "depth/extra.png", test::depth_picture(8, 8, 1));
  EXPECT_EQ(run_folders(), 0);
  EXPECT_TRUE(says("warning: ")) << err.str();
  EXPECT_TRUE(says("extra.png: depth without an RGB image"));
}

TEST_F(ApplicationTest, SkipExistingDoesTheRestToTheSameBytes) {
  for (const char* name : {"a", "b"}) test::write_pair(folder.path(), name, name[0]);
  EXPECT_EQ(run_folders(), 0);
  const std::string before = test::read_text(folder / "out/b.png");
  fs::remove(folder / "out/b.png");
  EXPECT_EQ(run_folders({"--skip-existing"}), 0);
  EXPECT_EQ(lines(out.str()).size(), 1u);
  EXPECT_TRUE(says("1 written, 1 skipped"));
  EXPECT_EQ(test::read_text(folder / "out/b.png"), before);
}

TEST_F(ApplicationTest, NothingLeftToDoNeedsNoNetwork) {
  test::write_pair(folder.path(), "a", 1);
  EXPECT_EQ(run_folders(), 0);
  provider.behaviour.loads = 0;
  EXPECT_EQ(run_folders({"--skip-existing"}), 0);
  EXPECT_EQ(provider.behaviour.loads, 0);
}

TEST_F(ApplicationTest, DryRunPrintsPairsAndWritesNothing) {
  test::write_pair(folder.path(), "a", 1);
  test::write_pair(folder.path(), "b", 1);
  test::write_text(folder / "out/a.png", "x");
  EXPECT_EQ(run_folders({"--dry-run", "--skip-existing"}), 0);
  const auto printed = lines(out.str());
  ASSERT_EQ(printed.size(), 2u);
  EXPECT_EQ(printed[0].substr(0, 5), "skip\t");
  EXPECT_EQ(printed[1], "do\t" + (folder / "rgb/b.png").string() + "\t" +
                            (folder / "depth/b.png").string() + "\t" +
                            (folder / "out/b.png").string());
  EXPECT_FALSE(fs::exists(folder / "out/b.png"));
  EXPECT_EQ(provider.behaviour.loads, 0);
}

TEST_F(ApplicationTest, ManifestHasOneLineAPair) {
  for (const char* name : {"a", "b"}) test::write_pair(folder.path(), name, name[0]);
  test::write_text(folder / "depth/b.png", "no picture");
  test::write_png(folder / "rgb/c.png", test::rgb_picture(8, 8, 1));
  EXPECT_EQ(run_folders({"--manifest", (folder / "m.jsonl").string()}), 1);
  std::map<std::string, json> found;
  for (const std::string& line : lines(test::read_text(folder / "m.jsonl"))) {
    const json entry = json::parse(line);
    found[fs::path(entry["name"].get<std::string>()).filename()] = entry;
  }
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found["a"]["status"], "written");
  EXPECT_EQ(found["a"]["width"], 48);
  EXPECT_EQ(found["a"]["height"], 40);
  EXPECT_EQ(found["a"]["outputs"]["map"], (folder / "out/a.png").string());
  EXPECT_EQ(found["a"]["weights_sha256"], "cafe");
  EXPECT_EQ(found["a"]["precision"], "fp32");
  EXPECT_GT(found["a"]["milliseconds"]["decode"], 0);
  EXPECT_TRUE(found["a"]["error"].is_null());
  EXPECT_EQ(found["b"]["status"], "failed");
  EXPECT_FALSE(found["b"]["error"].get<std::string>().empty());
  EXPECT_EQ(found["c"]["status"], "unpaired");
}

TEST_F(ApplicationTest, ScalingOfDepthIsSaidOnce) {
  for (const char* name : {"a", "b"}) {
    test::write_pair(folder.path(), name, name[0]);
    cv::Mat deep;
    test::depth_picture(48, 40, 1).convertTo(deep, CV_16U, 30);
    test::write_png(folder / (std::string("depth/") + name + ".png"), deep);
  }
  EXPECT_EQ(run_folders({"--timing"}), 0);
  const std::string text = err.str();
  const std::size_t first = text.find("Depth is scaled");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("Depth is scaled", first + 1), std::string::npos);
}

TEST_F(ApplicationTest, AnInterruptEndsWith130AndASummary) {
  for (int i = 100; i < 160; ++i) test::write_pair(folder.path(), std::to_string(i), i, 8, 8);
  int calls = 0;
  provider.behaviour.before_forward = [&](int) {
    if (++calls == 2) std::raise(SIGINT);
  };
  EXPECT_EQ(run_folders({"--batch", "2", "--threads", "1"}), 130);
  EXPECT_TRUE(says("4 written, 56 not done")) << err.str();
  EXPECT_EQ(lines(out.str()).size(), 4u);
}

TEST_F(ApplicationTest, UsageErrorsEndWith2) {
  test::write_pair(folder.path(), "a", 1);
  EXPECT_EQ(run({}), 2);
  EXPECT_TRUE(says("error: No input"));
  EXPECT_EQ(run({"--bogus"}), 2);
  EXPECT_EQ(run({"--rgb", "/nowhere", "--depth", "/nowhere"}), 2);
  EXPECT_EQ(run_folders({"--config", "/nowhere.yaml"}), 2);
  EXPECT_EQ(run_folders({"--device", "all"}), 2);
  EXPECT_EQ(run_folders({"--manifest", "/nowhere/m.jsonl"}), 2);
  EXPECT_TRUE(says("--manifest /nowhere/m.jsonl cannot be written"));
  EXPECT_EQ(run_folders({"--timing-json", "/nowhere/t.json"}), 2);
  EXPECT_TRUE(out.str().empty());
}

TEST_F(ApplicationTest, ReportsThatDoNotFitOnTheDiskAreSaid) {
  test::write_pair(folder.path(), "a", 1);
  EXPECT_EQ(run_folders({"--manifest", "/dev/full"}), 1);
  EXPECT_TRUE(says("--manifest /dev/full could not be written completely"));
  EXPECT_EQ(run_folders({"--timing-json", "/dev/full"}), 1);
  EXPECT_TRUE(says("--timing-json /dev/full could not be written completely"));
  EXPECT_TRUE(says("1 written"));
}

TEST_F(ApplicationTest, WeightsThatAreNotThereEndWith2) {
  test::write_pair(folder.path(), "a", 1);
  const std::vector<std::string> arguments = {"--rgb", (folder / "rgb").string(), "--depth",
                                              (folder / "depth").string()};
  std::vector<std::string> given = arguments;
  given.insert(given.end(), {"--weights", "/nowhere/w.pt", "--out", (folder / "out").string()});
  EXPECT_EQ(run(given), 2);
  EXPECT_TRUE(says("/nowhere/w.pt"));
}

TEST_F(ApplicationTest, DefaultWeightsAreFoundBelowHdfnetHome) {
  test::write_pair(folder.path(), "a", 1);
  test::write_text(folder / "home/weights/hdfnet_vgg16.pt", "weights");
  setenv("HDFNET_HOME", (folder / "home").c_str(), 1);
  EXPECT_EQ(run({"--rgb", (folder / "rgb").string(), "--depth", (folder / "depth").string(),
                 "--out", (folder / "out").string()}),
            0)
      << err.str();
  unsetenv("HDFNET_HOME");
}

TEST_F(ApplicationTest, PrintConfigMergesAndStops) {
  test::write_text(folder / "c.yaml", "batch: 8\nsize: 256\n");
  EXPECT_EQ(run({"--config", (folder / "c.yaml").string(), "--batch", "2", "--print-config"}), 0);
  EXPECT_NE(out.str().find("batch: 2"), std::string::npos);
  EXPECT_NE(out.str().find("size: 256"), std::string::npos);
  test::write_text(folder / "d.yaml", out.str());
  const std::string first = out.str();
  EXPECT_EQ(run({"--config", (folder / "d.yaml").string(), "--print-config"}), 0);
  EXPECT_EQ(out.str(), first);
}

TEST_F(ApplicationTest, HelpAndVersion) {
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_NE(out.str().find("--depth-suffix"), std::string::npos);
  EXPECT_EQ(run({"--version"}), 0);
  EXPECT_NE(out.str().find("fake library: 1.2"), std::string::npos);
  EXPECT_NE(out.str().find("OpenCV: 4."), std::string::npos);
  EXPECT_NE(out.str().find("devices: cpu ("), std::string::npos);
  EXPECT_NE(out.str().find("reads: "), std::string::npos);
}

TEST_F(ApplicationTest, QuietRunsSayNothing) {
  test::write_pair(folder.path(), "a", 1);
  EXPECT_EQ(run_folders({"--quiet"}), 0);
  EXPECT_EQ(err.str(), "");
  EXPECT_EQ(lines(out.str()).size(), 1u);
}

TEST_F(ApplicationTest, AllDevicesShareTheWork) {
  provider.behaviour.gpus = {"cuda:0", "cuda:1"};
  for (int i = 10; i < 30; ++i) test::write_pair(folder.path(), std::to_string(i), i);
  EXPECT_EQ(run_folders({"--device", "all", "--batch", "2"}), 0) << err.str();
  EXPECT_EQ(provider.behaviour.made,
            (std::vector<std::string>{"cuda:0 fp16 fused", "cuda:1 fp16 fused"}));
  for (int i = 10; i < 30; ++i) expect_map_is_depth(std::to_string(i));
}

TEST_F(ApplicationTest, AGpuComputesWholeBatchesHoweverManyPairsAreLeft) {
  provider.behaviour.gpus = {"cuda:0", "cuda:1"};
  auto& batches = provider.behaviour.batches;
  for (int i = 10; i < 15; ++i) test::write_pair(folder.path(), std::to_string(i), i);
  EXPECT_EQ(run_folders({"--device", "cuda:0", "--batch", "3"}), 0) << err.str();
  EXPECT_EQ(batches, (std::vector<int>{3, 3}));
  batches.clear();
  EXPECT_EQ(run_folders({"--device", "cuda:0"}), 0) << err.str();
  EXPECT_EQ(batches, (std::vector<int>{32})) << "--batch auto";
  batches.clear();
  EXPECT_EQ(run_folders({"--device", "all"}), 0) << err.str();
  EXPECT_EQ(batches, (std::vector<int>{32, 32}));
  batches.clear();
  fs::remove(folder / "out/12.png");
  EXPECT_EQ(run_folders({"--device", "cuda:0", "--skip-existing"}), 0) << err.str();
  EXPECT_EQ(batches, (std::vector<int>{32})) << "a resumed run gives the bytes of a whole one";
  batches.clear();
  EXPECT_EQ(run_folders({"--device", "cpu", "--batch", "3"}), 0) << err.str();
  EXPECT_EQ(batches, (std::vector<int>{3, 2})) << "the CPU's cores have better things to do";
}

TEST_F(ApplicationTest, AnAutomaticBatchLeavesItsLastPlaceToFilling) {
  auto& batches = provider.behaviour.batches;
  for (int i = 100; i < 163; ++i) test::write_pair(folder.path(), std::to_string(i), i, 8, 8);
  EXPECT_EQ(run_folders({"--device", "cuda:0"}), 0) << err.str();
  EXPECT_EQ(batches, (std::vector<int>{32, 32, 32})) << "31 + 31 + 1 pairs";
  batches.clear();
  EXPECT_EQ(run_folders({"--device", "cuda:0", "--batch", "32"}), 0) << err.str();
  EXPECT_EQ(batches, (std::vector<int>{32, 32})) << "32 + 31 pairs";
}

TEST_F(ApplicationTest, ABatchLargerThanAllPairsIsFilledUpWithinReason) {
  auto& batches = provider.behaviour.batches;
  for (int i = 100; i < 140; ++i) test::write_pair(folder.path(), std::to_string(i), i, 8, 8);
  EXPECT_EQ(run_folders({"--device", "cuda:0", "--batch", "1000"}), 0) << err.str();
  EXPECT_EQ(batches, (std::vector<int>{64}));
  batches.clear();
  EXPECT_EQ(run_folders({"--device", "cuda:0", "--batch", "50"}), 0) << err.str();
  EXPECT_EQ(batches, (std::vector<int>{50}));
  batches.clear();
  for (int i = 100; i < 135; ++i) fs::remove(folder / ("out/" + std::to_string(i) + ".png"));
  for (int i = 100; i < 130; ++i) fs::remove(folder / ("rgb/" + std::to_string(i) + ".png"));
  EXPECT_EQ(run_folders({"--device", "cuda:0", "--batch", "1000", "--skip-existing"}), 0);
  EXPECT_EQ(batches, (std::vector<int>{32}));
}

TEST_F(ApplicationTest, AnAutomaticBatchFitsTheDevicesMemory) {
  constexpr std::size_t MB = 1000000;
  auto& batches = provider.behaviour.batches;
  provider.behaviour.gpus = {"cuda:0", "cuda:1"};
  provider.behaviour.rooms["cuda:0"] = {140000 * MB, 50 * MB};
  provider.behaviour.rooms["cuda:1"] = {728 * MB, 50 * MB};
  for (int i = 100; i < 180; ++i) test::write_pair(folder.path(), std::to_string(i), i, 8, 8);
  const std::string json_file = (folder / "t.json").string();

  EXPECT_EQ(run_folders({"--device", "cuda:0", "--timing-json", json_file}), 0) << err.str();
  EXPECT_EQ(batches, (std::vector<int>{32, 32, 32}));
  EXPECT_TRUE(says("batch 31 (auto: there is memory for more, which would not be faster)"));
  batches.clear();
  EXPECT_EQ(run_folders({"--device", "cuda:1", "--timing-json", json_file}), 0) << err.str();
  EXPECT_EQ(batches, (std::vector<int>(8, 12)));
  const std::string why = " (auto: cuda:1 has 728 MB free, and an image takes about 50 MB)";
  EXPECT_TRUE(says("batch 11" + why)) << err.str();
  EXPECT_EQ(json::parse(test::read_text(folder / "t.json"))["header"]["batch"],
            "11, computed as one of 12" + why);
  batches.clear();
  EXPECT_EQ(run_folders({"--device", "all"}), 0) << err.str();
  EXPECT_EQ(batches, (std::vector<int>(8, 12))) << "the least of the devices decides";
  batches.clear();
  EXPECT_EQ(run_folders({"--device", "cuda:1", "--batch", "20"}), 0) << err.str();
  EXPECT_EQ(batches, (std::vector<int>(4, 20))) << "who gives a number means it";
  EXPECT_FALSE(says("auto:"));
}

TEST_F(ApplicationTest, AFewPairsInLittleMemory) {
  constexpr std::size_t MB = 1000000;
  provider.behaviour.rooms["cuda:0"] = {728 * MB, 50 * MB};
  for (int i = 10; i < 15; ++i) test::write_pair(folder.path(), std::to_string(i), i, 8, 8);
  EXPECT_EQ(run_folders({"--device", "cuda:0"}), 0) << err.str();
  EXPECT_EQ(provider.behaviour.batches, (std::vector<int>{12}));
}

TEST_F(ApplicationTest, DevicesAreSetUpWhileTheWeightsAreRead) {
  provider.behaviour.gpus = {"cuda:0", "cuda:1"};
  test::write_pair(folder.path(), "a", 1);
  EXPECT_EQ(run_folders({"--device", "all"}), 0) << err.str();
  EXPECT_EQ(provider.behaviour.prepared, (std::vector<std::string>{"cuda:0", "cuda:1"}));
}

TEST_F(ApplicationTest, ANetworkOfPicturesWarmsUpAndTheReportSaysHowLong) {
  provider.behaviour.gpus = {"cuda:0"};
  provider.behaviour.takes_pictures = true;
  provider.behaviour.passes_to_warm_up = 2;
  for (int i = 10; i < 18; ++i) test::write_pair(folder.path(), std::to_string(i), i);
  EXPECT_EQ(run_folders({"--device", "cuda:0", "--batch", "2", "--timing"}), 0) << err.str();
  EXPECT_EQ(provider.behaviour.batches, (std::vector<int>{2, 2, 2, 2, 2, 2}));
  EXPECT_TRUE(says("warm-up")) << err.str();
  EXPECT_TRUE(says("load")) << err.str();
  for (int i = 10; i < 18; ++i) expect_map_is_depth(std::to_string(i));
}

TEST_F(ApplicationTest, ASinglePairIsNotFilledUp) {
  provider.behaviour.gpus = {"cuda:0"};
  test::write_pair(folder.path(), "a", 1);
  EXPECT_EQ(run_folders({"--device", "cuda:0"}), 0) << err.str();
  EXPECT_EQ(run_folders({"--device", "cuda:0", "--batch", "1"}), 0) << err.str();
  EXPECT_EQ(provider.behaviour.batches, (std::vector<int>{1, 1}));
}

TEST_F(ApplicationTest, ADeviceWithoutRoomForTheNetworkIsLeftOut) {
  provider.behaviour.gpus = {"cuda:0", "cuda:1"};
  provider.behaviour.without_network = {"cuda:0"};
  test::write_pair(folder.path(), "a", 1);
  EXPECT_EQ(run_folders({"--device", "all"}), 0);
  EXPECT_TRUE(says("warning: cuda:0 is not used: no memory left on cuda:0."));
  EXPECT_TRUE(says("HDFNet vgg16 on cuda:1"));
  provider.behaviour.without_network = {"cuda:0", "cuda:1"};
  EXPECT_EQ(run_folders({"--device", "all"}), 2);
  EXPECT_TRUE(says("error: no memory left on cuda:0."));
}

TEST_F(ApplicationTest, AnUnusedGpuIsAWarning) {
  test::write_pair(folder.path(), "a", 1);
  provider.behaviour.unused_gpu = "The GPU X is not used: this build has no CUDA kernels.";
  EXPECT_EQ(run_folders(), 0);
  EXPECT_TRUE(says("warning: The GPU X is not used"));
  EXPECT_EQ(run_folders({"--device", "cpu"}), 0);
  EXPECT_FALSE(says("GPU X"));
}

TEST_F(ApplicationTest, TimingIsMeasuredInPassesOfItsOwn) {
  for (const char* name : {"a", "b", "c"}) test::write_pair(folder.path(), name, name[0]);
  EXPECT_EQ(run_folders({"--timing", "--repeat", "4", "--warmup", "1", "--timing-json",
                         (folder / "t.json").string(), "--timing-csv", (folder / "t.csv").string(),
                         "--trace", (folder / "t.trace").string()}),
            0)
      << err.str();
  EXPECT_EQ(provider.behaviour.measured_passes, 1 + 1 + 4);
  EXPECT_TRUE(says("Module report"));
  EXPECT_TRUE(says("encoder1"));
  const json report = json::parse(test::read_text(folder / "t.json"));
  EXPECT_EQ(report["modules"][0]["calls"], 4);
  EXPECT_EQ(report["modules"][0]["cold_ms"], 103);
  EXPECT_EQ(report["header"]["fake library"], "1.2");
  EXPECT_EQ(report["stages"][0]["name"], "decode");
  EXPECT_EQ(report["stages"][0]["calls"], 2);  // three pairs, of them one cold
  EXPECT_FALSE(test::read_text(folder / "t.csv").empty());
  EXPECT_GT(json::parse(test::read_text(folder / "t.trace"))["traceEvents"].size(), 12u);
  EXPECT_EQ(lines(out.str()).size(), 3u);
}

TEST_F(ApplicationTest, AnInterruptEndsTheMeasuring) {
  for (const char* name : {"a", "b", "c"}) test::write_pair(folder.path(), name, name[0]);
  provider.behaviour.before_measuring = [] { std::raise(SIGINT); };
  EXPECT_EQ(run_folders({"--timing", "--report", (folder / "r.html").string()}), 130);
  EXPECT_EQ(provider.behaviour.measured_passes, 0);
  EXPECT_EQ(provider.behaviour.ceilings_measured, 0);
  EXPECT_TRUE(provider.behaviour.batches.empty());
  EXPECT_TRUE(says("0 written, 3 not done")) << err.str();
  EXPECT_FALSE(says("Module report"));
  EXPECT_NE(test::read_text(folder / "r.html").find("not_done"), std::string::npos);
}

TEST_F(ApplicationTest, ThePageShowsEveryPairAndTheModules) {
  for (const char* name : {"a", "b"}) test::write_pair(folder.path(), name, name[0]);
  test::write_text(folder / "depth/b.png", "no picture");
  EXPECT_EQ(run_folders({"--report", (folder / "r.html").string()}), 1);
  const std::string page = test::read_text(folder / "r.html");
  EXPECT_NE(page.find("class=\"pair failed\""), std::string::npos);
  EXPECT_NE(page.find("class=\"pair written\""), std::string::npos);
  EXPECT_NE(page.find("1 written, 1 failed"), std::string::npos);
  EXPECT_NE(page.find("data:image/jpeg;base64,"), std::string::npos);
  EXPECT_NE(page.find("encoder1"), std::string::npos);
  EXPECT_NE(page.find("depth-suffix: null"), std::string::npos);
  EXPECT_FALSE(says("Module report"));
}

TEST_F(ApplicationTest, TimingPassesOverPairsThatCannotBeRead) {
  for (const char* name : {"a", "b"}) test::write_pair(folder.path(), name, name[0]);
  test::write_text(folder / "rgb/a.png", "no picture");
  EXPECT_EQ(run_folders({"--timing"}), 1);
  EXPECT_TRUE(says("Module report"));
}

TEST_F(ApplicationTest, VerifyComparesAndWritesNothing) {
  for (const char* name : {"a", "b"}) test::write_pair(folder.path(), name, name[0]);
  EXPECT_EQ(run_folders({"--verify"}), 0) << err.str();
  EXPECT_NE(out.str().find("Tolerance 0.0001"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("ok    0.00e+00"), std::string::npos) << out.str();
  EXPECT_FALSE(fs::exists(folder / "out/a.png"));
  EXPECT_EQ(provider.behaviour.made,
            (std::vector<std::string>{"cpu fp32 fused", "cpu fp32 reference"}));
}

TEST_F(ApplicationTest, VerifyEndsWith1PastTheTolerance) {
  test::write_pair(folder.path(), "a", 1);
  int calls = 0;
  provider.behaviour.alter = [&](const std::string&, std::span<float> map) {
    if (++calls == 1) map[7] += 2e-4f;
  };
  EXPECT_EQ(run_folders({"--verify"}), 1);
  EXPECT_NE(out.str().find("OFF"), std::string::npos);
  for (const int network : {1, 2, 3}) {  // fused, reference, archive
    calls = 0;
    provider.behaviour.alter = [&](const std::string&, std::span<float> map) {
      if (++calls == network) map[7] = std::nanf("");
    };
    EXPECT_EQ(run_folders({"--verify"}), 1) << network;
  }
}

TEST_F(ApplicationTest, ListsComeFromStandardInput) {
  test::write_pair(folder.path(), "a", 1);
  in.str((folder / "rgb/a.png").string() + "\n");
  EXPECT_EQ(run({"--rgb", "-", "--depth", (folder / "depth").string(), "--out",
                 (folder / "out").string(), "--weights", (folder / "w.pt").string()}),
            0)
      << err.str();
  EXPECT_TRUE(fs::exists(folder / "out/a.png"));
}

}  // namespace
}  // namespace hdfnet::app
