#include "own_stream.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <mutex>
#include <vector>

namespace hdfnet {
namespace {

struct Idle {
  std::mutex mutex;
  std::vector<c10::Stream> streams;
};

/// Lives for ever: threads may end after the process's static objects do.
Idle& idle() {
  static auto* const all = new Idle;
  return *all;
}

c10::Stream new_stream(c10::Device device) {
  const c10::cuda::CUDAGuard guard(device);
  cudaStream_t stream = nullptr;
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return c10::cuda::getStreamFromExternal(stream, device.index()).unwrap();
}

c10::Stream taken(c10::Device device) {
  {
    const std::lock_guard lock(idle().mutex);
    auto& streams = idle().streams;
    for (auto stream = streams.begin(); stream != streams.end(); ++stream) {
      if (stream->device() != device) continue;
      const c10::Stream found = *stream;
      streams.erase(stream);
      return found;
    }
  }
  return new_stream(device);
}

}  // namespace

OwnStream::OwnStream(c10::Device device) : stream_(taken(device)) {}

OwnStream::~OwnStream() {
  if (!owned_) return;
  try {
    const std::lock_guard lock(idle().mutex);
    idle().streams.push_back(stream_);
  } catch (const std::exception&) {
    return;  // no memory to remember it: a stream is lost
  }
}

}  // namespace hdfnet
