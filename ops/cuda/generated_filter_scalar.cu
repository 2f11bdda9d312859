// generated_dynamic_filter with ordinary arithmetic: float64, and whatever the other kernels do not
// take. Any strides.
//
// Block: 256 pixels of one image and one branch, 16 channels; a thread has two pixels. Up to 64
// channels of y for these pixels are staged in shared memory (32 for float64), then 8 rows of
// weight at a time are multiplied with them: 16 sums a thread. A finished row is a tap: it meets x
// at once and is forgotten. Rows run tap by tap, channel by channel, so one running sum per pixel
// is enough. FLOPs: 2*Cy*K*K a result. Bound by shared memory and arithmetic about equally.
#include "cuda/generated_filter_arguments.h"
#include "cuda/scalar.cuh"
#include "cuda/shared_limit.h"

namespace hdfnet::ops::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kPixels = 2 * kThreads;
constexpr int kPitch = kPixels + 1;
constexpr int kRows = 8;
constexpr int kChannels = 16;  // of a block
constexpr int kChain = 8;      // channels of y that are summed one after the other

template <typename Sum>
inline constexpr int kStage = sizeof(Sum) == 8 ? 32 : 64;

/// total = rows * sources over the first `count` of up to kCount channels of y. Chains of 8 are
/// added in pairs, so that a tap goes through 7 + 3 roundings of sums, not 64: the largest error of
/// a small map is the tail of few taps.
template <int kCount, typename Sum>
__device__ __forceinline__ void multiply(const Sum* sources, const Sum* rows, int count,
                                         Sum (&total)[kRows][2]) {
  if constexpr (kCount > kChain) {
    constexpr int kHalf = kCount / 2;
    multiply<kHalf>(sources, rows, count < kHalf ? count : kHalf, total);
    if (count <= kHalf) return;
    Sum rest[kRows][2];
    multiply<kHalf>(sources + kHalf * kPitch, rows + kHalf * kRows, count - kHalf, rest);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      total[i][0] += rest[i][0];
      total[i][1] += rest[i][1];
    }
  } else {
#pragma unroll
    for (int i = 0; i < kRows; ++i) total[i][0] = total[i][1] = 0;
#pragma unroll 4
    for (int s = 0; s < count; ++s) {
      const Sum near = sources[s * kPitch];
      const Sum far = sources[s * kPitch + kThreads];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const Sum factor = rows[s * kRows + i];
        total[i][0] += factor * near;
        total[i][1] += factor * far;
      }
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    generated_filter_scalar(const __grid_constant__ GeneratedFilterArguments a,
                            unsigned pixel_blocks) {
  using Sum = SumOf<T>;
  constexpr int kSources = kStage<Sum>;
  extern __shared__ __align__(16) unsigned char shared[];
  Sum* const sources = reinterpret_cast<Sum*>(shared);  // [kSources][kPitch]
  Sum* const rows = sources + kSources * kPitch;        // [kSources][kRows]

  const int64_t plane = a.height * a.width;
  const int64_t n = blockIdx.x / pixel_blocks;
  const int64_t first_pixel = static_cast<int64_t>(blockIdx.x % pixel_blocks) * kPixels;
  const int b = blockIdx.y;
  const int k = a.kernel_size;
  const int taps = k * k;
  const int64_t first_channel = static_cast<int64_t>(blockIdx.z) * kChannels;
  const int64_t end_channel =
      first_channel + kChannels < a.channels ? first_channel + kChannels : a.channels;
  const int64_t end_row = end_channel * taps;
  const int64_t dilation = a.dilation[b];
  const int source_channels = static_cast<int>(a.source_channels);

  const T* const x = static_cast<const T*>(a.x) + n * a.x_stride[0];
  const T* const y =
      static_cast<const T*>(a.y) + n * a.y_stride[0] + (a.groups == 1 ? 0 : b * a.y_stride[1]);
  const T* const weight = static_cast<const T*>(a.weight) + b * a.weight_stride[0];
  const T* const bias =
      a.bias == nullptr ? nullptr : static_cast<const T*>(a.bias) + b * a.bias_stride[0];
  T* const out = static_cast<T*>(a.out) + n * a.out_stride[0];

  int64_t h[2], w[2];
  bool real[2];
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    const int64_t pixel = first_pixel + threadIdx.x + p * kThreads;
    real[p] = pixel < plane;
    h[p] = real[p] ? pixel / a.width : 0;
    w[p] = real[p] ? pixel % a.width : 0;
  }

  // Neighbouring threads read along the axis that runs along memory.
  const auto stage = [&](int first, int count) {
    const bool channels_inner = a.y_stride[2] == 1 && source_channels > 1;
    for (int i = threadIdx.x; i < count * kPixels; i += kThreads) {
      const int s = channels_inner ? i % count : i / kPixels;
      const int p = channels_inner ? i / count : i % kPixels;
      const int64_t pixel = first_pixel + p;
      Sum value = 0;
      if (pixel < plane) {
        value = to_sum(y[(first + s) * a.y_stride[2] + pixel / a.width * a.y_stride[3] +
                         pixel % a.width * a.y_stride[4]]);
      }
      sources[s * kPitch + p] = value;
    }
  };
  const bool staged_once = source_channels <= kSources;
  if (staged_once) stage(0, source_channels);

  Sum total[2] = {};
  Sum of_row[2] = {};  // taps of one kernel row first: many taps lose less that way
  int64_t channel = first_channel;
  int tap_row = 0, tap_column = 0;
  for (int64_t row0 = first_channel * taps; row0 < end_row; row0 += kRows) {
    Sum tap[kRows][2];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      tap[i][0] = tap[i][1] = bias != nullptr && row0 + i < end_row
                                  ? to_sum(bias[(row0 + i) * a.bias_stride[1]])
                                  : Sum(0);
    }
    for (int first = 0; first < source_channels; first += kSources) {
      const int count = min(kSources, source_channels - first);
      __syncthreads();  // the previous rows (and sources) have been used
      if (!staged_once) stage(first, count);
      for (int i = threadIdx.x; i < count * kRows; i += kThreads) {
        const int s = i % count;
        const int r = i / count;
        rows[s * kRows + r] =
            row0 + r < end_row
                ? to_sum(weight[(row0 + r) * a.weight_stride[1] + (first + s) * a.weight_stride[2]])
                : Sum(0);
      }
      __syncthreads();
      Sum part[kRows][2];
      multiply<kSources>(sources + threadIdx.x, rows, count, part);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        tap[i][0] += part[i][0];
        tap[i][1] += part[i][1];
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (row0 + i >= end_row) break;
      const int64_t down = (tap_row - k / 2) * dilation;
      const int64_t across = (tap_column - k / 2) * dilation;
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        const int64_t from_h = h[p] + down;
        const int64_t from_w = w[p] + across;
        const bool inside = from_h >= 0 && from_h < a.height && from_w >= 0 && from_w < a.width;
        const Sum value =
            inside
                ? to_sum(
                      x[channel * a.x_stride[1] + from_h * a.x_stride[2] + from_w * a.x_stride[3]])
                : Sum(0);
        of_row[p] += tap[i][p] * value;
      }
      if (++tap_column < k) continue;
      tap_column = 0;
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        total[p] += of_row[p];
        of_row[p] = 0;
      }
      if (++tap_row < k) continue;
      tap_row = 0;
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        if (real[p]) {
          T* const to = out + h[p] * a.out_stride[2] + w[p] * a.out_stride[3];
          to[(a.output_channel + b * a.channels + channel) * a.out_stride[1]] =
              from_sum<T>(total[p]);
          if (a.concat_input && b == 0) {
            to[channel * a.out_stride[1]] =
                x[channel * a.x_stride[1] + h[p] * a.x_stride[2] + w[p] * a.x_stride[3]];
          }
        }
        total[p] = 0;
      }
      ++channel;
    }
  }
}

}  // namespace

cudaError_t launch_generated_filter_scalar(const GeneratedFilterArguments& a, cudaStream_t stream) {
  return with_type(a.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Sum = SumOf<T>;
    constexpr int kBytes = kStage<Sum> * (kPitch + kRows) * static_cast<int>(sizeof(Sum));
    const int64_t pixel_blocks = (a.height * a.width + kPixels - 1) / kPixels;
    const int64_t channel_blocks = (a.channels + kChannels - 1) / kChannels;
    if (pixel_blocks * a.batch > 0x7fffffff || channel_blocks > 65535) {
      return cudaErrorInvalidConfiguration;
    }
    const cudaError_t error = allow_shared_memory(generated_filter_scalar<T>, kBytes);
    if (error != cudaSuccess) return error;
    generated_filter_scalar<T>
        <<<dim3(static_cast<unsigned>(pixel_blocks * a.batch), static_cast<unsigned>(a.branches),
                static_cast<unsigned>(channel_blocks)),
           kThreads, kBytes, stream>>>(a, static_cast<unsigned>(pixel_blocks));
    return cudaGetLastError();
  });
}

}  // namespace hdfnet::ops::cuda
