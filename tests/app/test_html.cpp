#include <gtest/gtest.h>

#include <opencv2/core.hpp>

#include "html/charts.h"
#include "html/encoding.h"
#include "html/page.h"
#include "pictures.h"
#include "require.h"

namespace hdfnet::app {
namespace {

std::string encoded(const std::string& text) {
  return base64({reinterpret_cast<const unsigned char*>(text.data()), text.size()});
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(Encoding, Base64OfRfc4648) {
  EXPECT_EQ(encoded(""), "");
  EXPECT_EQ(encoded("f"), "Zg==");
  EXPECT_EQ(encoded("fo"), "Zm8=");
  EXPECT_EQ(encoded("foo"), "Zm9v");
  EXPECT_EQ(encoded("foobar"), "Zm9vYmFy");
  EXPECT_EQ(encoded("\xFF\xFE\xFD"), "//79");
}

TEST(Encoding, HtmlTextIsInert) {
  EXPECT_EQ(html_text("<script>\"a\" & 'b'"), "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;");
  EXPECT_EQ(html_text("\xFF"), "\xEF\xBF\xBD");
}

ReportRow module(const std::string& name, double ms, double flop, double bytes, Bound bound) {
  ReportRow row;
  row.name = name;
  row.warm = summarize({ms, ms});
  row.share = ms / 10;
  row.flop = flop;
  row.bytes = bytes;
  row.bound = bound;
  return row;
}

ModuleReport report() {
  ModuleReport result;
  result.header = {{"device", "a <card>"}};
  result.modules = {module("encoder1", 7, 8e9, 1e7, Bound::compute),
                    module("classifier", 3, 1e6, 1e8, Bound::memory)};
  result.ceilings = Ceilings{2e12, 1e11};
  result.warnings = {"times spread."};
  return result;
}

TEST(Charts, EveryModuleHasABarAndAPoint) {
  const std::string bars = module_bars(report());
  EXPECT_EQ(count(bars, "<rect"), 2u);
  EXPECT_NE(bars.find("encoder1"), std::string::npos);
  EXPECT_NE(bars.find("7.000 ms  70.0 %"), std::string::npos);
  // 3 ms are 3/7 of the longest bar.
  EXPECT_NE(bars.find("width=\"460.0\""), std::string::npos);
  EXPECT_NE(bars.find("width=\"197.1\""), std::string::npos);
  const std::string roof = roofline(report());
  EXPECT_EQ(count(roof, "<circle"), 2u);
  EXPECT_EQ(roof.find("nan"), std::string::npos);
  EXPECT_EQ(roof.find("inf"), std::string::npos);
}

TEST(Charts, WithoutFiguresThereIsASentence) {
  ModuleReport empty;
  EXPECT_NE(module_bars(empty).find("<p>"), std::string::npos);
  EXPECT_NE(roofline(empty).find("not measured"), std::string::npos);
  empty = report();
  empty.ceilings.reset();
  EXPECT_NE(roofline(empty).find("not measured"), std::string::npos);
}

TEST(Gallery, GivesOutABoundedNumberOfPlaces) {
  Gallery gallery(2);
  EXPECT_TRUE(gallery.claim());
  EXPECT_TRUE(gallery.claim());
  EXPECT_FALSE(gallery.claim());
  Thumbnails thumbnails;
  thumbnails.mean_saliency = 0.5;
  gallery.add("a", thumbnails);
  EXPECT_DOUBLE_EQ(test::require(gallery.take("a")).mean_saliency, 0.5);
  EXPECT_FALSE(gallery.take("a").has_value());
}

TEST(Gallery, ShrinksToThumbnails) {
  EXPECT_EQ(shrink(test::rgb_picture(800, 400, 1)).size(), cv::Size(200, 100));
  EXPECT_EQ(shrink(test::rgb_picture(40, 30, 1)).size(), cv::Size(40, 30));
  EXPECT_EQ(shrink(test::rgb_picture(1000, 2, 1)).size(), cv::Size(200, 1));
  const cv::Mat map(30, 40, CV_16UC1, cv::Scalar(32896));
  const Thumbnails thumbnails =
      make_thumbnails(test::rgb_picture(40, 30, 1), test::depth_picture(40, 30, 1), map);
  EXPECT_NEAR(thumbnails.mean_saliency, 128 / 255.0, 1e-6);
  for (const std::string* address :
       {&thumbnails.rgb, &thumbnails.depth, &thumbnails.map, &thumbnails.overlay}) {
    EXPECT_EQ(address->rfind("data:image/jpeg;base64,/9j/", 0), 0u) << address->substr(0, 40);
  }
}

TEST(Page, FailuresComeFirstAndNothingIsLoaded) {
  PageContent content;
  content.summary = "1 written, 1 failed";
  content.settings = "rgb: \"<here>\"";
  PageEntry good{"good", {}, Thumbnails{"data:image/jpeg;base64,AA==", "", "", "", 0.25}};
  good.result.status = Status::written;
  PageEntry bad{"bad<b>", {}, std::nullopt};
  bad.result.status = Status::failed;
  bad.result.error = "bad.jpg is cut off.";
  content.entries = {good, bad};
  content.report = report();
  const std::string page = report_page(content);
  EXPECT_LT(page.find("bad&lt;b&gt;"), page.find(">good<"));
  EXPECT_NE(page.find("bad.jpg is cut off."), std::string::npos);
  EXPECT_NE(page.find("mean saliency 0.250"), std::string::npos);
  EXPECT_NE(page.find("&lt;here&gt;"), std::string::npos);
  EXPECT_NE(page.find("Roofline"), std::string::npos);
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  // Self-contained: no address leads out of the page.
  EXPECT_EQ(page.find("http"), std::string::npos);
  EXPECT_EQ(page.find("src=\"/"), std::string::npos);
  EXPECT_EQ(page.find("<link"), std::string::npos);
}

}  // namespace
}  // namespace hdfnet::app
