#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <mutex>
#include <optional>
#include <vector>

namespace hdfnet::app {

/// Streams of one device beside that of its network, one for each batch that is under way: while
/// the network computes a batch, the pictures of the next are copied there and prepared, and the
/// maps of the one before are finished and fetched. The network itself stays on one stream, so its
/// memory is that of one pass. Thread-safe.
class CopyStreams {
 public:
  explicit CopyStreams(c10::Device device) : device_(device) {}

  c10::Stream take();
  void give_back(c10::Stream stream);

 private:
  const c10::Device device_;
  std::mutex mutex_;
  std::vector<c10::Stream> idle_;
};

/// The streams of one batch's way over its device; belongs to the thread that made it.
///
/// What is queued on the current stream belongs to the batch's copies, but between
/// begin_network() and end_network() to the network; each part waits, on the device, for the one
/// before. When an exception ends it early, it waits for both streams: the device may still use
/// memory of this batch.
class BatchStreams {
 public:
  /// `copies`: null where all is queued on the current stream.
  BatchStreams(c10::Device device, CopyStreams* copies);
  ~BatchStreams();
  BatchStreams(const BatchStreams&) = delete;
  BatchStreams& operator=(const BatchStreams&) = delete;

  void begin_network();
  void end_network();

  /// The host has waited for the last part.
  void finished() { finished_ = true; }

 private:
  void go_on_with(c10::Stream stream);
  void wait_for_all();

  const c10::Device device_;
  struct Apart {
    CopyStreams& owner;
    c10::Stream copy;
    c10::Stream network;
  };
  std::optional<Apart> apart_;
  bool finished_ = false;
};

}  // namespace hdfnet::app
