#pragma once

#include <opencv2/core/mat.hpp>

#include "image/source.h"

namespace hdfnet::app {

/// Makes a decoded picture (channels as in decoders.h) into depth: one channel of numbers, and a
/// mask where its alpha is 0. See decode_depth_raw for what becomes of colours.
RawDepth to_raw_depth(const Source& source, const cv::Mat& pixels);

}  // namespace hdfnet::app
