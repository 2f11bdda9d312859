// hdfnet-eval as its user meets it: folders in, status and sentences out.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <opencv2/core.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "eval/tool.h"
#include "image/saliency_output.h"
#include "reference_cases.h"

namespace hdfnet::eval {
namespace {

namespace fs = std::filesystem;

class EvalTool : public testing::Test {
 protected:
  EvalTool() {
    std::random_device random;
    root_ = fs::temp_directory_path() / ("hdfnet_eval_" + std::to_string(random()));
    fs::create_directories(root_);
  }
  ~EvalTool() override { fs::remove_all(root_); }

  void save(const std::string& file, const cv::Mat& image) {
    app::write_file(root_ / file, app::encode_png(image));
  }

  void save_case(int index, const std::string& name) {
    const test::Images images = test::make_images(test::reference()["cases"][index]);
    save("pred/" + name, images.prediction);
    save("gt/" + name, images.truth);
  }

  int evaluate(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"--pred", path("pred"), "--gt", path("gt")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    out_.str("");
    err_.str("");
    return run(arguments, out_, err_);
  }

  std::string path(const std::string& name) const { return (root_ / name).string(); }

  std::string content(const std::string& name) const {
    std::ifstream file(root_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path root_;
  std::ostringstream out_, err_;
};

TEST_F(EvalTool, ScoresFoldersWithAnyNumberOfThreads) {
  const auto& cases = test::reference()["cases"];
  for (std::size_t i = 0; i < cases.size(); ++i) {
    save_case(static_cast<int>(i), "s/" + cases[i]["name"].get<std::string>() + ".png");
  }
  ASSERT_EQ(evaluate({"--threads", "1", "--json", path("one.json")}), 0) << err_.str();
  const std::string table = out_.str();
  ASSERT_EQ(evaluate({"--threads", "5", "--json", path("five.json")}), 0) << err_.str();
  EXPECT_EQ(table, out_.str());
  EXPECT_EQ(content("one.json"), content("five.json"));
  const auto document = nlohmann::json::parse(content("one.json"));
  EXPECT_EQ(document["images"], cases.size());
  EXPECT_EQ(document["each"].size(), cases.size());
  const auto& expected = test::reference()["all_cases"];
  for (const auto& [key, value] : document["mean"].items()) {
    EXPECT_NEAR(value.get<double>(), expected[key].get<double>(), 1e-6) << key;
  }
}

TEST_F(EvalTool, AMaskWithoutMapIsNamedAndFails) {
  save_case(0, "a.png");
  save("gt/sub/b.png", cv::Mat::zeros(4, 4, CV_8U));
  EXPECT_EQ(evaluate(), 1);
  EXPECT_NE(err_.str().find("b.png' has no saliency map"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("1 of 2 true masks could not be scored"), std::string::npos)
      << err_.str();
  EXPECT_NE(out_.str().find("1 image\n"), std::string::npos) << out_.str();
}

TEST_F(EvalTool, AMapWithoutMaskIsLeftOut) {
  save_case(0, "a.png");
  save("pred/a_overlay.png", cv::Mat::zeros(4, 4, CV_8UC3));
  EXPECT_EQ(evaluate(), 0);
  EXPECT_NE(err_.str().find("without a true mask, left out: 1"), std::string::npos) << err_.str();
}

TEST_F(EvalTool, OtherSizesAndBrokenFilesAreNamedAndFail) {
  save_case(0, "a.png");
  save("gt/b.png", cv::Mat::zeros(4, 5, CV_8U));
  save("pred/b.png", cv::Mat::zeros(5, 4, CV_8U));
  save("gt/c.png", cv::Mat::zeros(4, 5, CV_8U));
  std::ofstream(root_ / "pred/c.png") << "no picture";
  EXPECT_EQ(evaluate(), 1);
  EXPECT_NE(err_.str().find("b.png': the saliency map is 4x5, but the true mask is 5x4"),
            std::string::npos)
      << err_.str();
  EXPECT_NE(err_.str().find("c.png'"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("2 of 3"), std::string::npos) << err_.str();
}

TEST_F(EvalTool, NothingToCompareFails) {
  save("gt/b.png", cv::Mat::zeros(4, 5, CV_8U));
  fs::create_directories(root_ / "pred");
  EXPECT_EQ(evaluate(), 1);
  fs::remove_all(root_ / "gt");
  EXPECT_EQ(evaluate(), 2);
  EXPECT_NE(err_.str().find("is not there"), std::string::npos) << err_.str();
  fs::create_directories(root_ / "gt");
  EXPECT_EQ(evaluate(), 2);
  EXPECT_NE(err_.str().find("no image is in the folder of true masks"), std::string::npos)
      << err_.str();
}

TEST_F(EvalTool, TwoFilesOfOneNameAreAnError) {
  save_case(0, "a.png");
  save("gt/a.PNM", cv::Mat::zeros(4, 4, CV_8U));
  EXPECT_EQ(evaluate(), 2);
  EXPECT_NE(err_.str().find("have the same name"), std::string::npos) << err_.str();
}

TEST_F(EvalTool, SuffixesAreTakenOff) {
  const test::Images images = test::make_images(test::reference()["cases"][0]);
  save("pred/a_sal.png", images.prediction);
  save("gt/a_gt.png", images.truth);
  save("gt/a_rgb.png", images.truth);
  EXPECT_EQ(evaluate({"--pred-suffix", "_sal", "--gt-suffix", "_gt"}), 0) << err_.str();
}

TEST_F(EvalTool, UsageErrors) {
  std::ostringstream out, err;
  EXPECT_EQ(run({}, out, err), 2);
  EXPECT_NE(err.str().find("--pred"), std::string::npos);
  EXPECT_EQ(run({"--pred", "a", "--gt", "b", "--nonsense"}, out, err), 2);
  EXPECT_EQ(run({"--help"}, out, err), 0);
  EXPECT_EQ(run({"--version"}, out, err), 0);
}

TEST_F(EvalTool, AnUnwritableReportIsAnError) {
  save_case(0, "a.png");
  std::ofstream(root_ / "file") << "x";
  EXPECT_EQ(evaluate({"--json", path("file/x.json")}), 2);
  EXPECT_NE(err_.str().find("x.json"), std::string::npos) << err_.str();
}

}  // namespace
}  // namespace hdfnet::eval
