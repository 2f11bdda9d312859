#include "batch_streams.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>

#include "host_memory.h"

namespace hdfnet::app {

c10::Stream CopyStreams::take() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) {
    // Its small kernels go before those of the network.
    const c10::impl::VirtualGuardImpl guard(device_.type());
    return guard.getStreamFromGlobalPool(device_, /*isHighPriority=*/true);
  }
  const c10::Stream stream = idle_.back();
  idle_.pop_back();
  return stream;
}

void CopyStreams::give_back(c10::Stream stream) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(stream);
}

BatchStreams::BatchStreams(c10::Device device, CopyStreams* copies) : device_(device) {
  if (copies == nullptr) return;
  const c10::impl::VirtualGuardImpl guard(device_.type());
  const c10::Stream copy = copies->take();
  apart_.emplace(Apart{*copies, copy, guard.exchangeStream(copy)});
}

BatchStreams::~BatchStreams() {
  if (!finished_) wait_for_all();
  if (!apart_) return;
  c10::impl::VirtualGuardImpl(device_.type()).exchangeStream(apart_->network);
  apart_->owner.give_back(apart_->copy);
}

void BatchStreams::wait_for_all() {
  try {
    wait_for(device_);
    if (!apart_) return;
    apart_->copy.synchronize();
    apart_->network.synchronize();
  } catch (const std::exception&) {
    return;  // the device has failed, and whoever asked it for something was told
  }
}

void BatchStreams::go_on_with(c10::Stream stream) {
  const c10::impl::VirtualGuardImpl guard(device_.type());
  c10::Event before(device_.type());
  before.record(guard.getStream(device_));
  before.block(stream);
  guard.exchangeStream(stream);
}

void BatchStreams::begin_network() {
  if (apart_) go_on_with(apart_->network);
}

void BatchStreams::end_network() {
  if (apart_) go_on_with(apart_->copy);
}

}  // namespace hdfnet::app
