#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <optional>

namespace hdfnet {

/// A further stream of a device for work beside the current one, also while a graph is captured.
class SideStream {
 public:
  /// On a device without streams, or with `wanted` false, everything runs on the current stream.
  /// Those of one thread with the same `number` are the same stream.
  SideStream(c10::Device device, bool wanted, int number = 0);
  /// Joins what an exception kept from being joined: a capture could not end otherwise.
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  bool active() const { return stream_.has_value(); }

  /// Runs `work` on the side stream, after what the current stream has been given so far.
  template <typename Work>
  auto run(const Work& work) {
    const Switch on_side(*this);
    return work();
  }

  /// Says that the current stream uses `tensor`, which was made on the side stream: its memory is
  /// not given to other work of the side stream before.
  void share(const at::Tensor& tensor) const;

  /// Says that the side stream uses `tensor`, which was made elsewhere.
  void use(const at::Tensor& tensor) const;

  /// The side stream waits for what `other` has been given so far.
  void follow(const SideStream& other) const;

  /// The current stream waits for what the side stream has been given so far.
  void join();

 private:
  class Switch {
   public:
    explicit Switch(SideStream& side);
    ~Switch();
    Switch(const Switch&) = delete;
    Switch& operator=(const Switch&) = delete;

   private:
    SideStream& side_;
    std::optional<c10::Stream> main_;
  };

  c10::Device device_;
  std::optional<c10::Stream> stream_;
  bool forked_ = false;
  bool joined_ = true;
};

}  // namespace hdfnet
