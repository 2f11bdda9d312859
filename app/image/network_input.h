#pragma once

#include <opencv2/core/mat.hpp>

namespace hdfnet::app {

/// Writes an RGB picture (CV_8UC3, R,G,B, already at the network's size) as three planes of
/// rows*cols floats: ((x / 255) - mean) / std with ImageNet's constants, each step in float32 as
/// torchvision's ToTensor and Normalize do. `planes` holds 3*rows*cols floats.
void rgb_to_planes(const cv::Mat& rgb, float* planes);

/// Writes an 8-bit depth map (CV_8UC1) as one plane of rows*cols floats x / 255.
void depth_to_plane(const cv::Mat& depth, float* plane);

}  // namespace hdfnet::app
