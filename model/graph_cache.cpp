#include "graph_cache.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <list>
#include <mutex>
#include <optional>
#include <vector>

#include "own_stream.h"

namespace hdfnet {
namespace {

// Graphs that are kept; the one not used for longest makes room. Folders have one or two sizes, the
// last batch of a run being smaller.
constexpr size_t kMostGraphs = 16;

/// One shape: its graph and the buffers that the graph reads and writes.
struct Shape {
  std::vector<int64_t> sizes;  ///< of rgb
  bool captured = false;
  bool refused = false;  ///< capture failed: runs as it is
  at::Tensor rgb;
  at::Tensor depth;
  at::Tensor saliency;
  std::unique_ptr<at::cuda::CUDAGraph> graph;
};

}  // namespace

struct GraphCache::Impl {
  at::Device device = at::kCPU;
  Forward forward;
  /// One for all captures: cuBLAS keeps memory for each stream that it has seen.
  std::optional<OwnStream> capture_stream;
  std::mutex mutex;
  std::list<Shape> shapes;  ///< the last used one first
  at::cuda::MempoolId_t pool;
  std::optional<c10::Event> done;  ///< of the last replay, copies of its result included

  /// Null when no pass of these sizes has succeeded.
  Shape* find(at::IntArrayRef sizes) {
    for (auto shape = shapes.begin(); shape != shapes.end(); ++shape) {
      if (at::IntArrayRef(shape->sizes) != sizes) continue;
      shapes.splice(shapes.begin(), shapes, shape);
      return &shapes.front();
    }
    return nullptr;
  }

  void add(at::IntArrayRef sizes) {
    if (shapes.size() == kMostGraphs) {
      if (done) done->synchronize();
      shapes.pop_back();
    }
    shapes.emplace_front();
    shapes.front().sizes = sizes.vec();
  }

  void capture(Shape& shape, const at::Tensor& like_depth) {
    const auto options = at::TensorOptions(device).dtype(at::kFloat);
    shape.rgb = at::zeros(shape.sizes, options);
    shape.depth = at::zeros(like_depth.sizes(), options);
    if (!capture_stream) capture_stream.emplace(device);
    const c10::cuda::CUDAStream stream(capture_stream->stream());
    // The buffers are filled on the current stream, and the pool's memory may still be in use
    // there.
    c10::Event ready(at::kCUDA);
    ready.record(c10::cuda::getCurrentCUDAStream(device.index()));
    ready.block(stream);
    if (done) done->block(stream);  // replays use what libraries keep for this stream
    const c10::cuda::CUDAStreamGuard guard(stream);
    forward(shape.rgb, shape.depth);  // what libraries set up for a stream at its first use
    stream.synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();  // plain passes will not need it again
    shape.graph = std::make_unique<at::cuda::CUDAGraph>();
    // Other threads may allocate pinned memory meanwhile.
    shape.graph->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    try {
      shape.saliency = forward(shape.rgb, shape.depth);
    } catch (...) {
      shape.graph->capture_end();
      throw;
    }
    shape.graph->capture_end();
    shape.captured = true;
  }

  at::Tensor replay(Shape& shape, const at::Tensor& rgb, const at::Tensor& depth) {
    const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(device.index());
    if (done) done->block(stream);
    shape.rgb.copy_(rgb, /*non_blocking=*/true);
    shape.depth.copy_(depth, /*non_blocking=*/true);
    shape.graph->replay();
    at::Tensor result = shape.saliency.clone();
    if (!done) done.emplace(at::kCUDA);
    done->record(stream);
    return result;
  }
};

GraphCache::GraphCache(at::Device device, Forward forward) : impl_(std::make_unique<Impl>()) {
  impl_->device = device;
  impl_->forward = std::move(forward);
  impl_->pool = at::cuda::graph_pool_handle();
}

GraphCache::~GraphCache() {
  try {
    if (impl_->done) impl_->done->synchronize();
  } catch (const std::exception&) {
    return;  // the device has failed, and whoever asked it for something was told
  }
}

at::Tensor GraphCache::forward(const at::Tensor& rgb, const at::Tensor& depth) {
  const std::lock_guard lock(impl_->mutex);
  Shape* const found = impl_->find(rgb.sizes());
  if (found == nullptr) {
    at::Tensor result = impl_->forward(rgb, depth);
    impl_->add(rgb.sizes());
    return result;
  }
  Shape& shape = *found;
  if (shape.refused) return impl_->forward(rgb, depth);
  if (!shape.captured) {
    // One capture at a time in the process: they empty the allocator's caches of all devices.
    static std::mutex capturing;
    const std::lock_guard one_at_a_time(capturing);
    try {
      impl_->capture(shape, depth);
    } catch (const c10::Error&) {
      // Not enough memory for a pass and a graph, or something that cannot be captured.
      shape = Shape();
      shape.sizes = rgb.sizes().vec();
      shape.refused = true;
      return impl_->forward(rgb, depth);
    }
  }
  return impl_->replay(shape, rgb, depth);
}

}  // namespace hdfnet
