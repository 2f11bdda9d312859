#pragma once

#include <opencv2/core.hpp>

namespace hdfnet::app::test {

/// Up and down, even and odd, one side alone, single pixels, as large as the network's and twice.
inline const cv::Size kPictureSizes[] = {
    {1, 1},     {1, 7},     {5, 1},     {2, 2},     {3, 3},      {16, 16},
    {31, 17},   {48, 40},   {96, 80},   {160, 160}, {320, 320},  {319, 321},
    {320, 240}, {240, 320}, {640, 320}, {640, 480}, {641, 479},  {640, 640},
    {333, 1},   {1, 500},   {997, 13},  {13, 997},  {1224, 370}, {1000, 701}};

inline const cv::Size kNetworkSizes[] = {{320, 320}, {48, 40}, {65, 33}};

struct PicturePair {
  cv::Mat rgb;    ///< CV_8UC3
  cv::Mat depth;  ///< CV_8UC1
};

/// Pictures of random bytes, the extremes among them.
inline PicturePair picture_pair(cv::Size size, unsigned seed) {
  cv::RNG random(seed);
  PicturePair pair{cv::Mat(size, CV_8UC3), cv::Mat(size, CV_8UC1)};
  random.fill(pair.rgb, cv::RNG::UNIFORM, -60, 316);
  random.fill(pair.depth, cv::RNG::UNIFORM, -60, 316);
  return pair;
}

/// A map of random numbers in 0..1, a little outside too, as a network may give them.
inline cv::Mat saliency_map(cv::Size size, unsigned seed) {
  cv::RNG random(seed);
  cv::Mat map(size, CV_32FC1);
  random.fill(map, cv::RNG::UNIFORM, -0.01, 1.01);
  return map;
}

}  // namespace hdfnet::app::test
