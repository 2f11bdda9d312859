#pragma once

#include <opencv2/core/mat.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "image/read.h"

namespace hdfnet::app {

/// How stored numbers become 0..255 (--depth-range).
struct DepthRange {
  enum class Kind {
    automatic,  ///< 8-bit as it is; anything else as minmax
    none,       ///< the type's full range: 8-bit as it is, 16-bit / 257, floats 0..1 times 255
    minmax,     ///< per image: round(255 * (d - min) / (max - min)) over the valid pixels
    fixed,      ///< the same with low and high given, clamped
  };
  Kind kind = Kind::automatic;
  double low = 0;   ///< fixed only
  double high = 0;  ///< fixed only
};

/// Which number marks a pixel without a reading (--depth-hole).
///
/// Never valid, whatever is set: NaN, infinities, values >= 1e10, negative values, pixels whose
/// alpha is 0. An 8-bit map that is used as it is (automatic, none) has no holes of value 0, since
/// there 0 is the nearest depth; another value is looked for there too.
struct DepthHole {
  enum class Kind { none, value };
  Kind kind = Kind::value;
  double value = 0;
};

struct DepthPolicy {
  DepthRange range;
  bool invert = false;  ///< the file has near = bright; the network was trained on near = dark
  DepthHole hole;
};

/// "auto", "none", "minmax" or "LO:HI" (LO < HI, in the file's own units). Throws
/// std::invalid_argument with a sentence.
DepthRange parse_depth_range(std::string_view text);

/// "none" or a number. Throws std::invalid_argument with a sentence.
DepthHole parse_depth_hole(std::string_view text);

/// A map without any contrast, or without one valid pixel, becomes this level everywhere: the
/// middle of what the network was trained on, so that it decides by colour.
inline constexpr int kFlatDepthLevel = 128;

struct DepthResult {
  cv::Mat depth8;  ///< CV_8UC1, near = dark
  bool scaled =
      false;  ///< the numbers were scaled by low..high, which is worth one line in the log
  double low = 0;
  double high = 0;
  double valid_fraction = 1;
  std::vector<std::string> warnings;  ///< sentences that name the file
};

/// Turns stored depth into the network's 8-bit map, at the depth's own size.
///
/// Holes are filled with the farther of the nearest valid pixels to the left and to the right (rows
/// without any: from the nearest row that has some). Sensors lose readings mostly in the shadow
/// beside an object's edge, which belongs to the background; filling with the hole's own 0 would
/// mean "nearest" and draw a salient object there. One pass over the rows, no iteration.
DepthResult depth_to_8bit(const RawDepth& raw, const DepthPolicy& policy, std::string_view label);

/// depth_to_8bit, then Pillow's bilinear resize to the RGB's (upright) size, as the reference does.
///
/// Aspect ratios that differ by more than 2 % are a warning; when EXIF turned only one of the two
/// pictures by 90 degrees they are an ImageError, because the depth would be stretched across the
/// picture.
DepthResult depth_for_rgb(const RawDepth& raw, const DepthPolicy& policy, std::string_view label,
                          cv::Size rgb_size, const ReadInfo& rgb_info);

}  // namespace hdfnet::app
