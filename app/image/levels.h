#pragma once

#include "image/exact.h"

/// From bytes to the network's numbers and back, one sample at a time, for the host and the device.
namespace hdfnet::app {

/// ((byte / 255) - mean) / deviation, each step in float32 as torchvision does.
HDFNET_HOST_DEVICE inline float normalised_level(int byte, float mean, float deviation) {
  const float unit = exact::quotient(static_cast<float>(byte), 255.0F);
  return exact::quotient(exact::sum(unit, -mean), deviation);
}

// With ImageNet's mean and deviation.
HDFNET_HOST_DEVICE inline float red_level(int byte) {
  return normalised_level(byte, 0.485F, 0.229F);
}
HDFNET_HOST_DEVICE inline float green_level(int byte) {
  return normalised_level(byte, 0.456F, 0.224F);
}
HDFNET_HOST_DEVICE inline float blue_level(int byte) {
  return normalised_level(byte, 0.406F, 0.225F);
}

HDFNET_HOST_DEVICE inline float depth_level(int byte) {
  return normalised_level(byte, 0.0F, 1.0F);
}

/// Of a saliency in 0..1: a number from 0 to `most` whose whole part is the level. `offset` is 0.5
/// to round to the nearest level, 0 to cut.
HDFNET_HOST_DEVICE inline float scaled_level(float saliency, float most, float offset) {
  const float level = exact::sum(exact::product(saliency, most), offset);
  return level < 0.0F ? 0.0F : most < level ? most : level;
}

}  // namespace hdfnet::app
