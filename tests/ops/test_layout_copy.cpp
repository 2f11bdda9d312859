// The copies between NCHW and channels_last by themselves, bit by bit against at::Tensor::copy_:
// the whole of the memory that holds the result, so that nothing around it may change.
#include <sstream>
#include <string>

#include "cuda/layout_copy.h"
#include "support.h"

namespace hdfnet::test {
namespace {

constexpr int64_t kGuard = 4096;
constexpr int16_t kNaN = 0x7fff;  // in fp16 and bf16; no value of a source

class CudaLayoutCopy : public testing::Test {
 protected:
  void SetUp() override { HDFNET_REQUIRE_DEVICE(at::kCUDA); }
};

const at::TensorOptions kBits = at::TensorOptions().device(at::kCUDA).dtype(at::kShort);

/// (N, C, H*W) of planes and how they lie in memory.
struct Planes {
  int64_t batch, channels, pixels;
  int64_t plane_gap = 0, image_gap = 0;  // elements between them
  int64_t offset = 0;                    // of both sides, elements

  int64_t plane_stride() const { return pixels + plane_gap; }
  int64_t image_stride() const { return channels * plane_stride() + image_gap; }
  int64_t elements() const { return (batch - 1) * image_stride() + channels * plane_stride(); }
  at::Tensor in(const at::Tensor& memory) const {
    return memory.as_strided({batch, channels, pixels}, {image_stride(), plane_stride(), 1},
                             kGuard + offset);
  }
  /// The same map, dense and channels_last, as (N, C, H*W).
  at::Tensor channels_last_in(const at::Tensor& memory) const {
    return memory.as_strided({batch, channels, pixels}, {channels * pixels, 1, channels},
                             kGuard + offset);
  }
  ops::cuda::LayoutCopyArguments arguments(const at::Tensor& from, const at::Tensor& to) const {
    return {from.data_ptr(), to.data_ptr(),  batch,         channels,
            pixels,          image_stride(), plane_stride()};
  }
  std::string describe() const {
    std::ostringstream text;
    text << "N " << batch << " C " << channels << " HW " << pixels << " gaps " << plane_gap << " "
         << image_gap << " offset " << offset;
    return text.str();
  }
};

at::Tensor memory_for(const Planes& planes) {
  return at::full({planes.elements() + planes.offset + 2 * kGuard}, kNaN, kBits);
}

void expect_copied(const Planes& planes) {
  SCOPED_TRACE(planes.describe());
  const at::Tensor values =
      at::randint(-32768, 32767, {planes.batch, planes.channels, planes.pixels}, kBits);
  const at::Tensor from_planes = memory_for(planes), from_channels_last = memory_for(planes);
  planes.in(from_planes).copy_(values);
  planes.channels_last_in(from_channels_last).copy_(values);

  const at::Tensor channels_last = memory_for(planes);
  ASSERT_EQ(ops::cuda::launch_to_channels_last(
                planes.arguments(planes.in(from_planes), planes.channels_last_in(channels_last)),
                nullptr),
            cudaSuccess);
  EXPECT_TRUE(at::equal(channels_last, from_channels_last)) << "to channels_last";

  const at::Tensor in_planes = memory_for(planes);
  ASSERT_EQ(ops::cuda::launch_to_planes(
                planes.arguments(planes.channels_last_in(from_channels_last), planes.in(in_planes)),
                nullptr),
            cudaSuccess);
  EXPECT_TRUE(at::equal(in_planes, from_planes)) << "to planes";
}

TEST_F(CudaLayoutCopy, MovesEveryElementAndTouchesNothingElse) {
  for (const int64_t batch : {1, 3}) {
    for (const int64_t channels : {1, 2, 3, 8, 16, 64, 70, 256}) {
      for (const int64_t pixels : {1, 7, 64, 66, 400, 1517}) {
        expect_copied({batch, channels, pixels});
        expect_copied({batch, channels, pixels, 8, 64});
        expect_copied({batch, channels, pixels, 2, 6});
        expect_copied({batch, channels, pixels, 0, pixels});  // a slice along channels
        expect_copied({batch, channels, pixels, 1, 3});
        for (const int64_t offset : {1, 2, 8}) {
          expect_copied({batch, channels, pixels, 0, 0, offset});
        }
      }
    }
  }
}

TEST_F(CudaLayoutCopy, OffsetsBeyond32Bits) {
  const int64_t far = int64_t{1} << 31;
  const Planes planes{2, 8, 72, 0, far};
  const at::Tensor memory = memory_for(planes);
  const at::Tensor values = at::randint(-32768, 32767, {2, 8, 72}, kBits);
  planes.in(memory).copy_(values);
  const at::Tensor dense = at::empty({2, 72, 8}, kBits);
  ASSERT_EQ(ops::cuda::launch_to_channels_last(planes.arguments(planes.in(memory), dense), nullptr),
            cudaSuccess);
  EXPECT_TRUE(at::equal(dense.transpose(1, 2), values));
  memory.fill_(kNaN);
  ASSERT_EQ(ops::cuda::launch_to_planes(planes.arguments(dense, planes.in(memory)), nullptr),
            cudaSuccess);
  EXPECT_TRUE(at::equal(planes.in(memory), values));
}

TEST_F(CudaLayoutCopy, NothingToCopy) {
  for (const Planes& planes : {Planes{0, 8, 64}, Planes{1, 0, 64}, Planes{1, 8, 0}}) {
    const ops::cuda::LayoutCopyArguments arguments{
        nullptr, nullptr, planes.batch, planes.channels, planes.pixels, 0, 0};
    EXPECT_EQ(ops::cuda::launch_to_channels_last(arguments, nullptr), cudaSuccess);
    EXPECT_EQ(ops::cuda::launch_to_planes(arguments, nullptr), cudaSuccess);
  }
}

// Sizes alone decide, so this needs no device.
TEST(CudaLayoutCopySizes, MoreTilesThanAGridHasAreRefused) {
  ops::cuda::LayoutCopyArguments a{};
  const int64_t most = (int64_t{1} << 31) - 1;
  a.batch = most;
  a.channels = 64;
  a.pixels = 64;
  EXPECT_TRUE(ops::cuda::can_copy_layout(a));
  a.pixels = 65;
  EXPECT_FALSE(ops::cuda::can_copy_layout(a));
  a.batch = 1;
  a.channels = int64_t{1} << 40;
  a.pixels = int64_t{1} << 40;
  EXPECT_FALSE(ops::cuda::can_copy_layout(a));
  EXPECT_EQ(ops::cuda::launch_to_planes(a, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace hdfnet::test
