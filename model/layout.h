#pragma once

// The fixed widths and stages of the three backbones (docs: README.md, "The network").

#include <array>
#include <cstdint>
#include <vector>

#include "hdfnet/architecture.h"

namespace hdfnet {

inline constexpr int64_t kTransportChannels = 64;  ///< width of the decoder from stride 2 down
inline constexpr int64_t kHeadChannels = 32;       ///< width of the two finest decoder stages
inline constexpr int64_t kDenseConvolutions = 4;   ///< convolutions of a dense block
inline constexpr int64_t kBottleneckExpansion = 4;

/// One slice of torchvision's vgg*_bn.features, renumbered from 0: the indices of its convolutions.
struct VggStage {
  int64_t channels;
  std::vector<int> convolutions;
  bool pool;  ///< the slice starts with the 2x2 max-pool
};

inline const std::vector<VggStage>& vgg_stages(Variant variant) {
  static const std::vector<VggStage> vgg16 = {{64, {0, 3}, false},
                                              {128, {1, 4}, true},
                                              {256, {1, 4, 7}, true},
                                              {512, {1, 4, 7}, true},
                                              {512, {1, 4, 7}, true}};
  static const std::vector<VggStage> vgg19 = {{64, {0, 3}, false},
                                              {128, {1, 4}, true},
                                              {256, {1, 4, 7, 10}, true},
                                              {512, {1, 4, 7, 10}, true},
                                              {512, {1, 4, 7, 10}, true}};
  return variant == Variant::vgg19 ? vgg19 : vgg16;
}

/// layer1..layer4 of ResNet-50.
struct ResnetStage {
  int64_t in_channels;
  int64_t width;
  int blocks;
  int stride;
};

inline const std::array<ResnetStage, 4>& resnet_stages() {
  static const std::array<ResnetStage, 4> stages = {
      {{64, 64, 3, 1}, {256, 128, 4, 2}, {512, 256, 6, 2}, {1024, 512, 3, 2}}};
  return stages;
}

/// Channels that the encoders give at a stride.
inline int64_t stage_channels(const Architecture& architecture, int stride) {
  size_t index = 0;
  while (architecture.strides[index] != stride) ++index;
  if (architecture.variant != Variant::resnet50) {
    return vgg_stages(architecture.variant)[index].channels;
  }
  return index == 0 ? 64 : resnet_stages()[index - 1].width * kBottleneckExpansion;
}

/// upconv stages, deepest first. ResNet-50 has no encoder at stride 1 but a last upconv1 all the
/// same.
inline std::vector<int> decoder_strides(const Architecture& architecture) {
  std::vector<int> result(architecture.strides.rbegin(), architecture.strides.rend());
  if (result.back() != 1) result.push_back(1);
  return result;
}

}  // namespace hdfnet
