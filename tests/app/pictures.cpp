#include "pictures.h"

#include <fstream>
#include <iterator>
#include <opencv2/imgcodecs.hpp>
#include <vector>

#include "image/saliency_output.h"

namespace hdfnet::app::test {

cv::Mat rgb_picture(int width, int height, int seed) {
  cv::Mat picture(height, width, CV_8UC3);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      picture.at<cv::Vec3b>(y, x) = {static_cast<uchar>(5 * x + seed), static_cast<uchar>(3 * y),
                                     static_cast<uchar>(x + y + 7 * seed)};
    }
  }
  return picture;
}

cv::Mat depth_picture(int width, int height, int seed) {
  cv::Mat picture(height, width, CV_8UC1);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      picture.at<uchar>(y, x) = static_cast<uchar>(20 + 2 * x + y + 11 * seed % 90);
    }
  }
  return picture;
}

void write_png(const std::filesystem::path& file, const cv::Mat& picture) {
  write_file(file, encode_png(picture));
}

void write_pair(const std::filesystem::path& folder, const std::filesystem::path& name, int seed,
                int width, int height) {
  const std::filesystem::path file(name.native() + ".png");
  write_png(folder / "rgb" / file, rgb_picture(width, height, seed));
  write_png(folder / "depth" / file, depth_picture(width, height, seed));
}

cv::Mat read_png(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
  if (bytes.empty()) return {};
  return cv::imdecode(bytes, cv::IMREAD_UNCHANGED);
}

}  // namespace hdfnet::app::test
