#include "stopwatch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#ifdef HDFNET_WITH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace hdfnet::bench {
namespace {

std::vector<double> microseconds_on_cpu(int repeats, const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::micro> passed =
        std::chrono::steady_clock::now() - start;
    times.push_back(passed.count());
  }
  return times;
}

#ifdef HDFNET_WITH_CUDA
std::vector<double> microseconds_on_cuda(int repeats, const std::function<void()>& work) {
  std::vector<at::cuda::CUDAEvent> starts, ends;
  for (int i = 0; i < repeats; ++i) {
    starts.emplace_back(cudaEventDefault);
    ends.emplace_back(cudaEventDefault);
  }
  const auto stream = c10::cuda::getCurrentCUDAStream();
  for (int i = 0; i < repeats; ++i) {
    starts[i].record(stream);
    work();
    ends[i].record(stream);
  }
  c10::cuda::device_synchronize();
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) times.push_back(1000.0 * starts[i].elapsed_time(ends[i]));
  return times;
}
#endif

std::vector<double> microseconds_on(c10::DeviceType device, int repeats,
                                    const std::function<void()>& work) {
#ifdef HDFNET_WITH_CUDA
  if (device == c10::kCUDA) {
    c10::cuda::device_synchronize();
    return microseconds_on_cuda(repeats, work);
  }
#endif
  return microseconds_on_cpu(repeats, work);
}

}  // namespace

Times time_calls(c10::DeviceType device, int repeats, const std::function<void()>& work) {
  for (int i = 0; i < 3; ++i) work();
  return summarize(microseconds_on(device, repeats, work));
}

double time_once(c10::DeviceType device, const std::function<void()>& work) {
  return microseconds_on(device, 1, work).front();
}

Times summarize(std::vector<double> microseconds) {
  std::sort(microseconds.begin(), microseconds.end());
  const size_t last = microseconds.size() - 1;
  return {microseconds[microseconds.size() / 2], microseconds[last / 20],
          microseconds[last - last / 20]};
}

double copy_rate(c10::DeviceType device) {
  const int64_t count = device == c10::kCUDA ? int64_t{1} << 28 : int64_t{1} << 25;
  const at::Tensor from = at::randn({count}, at::device(device));
  const at::Tensor to = at::empty_like(from);
  const Times times = time_calls(device, 10, [&] { to.copy_(from); });
  return 8.0 * static_cast<double>(count) / times.median * 1e6;
}

int64_t peak_memory_of(c10::DeviceType device, const std::function<void()>& work) {
#ifdef HDFNET_WITH_CUDA
  if (device == c10::kCUDA) {
    namespace allocator = c10::cuda::CUDACachingAllocator;
    at::empty({1}, at::device(device));  // the allocator knows no device before its first use
    const auto index = c10::cuda::current_device();
    allocator::resetPeakStats(index);
    const int64_t before = allocator::getDeviceStats(index).allocated_bytes[0].current;
    work();
    return allocator::getDeviceStats(index).allocated_bytes[0].peak - before;
  }
#endif
  work();
  return 0;
}

}  // namespace hdfnet::bench
