#include "side_stream.h"

#include <ATen/ops/record_stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>
#include <map>

namespace hdfnet {

namespace {

// The same one for all passes of a thread: memory that was freed on it is used again on it alone.
c10::Stream side_stream_of_thread(c10::Device device) {
  thread_local std::map<c10::DeviceIndex, c10::Stream> streams;
  auto found = streams.find(device.index());
  if (found == streams.end()) {
    const c10::impl::VirtualGuardImpl guard(device.type());
    found = streams.emplace(device.index(), guard.getStreamFromGlobalPool(device)).first;
  }
  return found->second;
}

}  // namespace

SideStream::SideStream(c10::Device device, bool wanted) : device_(device) {
  if (wanted && device.is_cuda()) stream_ = side_stream_of_thread(device);
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
    c10::Event start(side_.device_.type());
    start.record(guard.getStream(side_.device_));
    start.block(*side_.stream_);
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

void SideStream::join() {
  if (!stream_ || !forked_) return;
  const c10::impl::VirtualGuardImpl guard(device_.type());
  c10::Event reached(device_.type());
  reached.record(*stream_);
  reached.block(guard.getStream(device_));
  joined_ = true;
}

}  // namespace hdfnet
