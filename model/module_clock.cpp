#include "hdfnet/module_clock.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <map>

#ifdef HDFNET_WITH_CUDA
#include <nvtx3/nvToolsExt.h>
#endif

namespace hdfnet {
namespace {

using Clock = std::chrono::steady_clock;

// A named range for Nsight Systems; nothing where the build has no CUDA.
void push_range([[maybe_unused]] const std::string& name) {
#ifdef HDFNET_WITH_CUDA
  nvtxRangePushA(name.c_str());
#endif
}

void pop_range() {
#ifdef HDFNET_WITH_CUDA
  nvtxRangePop();
#endif
}

struct Interval {
  size_t module;  ///< index into the timings
  std::unique_ptr<c10::Event> begin;
  std::unique_ptr<c10::Event> end;
};

}  // namespace

struct ModuleClock::Impl {
  explicit Impl(at::Device clock_device) : device(clock_device) {}

  std::unique_ptr<c10::Event> record() const {
    const c10::impl::VirtualGuardImpl guard(device.type());
    auto event = std::make_unique<c10::Event>(device.type(), c10::EventFlag::BACKEND_DEFAULT);
    event->record(guard.getStream(device));
    return event;
  }

  size_t index_of(const std::string& module) {
    const auto [entry, added] = indices.emplace(module, timings.size());
    if (added) timings.push_back({module, {}, {}});
    return entry->second;
  }

  at::Device device;
  std::vector<ModuleTiming> timings;
  std::map<std::string, size_t> indices;
  std::vector<Interval> pending;  ///< CUDA intervals of the pass under way
  std::unique_ptr<c10::Event> begin_event;
  Clock::time_point begin_time;
};

ModuleClock::ModuleClock(at::Device device) : impl_(std::make_unique<Impl>(device)) {}
ModuleClock::~ModuleClock() = default;

void ModuleClock::begin(std::string_view module) {
  push_range(std::string(module));
  if (impl_->device.is_cuda()) {
    impl_->begin_event = impl_->record();
  } else {
    impl_->begin_time = Clock::now();
  }
}

void ModuleClock::end(std::string_view module, const at::Tensor& /*output*/,
                      const ModuleCost& cost) {
  const size_t index = impl_->index_of(std::string(module));
  ModuleTiming& timing = impl_->timings[index];
  timing.cost = cost;
  if (impl_->device.is_cuda()) {
    impl_->pending.push_back({index, std::move(impl_->begin_event), impl_->record()});
  } else {
    const std::chrono::duration<double, std::milli> elapsed = Clock::now() - impl_->begin_time;
    timing.milliseconds.push_back(elapsed.count());
  }
  pop_range();
}

void ModuleClock::finish_pass() {
  if (impl_->pending.empty()) return;
  impl_->pending.back().end->synchronize();
  for (const Interval& interval : impl_->pending) {
    impl_->timings[interval.module].milliseconds.push_back(
        interval.begin->elapsedTime(*interval.end));
  }
  impl_->pending.clear();
}

const std::vector<ModuleTiming>& ModuleClock::timings() const {
  return impl_->timings;
}

}  // namespace hdfnet
