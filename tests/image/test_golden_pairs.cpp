// Real pairs of the shared material against check sums of what the reference's own steps make of
// them in Pillow (golden.csv).

#include <gtest/gtest.h>

#include <opencv2/core.hpp>

#include "image/depth.h"
#include "image/pil.h"
#include "image/read.h"
#include "support.h"

namespace hdfnet::app::test {
namespace {

const cv::Size kNetworkSize(320, 320);

cv::Mat prepared(const std::filesystem::path& file, const std::string& name) {
  if (name.ends_with(".jpg")) {
    ReadInfo info;
    return pil_resize_bilinear(read_rgb(file, info), kNetworkSize);
  }
  const DepthResult depth = depth_to_8bit(read_depth_raw(file), {}, name);
  EXPECT_TRUE(depth.warnings.empty()) << joined(depth.warnings);
  EXPECT_EQ(depth.scaled, name.starts_with("nlpr16"));
  return depth.scaled ? depth.depth8 : pil_resize_bilinear(depth.depth8, kNetworkSize);
}

TEST(GoldenPairs, PreparationEqualsTheReference) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << "the shared material is not here (set HDFNET_SHARED)";
  for (const CsvRow& row : read_csv(data_folder() / "golden.csv")) {
    SCOPED_TRACE(row.at("file"));
    const cv::Mat image = prepared(*shared / "data" / "pairs" / row.at("file"), row.at("file"));
    EXPECT_EQ(crc32(image), std::stoul(row.at("crc32")));
  }
}

}  // namespace
}  // namespace hdfnet::app::test
