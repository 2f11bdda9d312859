// The resizes and the grey conversion against check sums of Pillow's own results (resize.csv).

#include <gtest/gtest.h>

#include <opencv2/core.hpp>

#include "image/pil.h"
#include "support.h"

namespace hdfnet::app::test {
namespace {

int number(const CsvRow& row, const char* column) {
  return std::stoi(row.at(column));
}

/// The input of a row, by the rule that make_data.py uses too.
cv::Mat input_of(const CsvRow& row) {
  const int channels = number(row, "channels");
  cv::Mat image(number(row, "height"), number(row, "width"), CV_8UC(channels));
  const std::vector<unsigned char> bytes =
      ruled_bytes(std::stoull(row.at("seed")), image.total() * static_cast<std::size_t>(channels));
  std::copy(bytes.begin(), bytes.end(), image.data);
  return image;
}

std::string describe(const CsvRow& row) {
  return row.at("width") + "x" + row.at("height") + "x" + row.at("channels") + " -> " +
         row.at("new_width") + "x" + row.at("new_height");
}

TEST(Pil, ResizesAndGreyEqualPillow) {
  for (const CsvRow& row : read_csv(data_folder() / "resize.csv")) {
    SCOPED_TRACE(describe(row));
    const cv::Mat image = input_of(row);
    const cv::Size size(number(row, "new_width"), number(row, "new_height"));
    EXPECT_EQ(crc32(pil_resize_bilinear(image, size)), std::stoul(row.at("bilinear_crc32")));
    EXPECT_EQ(crc32(pil_resize_nearest(image, size)), std::stoul(row.at("nearest_crc32")));
    const cv::Mat grey = image.channels() == 3 ? pil_grey(image) : image;
    EXPECT_EQ(crc32(grey), std::stoul(row.at("grey_crc32")));
  }
}

TEST(Pil, ViewsWithGapsBetweenRowsWork) {
  cv::Mat whole(20, 30, CV_8UC3);
  const auto bytes = ruled_bytes(1, whole.total() * 3);
  std::copy(bytes.begin(), bytes.end(), whole.data);
  const cv::Mat view = whole(cv::Rect(5, 3, 11, 13));
  const cv::Mat copy = view.clone();
  for (const cv::Size size : {cv::Size(7, 5), cv::Size(11, 30), cv::Size(40, 13)}) {
    EXPECT_EQ(largest_difference(pil_resize_bilinear(view, size), pil_resize_bilinear(copy, size)),
              0);
    EXPECT_EQ(largest_difference(pil_resize_nearest(view, size), pil_resize_nearest(copy, size)),
              0);
  }
  EXPECT_EQ(largest_difference(pil_grey(view), pil_grey(copy)), 0);
}

TEST(Pil, OtherTypesAndEmptySizesAreRefused) {
  EXPECT_THROW(pil_resize_bilinear(cv::Mat(4, 4, CV_32FC1), {2, 2}), std::invalid_argument);
  EXPECT_THROW(pil_resize_bilinear(cv::Mat(4, 4, CV_8UC1), {0, 2}), std::invalid_argument);
  EXPECT_THROW(pil_resize_bilinear(cv::Mat(0, 0, CV_8UC1), {2, 2}), std::invalid_argument);
  EXPECT_THROW(pil_resize_nearest(cv::Mat(4, 4, CV_8UC1), {2, -1}), std::invalid_argument);
  EXPECT_THROW(pil_grey(cv::Mat(4, 4, CV_8UC1)), std::invalid_argument);
}

}  // namespace
}  // namespace hdfnet::app::test
