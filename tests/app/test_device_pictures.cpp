// The way of pictures over a GPU, compared with the host's path byte for byte. Skips without a GPU.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <opencv2/core.hpp>
#include <vector>

#include "cuda/device_pictures.h"
#include "host_memory.h"
#include "image/network_input.h"
#include "image/pil.h"
#include "image/saliency_output.h"
#include "picture_sizes.h"
#include "run/staging.h"
#include "torch_network.h"

namespace hdfnet::app::test {
namespace {

/// Pairs in page-locked memory, as the pipeline hands them to a network.
class StagedBatch {
 public:
  StagedBatch(const std::vector<cv::Size>& sizes, cv::Size network, unsigned seed,
              const MapStyle& style = {})
      : network_(network), staging_(sizes.size()) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      pairs.push_back(picture_pair(sizes[i], seed + static_cast<unsigned>(i)));
      staging_[i].use([](std::size_t count) { return host_floats(count, /*page_locked=*/true); });
      staging_[i].put(pairs[i].rgb, pairs[i].depth, network, finished_on_device(sizes[i], style));
      pictures_.push_back(staging_[i].pictures());
    }
  }

  BatchView view() const {
    return {nullptr,         nullptr,        static_cast<int>(pairs.size()),
            network_.height, network_.width, pictures_.data()};
  }

  std::vector<PicturePair> pairs;

 private:
  cv::Size network_;
  std::vector<Staging> staging_;
  std::vector<PairPictures> pictures_;
};

/// The same pairs as planes, prepared by the host.
class PlanesOfHost {
 public:
  PlanesOfHost(const std::vector<PicturePair>& pairs, cv::Size network) : network_(network) {
    const auto plane = static_cast<std::size_t>(network.area());
    rgb.resize(3 * plane * pairs.size());
    depth.resize(plane * pairs.size());
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      rgb_to_planes(pil_resize_bilinear(pairs[i].rgb, network), &rgb[3 * plane * i]);
      depth_to_plane(pil_resize_bilinear(pairs[i].depth, network), &depth[plane * i]);
    }
  }

  BatchView view() const {
    const auto count = depth.size() / static_cast<std::size_t>(network_.area());
    return {rgb.data(), depth.data(), static_cast<int>(count), network_.height, network_.width};
  }

  std::vector<float> rgb, depth;

 private:
  cv::Size network_;
};

std::vector<cv::Size> all_sizes() {
  return {std::begin(kPictureSizes), std::end(kPictureSizes)};
}

/// More than one launch takes, large and small ones mixed.
std::vector<cv::Size> many_sizes() {
  std::vector<cv::Size> sizes = all_sizes();
  for (int i = 0; i < 50; ++i) sizes.emplace_back(1 + 37 * i % 700, 1 + 53 * i % 500);
  return sizes;
}

bool same_bits(const at::Tensor& device, const std::vector<float>& host) {
  const at::Tensor tensor = device.cpu();
  return tensor.is_contiguous() && static_cast<std::size_t>(tensor.numel()) == host.size() &&
         std::memcmp(tensor.const_data_ptr<float>(), host.data(), tensor.nbytes()) == 0;
}

cv::Mat map_of(const at::Tensor& saliency, int index) {
  const at::Tensor map = saliency[index][0].contiguous();
  return cv::Mat(static_cast<int>(map.size(0)), static_cast<int>(map.size(1)), CV_32FC1,
                 map.mutable_data_ptr<float>())
      .clone();
}

class DevicePictures : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "needs a CUDA device";
  }
  const at::Device device_{at::kCUDA, 0};
};

TEST_F(DevicePictures, InputEqualsTheHostsBitForBit) {
  for (const cv::Size network : kNetworkSizes) {
    const StagedBatch batch(many_sizes(), network, 11);
    const PlanesOfHost expected(batch.pairs, network);
    const at::Tensor bytes = cuda::upload_pictures(batch.view(), device_);
    const cuda::NetworkInput input = cuda::make_input(bytes, batch.view());
    EXPECT_TRUE(same_bits(input.rgb, expected.rgb)) << network;
    EXPECT_TRUE(same_bits(input.depth, expected.depth)) << network;
  }
}

TEST_F(DevicePictures, LargePicturesTooAndThoseResizedOnTheHost) {
  const cv::Size network(320, 320);
  const StagedBatch batch({{1920, 1080}, {2500, 1700}, {1, 9000}, {6500, 322}, {322, 6500}},
                          network, 3);
  const PlanesOfHost expected(batch.pairs, network);
  const cuda::NetworkInput input =
      cuda::make_input(cuda::upload_pictures(batch.view(), device_), batch.view());
  EXPECT_TRUE(same_bits(input.rgb, expected.rgb));
  EXPECT_TRUE(same_bits(input.depth, expected.depth));
}

TEST_F(DevicePictures, LevelsEqualTheHosts) {
  for (const Rounding rounding : {Rounding::nearest, Rounding::truncate}) {
    const MapStyle style{8, rounding, Upsample::bilinear};
    for (const cv::Size network : kNetworkSizes) {
      const StagedBatch batch(many_sizes(), network, 5, style);
      const int count = batch.view().count;
      const at::Tensor saliency = at::rand({count, 1, network.height, network.width}) * 1.02 - 0.01;
      const at::Tensor there = saliency.to(device_);
      const Maps maps = cuda::fetch_maps(there, cuda::make_levels(there, batch.view()));
      ASSERT_EQ(maps.finished->size(), static_cast<std::size_t>(count));
      for (int i = 0; i < count; ++i) {
        const cv::Size size = batch.pairs[static_cast<std::size_t>(i)].rgb.size();
        SCOPED_TRACE(testing::Message() << network << " -> " << size);
        const cv::Mat map = map_of(saliency, i);
        if (size * 2 == network) {
          EXPECT_EQ(maps.levels(i), nullptr);
          EXPECT_EQ(std::memcmp(maps.map(i).data(), map.data, maps.plane() * sizeof(float)), 0);
          continue;
        }
        const cv::Mat expected = saliency_image(map, size, style);
        ASSERT_NE(maps.levels(i), nullptr);
        EXPECT_EQ(std::memcmp(maps.levels(i), expected.data, expected.total()), 0);
      }
    }
  }
}

TEST_F(DevicePictures, MapsThatAreNotFiniteAreNamed) {
  const StagedBatch batch({{40, 30}, {41, 31}, {42, 32}, {43, 33}}, {48, 40}, 1);
  at::Tensor saliency = at::rand({4, 1, 40, 48});
  saliency[1][0][39][47] = std::numeric_limits<float>::quiet_NaN();
  saliency[2][0][0][0] = -std::numeric_limits<float>::infinity();
  saliency = saliency.to(device_);
  const Maps maps = cuda::fetch_maps(saliency, cuda::make_levels(saliency, batch.view()));
  EXPECT_TRUE(maps.finished->at(0).finite);
  EXPECT_FALSE(maps.finished->at(1).finite);
  EXPECT_FALSE(maps.finished->at(2).finite);
  EXPECT_TRUE(maps.finished->at(3).finite);
}

TEST_F(DevicePictures, MapsStayAsTheyAreWhileLaterBatchesCome) {
  const StagedBatch batch({{300, 200}, {31, 17}}, {48, 40}, 1);
  const at::Tensor zeros = at::zeros({2, 1, 40, 48}, device_), ones = at::ones_like(zeros);
  const Maps kept = cuda::fetch_maps(zeros, cuda::make_levels(zeros, batch.view()));
  for (int i = 0; i < 20; ++i) {
    const Maps other = cuda::fetch_maps(ones, cuda::make_levels(ones, batch.view()));
    EXPECT_EQ(other.levels(0)[300 * 200 - 1], 255);
  }
  EXPECT_EQ(kept.levels(0)[300 * 200 - 1], 0);
  EXPECT_EQ(kept.levels(1)[31 * 17 - 1], 0);
}

std::unique_ptr<Network> network_on(const std::string& device) {
  const std::unique_ptr<NetworkProvider> provider = make_torch_provider();
  provider->load(HDFNET_TEST_WEIGHTS);
  return provider->make({device, Precision::fp16, Ddpm::fused});
}

/// The network's maps of planes, and levels of pictures, must be of the same numbers.
void expect_same(const Maps& pictures, const Maps& planes, const std::vector<PicturePair>& pairs) {
  for (int i = 0; i < planes.count; ++i) {
    const cv::Mat map(planes.height, planes.width, CV_32FC1,
                      const_cast<float*>(planes.map(i).data()));
    const cv::Mat expected = saliency_image(map, pairs[static_cast<std::size_t>(i)].rgb.size(), {});
    ASSERT_NE(pictures.levels(i), nullptr);
    EXPECT_EQ(std::memcmp(pictures.levels(i), expected.data, expected.total()), 0) << i;
  }
}

TEST_F(DevicePictures, TheNetworkGivesTheSameMapsOfPicturesAndOfPlanes) {
  const cv::Size size(320, 320);
  const std::unique_ptr<Network> network = network_on("cuda:0");
  ASSERT_TRUE(network->takes_pictures());
  const StagedBatch batch({{640, 480}, {641, 479}, {320, 320}, {97, 31}}, size, 2);
  const PlanesOfHost planes(batch.pairs, size);
  // Plain and captured, so that all that follow are replays of one graph.
  for (int pass = 0; pass < 2; ++pass) network->forward(planes.view());
  for (int pass = 0; pass < 3; ++pass) {
    const Maps of_planes = network->forward(planes.view());
    expect_same(network->forward(batch.view()), of_planes, batch.pairs);
  }
}

TEST_F(DevicePictures, TheReportHasTheirStages) {
  const std::unique_ptr<Network> network = network_on("cuda:0");
  const StagedBatch batch({{640, 480}, {320, 240}}, {320, 320}, 2);
  const NetworkTimes times = network->measure(batch.view(), 3);
  for (const auto* stage :
       {&times.copy_in, &times.preprocess, &times.network, &times.postprocess, &times.copy_out}) {
    EXPECT_EQ(stage->size(), 3U);
  }
}

}  // namespace
}  // namespace hdfnet::app::test
