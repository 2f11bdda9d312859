#pragma once

#include <opencv2/core/mat.hpp>
#include <string>

#include "hdfnet/predictor.h"
#include "image/depth.h"
#include "image/read.h"

namespace hdfnet {

/// An RGB picture in memory as hdfnet-infer would have read it: CV_8UC3, R,G,B. Throws
/// app::ValueError for a Mat that is none.
cv::Mat to_rgb8(const cv::Mat& picture, ChannelOrder order);

/// A depth map in memory as hdfnet-infer would have read it. `label` is what warnings call it;
/// `order` is that of its channels, where it has three. Throws app::ValueError for a Mat that is
/// none.
app::RawDepth to_raw_depth(const cv::Mat& depth, ChannelOrder order, const std::string& label);

}  // namespace hdfnet
