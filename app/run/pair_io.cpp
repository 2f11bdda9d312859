#include "run/pair_io.h"

#include "image/network_input.h"
#include "image/pil.h"

namespace hdfnet::app {

std::size_t size_of(const LoadedPair& pair) {
  std::size_t bytes = 0;
  for (const cv::Mat* picture : {&pair.rgb, &pair.small_rgb, &pair.small_depth}) {
    if (!picture->empty()) bytes += picture->total() * picture->elemSize();
  }
  return bytes;
}

void store_input(const cv::Mat& rgb, const cv::Mat& depth, const std::optional<LevelMap>& map,
                 const Planes& planes) {
  const cv::Size size(planes.width, planes.height);
  if (planes.pictures != nullptr) {
    planes.pictures->put(rgb, depth, size, map);
  } else {
    rgb_to_planes(pil_resize_bilinear(rgb, size), planes.rgb);
    depth_to_plane(pil_resize_bilinear(depth, size), planes.depth);
  }
}

}  // namespace hdfnet::app
