// Stands in for tiff.cpp in a build without libtiff.

#include "image/decoders.h"

namespace hdfnet::app {

bool tiff_supported() {
  return false;
}

cv::Mat decode_tiff(const Source& source) {
  source.fail(
      "is a TIFF, which this build cannot read (it was made without libtiff): convert it to PNG.");
}

}  // namespace hdfnet::app
