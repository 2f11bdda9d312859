#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace hdfnet {

/// A stream that nobody else uses while this lives. LibTorch's pools hand out their 32 streams in
/// turn: two threads can be given the same one, and what one of them queues while the other
/// captures would become part of the graph. Streams are kept for later owners, never destroyed:
/// LibTorch's allocator and cuBLAS know memory by its stream.
class OwnStream {
 public:
  /// Of a CUDA device. Throws c10::Error.
  explicit OwnStream(c10::Device device);
  ~OwnStream();
  OwnStream(OwnStream&& other) noexcept : stream_(other.stream_), owned_(other.owned_) {
    other.owned_ = false;
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  OwnStream& operator=(OwnStream&&) = delete;

  c10::Stream stream() const { return stream_; }

 private:
  c10::Stream stream_;
  bool owned_ = true;
};

}  // namespace hdfnet
