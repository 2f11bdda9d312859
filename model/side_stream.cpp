#include "side_stream.h"

#ifdef HDFNET_WITH_CUDA
#include "own_stream.h"
#endif

#include <ATen/ops/record_stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>
#include <map>
#include <utility>

namespace hdfnet {

namespace {

#ifdef HDFNET_WITH_CUDA
// The same one for all passes of a thread: memory that was freed on it is used again on it alone.
c10::Stream side_stream_of_thread(c10::Device device, int number) {
  thread_local std::map<std::pair<c10::DeviceIndex, int>, OwnStream> streams;
  return streams.try_emplace({device.index(), number}, device).first->second.stream();
}
#endif

// What `stream` is given from now on waits for what `other` has been given so far.
void wait(c10::Stream stream, c10::Stream other) {
  c10::Event reached(stream.device_type());
  reached.record(other);
  reached.block(stream);
}

}  // namespace

SideStream::SideStream(c10::Device device, [[maybe_unused]] bool wanted,
                       [[maybe_unused]] int number)
    : device_(device) {
#ifdef HDFNET_WITH_CUDA
  if (wanted && device.is_cuda()) stream_ = side_stream_of_thread(device, number);
#endif
}

SideStream::~SideStream() {
  if (joined_) return;
  try {
    join();
  } catch (const std::exception&) {
    return;  // the device has failed, which is what the exception under way says
  }
}

SideStream::Switch::Switch(SideStream& side) : side_(side) {
  if (!side_.stream_) return;
  const c10::impl::VirtualGuardImpl guard(side_.device_.type());
  if (!side_.forked_) {
    wait(*side_.stream_, guard.getStream(side_.device_));
    side_.forked_ = true;
  }
  side_.joined_ = false;
  main_ = guard.exchangeStream(*side_.stream_);
}

SideStream::Switch::~Switch() {
  if (main_) c10::impl::VirtualGuardImpl(side_.device_.type()).exchangeStream(*main_);
}

void SideStream::share(const at::Tensor& tensor) const {
  if (!stream_) return;
  const c10::impl::VirtualGuardImpl guard(device_.type());
  tensor.record_stream(guard.getStream(device_));
}

void SideStream::use(const at::Tensor& tensor) const {
  if (stream_) tensor.record_stream(*stream_);
}

void SideStream::follow(const SideStream& other) const {
  if (stream_ && other.stream_) wait(*stream_, *other.stream_);
}

void SideStream::join() {
  if (!stream_ || !forked_) return;
  wait(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_), *stream_);
  joined_ = true;
}

}  // namespace hdfnet
