// Any bytes as a picture: an ImageError, or pixels of the promised kind.

#include <opencv2/core.hpp>

#include "fuzzer.h"
#include "image/depth.h"
#include "image/read.h"

using namespace hdfnet::app;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    ReadInfo info;
    const cv::Mat rgb = decode_rgb(bytes, "fuzz", info);
    HDFNET_REQUIRE(rgb.type() == CV_8UC3 && !rgb.empty());
    HDFNET_REQUIRE(rgb.total() <= static_cast<std::size_t>(kMaxPixels));
    HDFNET_REQUIRE(info.exif_orientation >= 0 && info.exif_orientation <= 8);
  } catch (const ImageError& error) {
    HDFNET_REQUIRE(std::string_view(error.what()).starts_with("'fuzz'"));
  }
  try {
    const RawDepth raw = decode_depth_raw(bytes, "fuzz");
    HDFNET_REQUIRE(raw.values.channels() == 1 && !raw.values.empty());
    HDFNET_REQUIRE(raw.valid.empty() || raw.valid.size() == raw.values.size());
    const DepthResult depth = depth_to_8bit(raw, {}, "fuzz");
    HDFNET_REQUIRE(depth.depth8.type() == CV_8UC1 && depth.depth8.size() == raw.values.size());
  } catch (const ImageError& error) {
    HDFNET_REQUIRE(std::string_view(error.what()).starts_with("'fuzz'"));
  }
  return 0;
}
