#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "image/levels.h"
#include "image/pil_filter.h"

/// What one thread of the kernels in pictures.cu does, apart from finding its place: the same
/// functions are compared with the host's path where there is no device.
namespace hdfnet::app::cuda {

/// One pair on its way to the network: pictures of any size, and memory for the steps between.
struct InputJob {
  const unsigned char* rgb;    ///< (height,width,3)
  const unsigned char* depth;  ///< (height,width)
  int height;
  int width;
  int column_step;               ///< filter_step(width, network width)
  int row_step;                  ///< filter_step(height, network height)
  std::int32_t* column_filters;  ///< (network width,column_step)
  std::int32_t* row_filters;     ///< (network height,row_step)
  unsigned char* narrow;  ///< (height,network width,4): R, G, B and depth after the first pass
};

/// The network's input of one pair.
struct InputPlanes {
  float* rgb;    ///< (3,height,width)
  float* depth;  ///< (height,width)
  int height;
  int width;
};

/// One saliency map on its way to the picture's size.
struct LevelJob {
  const float* map;       ///< (map_height,map_width)
  unsigned char* levels;  ///< (height,width); null: stays a map
  int height;
  int width;
  double row_scale;     ///< between_scale(map_height, height)
  double column_scale;  ///< between_scale(map_width, width)
  float offset;         ///< level_offset()
};

// ---- Pillow's resize: the filters of both axes, along the rows, along the columns

/// Integers of one filter in memory: where it begins, how many weights it has, the weights.
inline int filter_step(int in, int out) {
  return 2 + pil_filter_width(in, out);
}

HDFNET_HOST_DEVICE inline void store_filter(std::int32_t* filter, int in, int out, int i) {
  const PilSpan span = pil_filter(in, out, i, filter + 2);
  filter[0] = span.first;
  filter[1] = span.count;
}

HDFNET_HOST_DEVICE inline std::int32_t* column_filter(const InputJob& job, int x) {
  return job.column_filters + static_cast<std::ptrdiff_t>(job.column_step) * x;
}

HDFNET_HOST_DEVICE inline std::int32_t* row_filter(const InputJob& job, int y) {
  return job.row_filters + static_cast<std::ptrdiff_t>(job.row_step) * y;
}

/// Filter `i` of the columns, then of the rows: 0 <= i < network width + network height.
HDFNET_HOST_DEVICE inline void make_filter(const InputJob& job, const InputPlanes& to, int i) {
  if (i < to.width) {
    store_filter(column_filter(job, i), job.width, to.width, i);
  } else {
    store_filter(row_filter(job, i - to.width), job.height, to.height, i - to.width);
  }
}

/// One pixel of the first pass: 0 <= y < job.height, 0 <= x < to.width.
HDFNET_HOST_DEVICE inline void narrow_pixel(const InputJob& job, const InputPlanes& to, int y,
                                            int x) {
  const std::int32_t* const filter = column_filter(job, x);
  const std::size_t from = static_cast<std::size_t>(y) * job.width + filter[0];
  unsigned char* const pixel = job.narrow + 4 * (static_cast<std::size_t>(y) * to.width + x);
  for (int c = 0; c < 3; ++c) {
    pixel[c] = pil_sample(job.rgb + 3 * from + c, 3, filter + 2, filter[1]);
  }
  pixel[3] = pil_sample(job.depth + from, 1, filter + 2, filter[1]);
}

/// One pixel of the second pass, normalised: 0 <= y < to.height, 0 <= x < to.width.
HDFNET_HOST_DEVICE inline void input_pixel(const InputJob& job, const InputPlanes& to, int y,
                                           int x) {
  const std::int32_t* const filter = row_filter(job, y);
  const std::ptrdiff_t row = std::ptrdiff_t{4} * to.width;
  const unsigned char* const from = job.narrow + filter[0] * row + std::ptrdiff_t{4} * x;
  const auto byte = [&](int c) { return pil_sample(from + c, row, filter + 2, filter[1]); };
  const std::size_t plane = static_cast<std::size_t>(to.height) * to.width;
  const std::size_t at = static_cast<std::size_t>(y) * to.width + x;
  to.rgb[at] = red_level(byte(0));
  to.rgb[plane + at] = green_level(byte(1));
  to.rgb[2 * plane + at] = blue_level(byte(2));
  to.depth[at] = depth_level(byte(3));
}

// ---- cv::resize(INTER_LINEAR) of a float map, to the bit. An OpenCV that was built with fused
// operations (not its usual form on x86-64) rounds less often, and differs by one grey level in a
// pixel or so of a picture.

/// Two samples of an axis and their weights.
struct Between {
  int first;
  int second;
  float first_weight;
  float second_weight;
};

/// Inputs a step of the output, as OpenCV rounds it.
inline double between_scale(int in, int out) {
  return 1.0 / (static_cast<double>(out) / in);
}

/// Where output `i` lies among the inputs of an axis, as a whole number and a fraction.
HDFNET_HOST_DEVICE inline Between between(double scale, int i) {
  const auto position = static_cast<float>(exact::sum(exact::product(i + 0.5, scale), -0.5));
  const int first = static_cast<int>(std::floor(position));
  const float fraction = exact::sum(position, -static_cast<float>(first));
  return {first, first + 1, exact::sum(1.0F, -fraction), fraction};
}

/// Along a row, what lies outside counts as the outermost sample alone.
HDFNET_HOST_DEVICE inline Between between_columns(int in, double scale, int i) {
  const Between result = between(scale, i);
  if (result.first < 0) return {0, 0, 1.0F, 0.0F};
  if (result.second >= in) return {in - 1, in - 1, 1.0F, 0.0F};
  return result;
}

/// Along a column, both samples are the outermost one, and keep their weights.
HDFNET_HOST_DEVICE inline Between between_rows(int in, double scale, int i) {
  Between result = between(scale, i);
  const auto inside = [&](int row) { return row < 0 ? 0 : row < in ? row : in - 1; };
  result.first = inside(result.first);
  result.second = inside(result.second);
  return result;
}

HDFNET_HOST_DEVICE inline float weighted(float first, float second, const Between& between) {
  return exact::sum(exact::product(first, between.first_weight),
                    exact::product(second, between.second_weight));
}

/// One pixel of the levels: 0 <= y < job.height, 0 <= x < job.width.
HDFNET_HOST_DEVICE inline void level_pixel(const LevelJob& job, int map_height, int map_width,
                                           int y, int x) {
  const Between across = between_columns(map_width, job.column_scale, x);
  const Between down = between_rows(map_height, job.row_scale, y);
  const auto in_row = [&](int row) {
    const float* const from = job.map + static_cast<std::size_t>(row) * map_width;
    return weighted(from[across.first], from[across.second], across);
  };
  const float saliency = weighted(in_row(down.first), in_row(down.second), down);
  job.levels[static_cast<std::size_t>(y) * job.width + x] =
      static_cast<unsigned char>(scaled_level(saliency, 255.0F, job.offset));
}

/// OpenCV takes the mean of four samples, in an order that depends on the processor, where both
/// sides are halved exactly.
inline bool is_halved(int map_height, int map_width, int height, int width) {
  return map_height == 2 * height && map_width == 2 * width;
}

}  // namespace hdfnet::app::cuda
