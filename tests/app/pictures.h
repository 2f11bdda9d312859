#pragma once

#include <filesystem>
#include <opencv2/core/mat.hpp>

namespace hdfnet::app::test {

/// An RGB picture and an 8-bit depth map whose pixels depend on `seed`.
cv::Mat rgb_picture(int width, int height, int seed);
cv::Mat depth_picture(int width, int height, int seed);

void write_png(const std::filesystem::path& file, const cv::Mat& picture);

/// FOLDER/rgb/NAME.png and FOLDER/depth/NAME.png.
void write_pair(const std::filesystem::path& folder, const std::filesystem::path& name, int seed,
                int width = 48, int height = 40);

/// A PNG as stored (grey 8 or 16 bit, RGB, RGBA).
cv::Mat read_png(const std::filesystem::path& file);

}  // namespace hdfnet::app::test
