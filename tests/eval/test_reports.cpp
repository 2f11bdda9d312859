#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "eval/precision_recall_plot.h"
#include "eval/report.h"
#include "reference_cases.h"

namespace hdfnet::eval {
namespace {

FolderScores one_image(const std::string& name) {
  const test::Images images = test::make_images(test::reference()["cases"][0]);
  FolderScores folder;
  folder.names.push_back(name);
  folder.scores.push_back(score(images.prediction, images.truth));
  return folder;
}

TEST(Reports, CsvHasALineForEachImageAndTheMean) {
  const FolderScores folder = one_image("a \"quoted\", name");
  const std::string csv = to_csv(summarise(folder.scores), folder);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  EXPECT_TRUE(csv.starts_with(
      "name,mae,max_f,mean_f,adaptive_f,weighted_f,s_measure,max_e,mean_e,adaptive_e\r\n"));
  EXPECT_NE(csv.find("\r\n\"a \"\"quoted\"\", name\","), std::string::npos) << csv;
  EXPECT_NE(csv.find("\r\nmean,"), std::string::npos) << csv;
}

TEST(Reports, CurvesCsvGoesDownFrom255) {
  const FolderScores folder = one_image("a");
  const std::string csv = curves_to_csv(summarise(folder.scores));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 257);
  EXPECT_NE(csv.find("\n255,"), std::string::npos);
  EXPECT_NE(csv.find("\n0,"), std::string::npos);
}

TEST(Reports, JsonSurvivesNamesThatAreNotUtf8) {
  const FolderScores folder = one_image("\xff\xfe");
  const auto document = nlohmann::json::parse(to_json(summarise(folder.scores), folder));
  EXPECT_EQ(document["images"], 1);
  EXPECT_EQ(document["curves"]["precision"].size(), 256);
}

TEST(Reports, SvgIsOnePictureWithTheTitleEscaped) {
  const FolderScores folder = one_image("a");
  const std::string svg = precision_recall_svg(summarise(folder.scores), "maps <1> & 2");
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("maps &lt;1&gt; &amp; 2"), std::string::npos);
  EXPECT_NE(svg.find("max F = "), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

}  // namespace
}  // namespace hdfnet::eval
