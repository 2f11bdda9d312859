#include "torch_network.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "batch_streams.h"
#include "cuda_architectures.h"
#include "cuda_driver.h"
#include "device_room.h"
#include "hdfnet/engine.h"
#include "hdfnet/error.h"
#include "hdfnet/libtorch_version.h"
#include "hdfnet/module_clock.h"
#include "hdfnet/ops/library.h"
#include "hdfnet/parameters.h"
#include "host_memory.h"
#include "run/slabs.h"
#include "text/memory_missing.h"

#ifdef HDFNET_WITH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>

#include "cuda/device_memory.h"
#include "cuda/device_pictures.h"
#endif

namespace hdfnet::app {
namespace {

using Clock = std::chrono::steady_clock;

/// Below that the copies take less time than going from stream to stream.
constexpr int kLeastImagesForCopyStreams = 8;

/// Page-locked memory is asked for in 64 MiB at most.
constexpr std::size_t kLargestSlab = std::size_t{16} << 20;  // floats

hdfnet::Precision model_precision(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return hdfnet::Precision::fp32;
    case Precision::tf32:
      return hdfnet::Precision::tf32;
    case Precision::fp16:
      return hdfnet::Precision::fp16;
    case Precision::bf16:
      return hdfnet::Precision::bf16;
    case Precision::automatic:
      break;
  }
  return hdfnet::Precision::automatic;
}

/// The first line of LibTorch's message; the rest is its backtrace.
std::string brief(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

/// Runs `work` with the exceptions that the application knows.
template <class Work>
auto translated(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const hdfnet::Error& error) {
    switch (error.code()) {
      case hdfnet::ErrorCode::out_of_memory:
        throw OutOfMemory(memory_missing(error.what()));
      case hdfnet::ErrorCode::weights:
        throw SetupError(error.what(), SetupError::Fault::weights);
      case hdfnet::ErrorCode::device:
        throw SetupError(error.what(), SetupError::Fault::device);
      case hdfnet::ErrorCode::library:
        throw SetupError(error.what(), SetupError::Fault::library);
      case hdfnet::ErrorCode::invalid_argument:
      case hdfnet::ErrorCode::failed:
        break;
    }
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    throw OutOfMemory(memory_missing(brief(error)));
  } catch (const c10::Error& error) {
    throw std::runtime_error(brief(error));
  }
}

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// Milliseconds of `work`, the device's part included.
double timed(at::Device device, const std::function<void()>& work) {
  wait_for(device);
  const auto begin = Clock::now();
  work();
  wait_for(device);
  return milliseconds_since(begin);
}

/// Sets LibTorch's number of threads, which belongs to the calling thread, and puts the former one
/// back: the thread may be another program's. 0 leaves it as it is.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(at::get_num_threads()) {
    if (threads > 0) set(threads);
  }
  ~ThreadCount() { set(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  static void set(int threads) {
    if (at::get_num_threads() != threads) at::set_num_threads(threads);
  }
  const int before_;
};

/// Host memory of a batch as tensors, without a copy.
struct HostBatch {
  at::Tensor rgb, depth;

  explicit HostBatch(const BatchView& batch)
      : rgb(view(batch.rgb, batch, 3)), depth(view(batch.depth, batch, 1)) {}

 private:
  static at::Tensor view(const float* data, const BatchView& batch, int channels) {
    return at::from_blob(const_cast<float*>(data),
                         {batch.count, channels, batch.height, batch.width}, at::kFloat);
  }
};

at::Tensor to_device(const at::Tensor& host, at::Device device) {
  return host.to(device, /*non_blocking=*/true);
}

/// (count,...) with the last image repeated until there are `images` of them.
at::Tensor filled_up(const at::Tensor& tensor, int images) {
  const int64_t count = tensor.size(0);
  if (images <= count) return tensor;
  const at::Tensor last = tensor.narrow(0, count - 1, 1);
  return at::cat({tensor, last.expand({images - count, -1, -1, -1})});
}

/// One batch's way over the device around the network, step by step: planes are copied there and
/// maps back; pictures are prepared there, too, and their maps finished. What a batch is filled up
/// with exists on the device only.
class DevicePath {
 public:
  static bool takes_pictures(at::Device device) {
#ifdef HDFNET_WITH_CUDA
    return device.is_cuda();
#else
    return false;
#endif
  }

  DevicePath(const BatchView& batch, at::Device device) : batch_(batch), device_(device) {}

  void copy_in() {
#ifdef HDFNET_WITH_CUDA
    if (batch_.pictures != nullptr) {
      bytes_ = cuda::upload_pictures(batch_, device_);
      return;
    }
#endif
    const HostBatch host(batch_);
    rgb = to_device(host.rgb, device_);
    depth = to_device(host.depth, device_);
  }

  /// Makes rgb and depth of pictures, and fills the batch up.
  void prepare() {
#ifdef HDFNET_WITH_CUDA
    if (batch_.pictures != nullptr) {
      const cuda::NetworkInput input = cuda::make_input(bytes_, batch_);
      bytes_.reset();  // for what the network needs
      rgb = input.rgb;
      depth = input.depth;
    }
#endif
    rgb = filled_up(rgb, batch_.images());
    depth = filled_up(depth, batch_.images());
  }

  /// Takes the network's output: the maps of the images that are no filling.
  void take(const at::Tensor& maps) {
    saliency_ = maps.narrow(0, 0, batch_.count);
  }

  /// Makes the maps that are wanted of the pictures' saliency.
  void finish() {
#ifdef HDFNET_WITH_CUDA
    if (batch_.pictures != nullptr) levels_ = cuda::make_levels(saliency_, batch_);
#endif
  }

  Maps copy_out() {
#ifdef HDFNET_WITH_CUDA
    if (batch_.pictures != nullptr) return cuda::fetch_maps(saliency_, levels_);
#endif
    return fetch(saliency_);
  }

  at::Tensor rgb, depth;  ///< the network's input, after prepare()

 private:
  const BatchView& batch_;
  const at::Device device_;
  at::Tensor saliency_;
#ifdef HDFNET_WITH_CUDA
  at::Tensor bytes_;
  cuda::DeviceLevels levels_;
#endif
};

/// The module clock, until it is interrupted: then GivenUp is thrown before the next module.
class UntilInterrupted final : public ModuleObserver {
 public:
  UntilInterrupted(ModuleClock& clock, const Interrupted& interrupted)
      : clock_(clock), interrupted_(interrupted) {}
  void begin(std::string_view module) override {
    if (interrupted_()) throw GivenUp();
    clock_.begin(module);
  }
  void end(std::string_view module, const at::Tensor& output, const ModuleCost& cost) override {
    clock_.end(module, output, cost);
  }

 private:
  ModuleClock& clock_;
  const Interrupted& interrupted_;
};

/// Best rate of `work` over some repetitions; `amount` is what one of them does.
double best_rate(at::Device device, double amount, const std::function<void()>& work) {
  work();
  double best = 0;
  for (int i = 0; i < 5; ++i) best = std::max(best, amount / timed(device, work) * 1e3);
  return best;
}

Ceilings find_ceilings(at::Device device, at::ScalarType type, bool allow_tf32) {
  const c10::InferenceMode inference;
  const int64_t side = device.is_cpu() ? 1536 : 8192;
  const auto options = at::TensorOptions().device(device).dtype(type);
  const at::Tensor left = at::rand({side, side}, options), right = at::rand({side, side}, options);
  at::Tensor product = at::empty({side, side}, options);
  const bool tf32_before = at::globalContext().allowTF32CuBLAS();
  at::globalContext().setAllowTF32CuBLAS(allow_tf32);
  Ceilings ceilings;
  ceilings.flop_per_second = best_rate(device, 2.0 * static_cast<double>(side * side * side),
                                       [&] { at::mm_out(product, left, right); });
  at::globalContext().setAllowTF32CuBLAS(tf32_before);

  const int64_t bytes = device.is_cpu() ? int64_t{128} << 20 : int64_t{512} << 20;
  const at::Tensor source = at::zeros({bytes}, options.dtype(at::kByte));
  at::Tensor target = at::empty_like(source);
  ceilings.bytes_per_second = best_rate(device, 2.0 * static_cast<double>(bytes),
                                        [&] { target.copy_(source, /*non_blocking=*/true); });
  return ceilings;
}

class TorchNetwork final : public Network {
 public:
  TorchNetwork(const Parameters& parameters, const EngineOptions& options, int threads)
      : engine_(parameters, options),
        copy_streams_(engine_.device()),
        host_memory_([gpu = engine_.device().is_cuda()](
                         std::size_t count) { return host_floats(count, gpu); },
                     kLargestSlab),
        threads_(threads) {
    const bool gpu = engine_.device().is_cuda();
    const CudaDevice driver = gpu ? cuda_device(engine_.device().index()) : CudaDevice{};
    info_.device = engine_.device().str();
    info_.device_name = driver.name;
    info_.precision = name(engine_.precision());
    info_.ddpm = name(engine_.ddpm());
    info_.variant = name(engine_.architecture().variant);
    info_.facts = driver.facts;
  }

  const NetworkInfo& info() const override { return info_; }

  std::shared_ptr<float[]> allocate(std::size_t count) const override {
    return translated([&] { return host_memory_.piece(count); });
  }

  /// A plain one and one that is captured, on a GPU.
  int passes_to_warm_up() const override { return engine_.device().is_cuda() ? 2 : 0; }

  bool takes_pictures() const override { return DevicePath::takes_pictures(engine_.device()); }

  /// The copies of one and the network's pass over another, on a GPU.
  int batches_at_once() const override { return engine_.device().is_cuda() ? 2 : 1; }

  Maps forward(const BatchView& batch) override {
    return translated([&] {
      const c10::InferenceMode inference;
      const ThreadCount threads(threads_);
      DevicePath path(batch, engine_.device());
      const bool apart = engine_.device().is_cuda() && batch.images() >= kLeastImagesForCopyStreams;
      BatchStreams streams(engine_.device(), apart ? &copy_streams_ : nullptr);
      path.copy_in();
      path.prepare();
      streams.begin_network();
      path.take(engine_.forward(path.rgb, path.depth));
      streams.end_network();
      path.finish();
      Maps maps = path.copy_out();
      streams.finished();
      return maps;
    });
  }

  NetworkTimes measure(const BatchView& batch, int passes,
                       const Interrupted& interrupted) override {
    return translated([&] {
      const c10::InferenceMode inference;
      const ThreadCount threads(threads_);
      const WaitAtEnd wait(engine_.device());
      NetworkTimes times;
      measure_modules(batch, passes, interrupted, times);
      measure_whole(batch, passes, interrupted, times);
      return times;
    });
  }

  std::optional<Ceilings> measure_ceilings() override {
    const ThreadCount threads(threads_);
    const at::ScalarType type = engine_.precision() == hdfnet::Precision::fp16   ? at::kHalf
                                : engine_.precision() == hdfnet::Precision::bf16 ? at::kBFloat16
                                                                                 : at::kFloat;
    try {
      const c10::OptionalDeviceGuard guard(engine_.device());
      return find_ceilings(engine_.device(), type, engine_.precision() == hdfnet::Precision::tf32);
    } catch (const c10::Error&) {
      return std::nullopt;  // no memory to spare for it
    }
  }

  std::optional<DeviceRoom> room([[maybe_unused]] int height,
                                 [[maybe_unused]] int width) const override {
#ifdef HDFNET_WITH_CUDA
    if (engine_.device().is_cuda()) {
      return translated([&] {
        return DeviceRoom{cuda::free_memory(engine_.device()),
                          bytes_for_image(info_, height, width)};
      });
    }
#endif
    return std::nullopt;
  }

  std::optional<std::size_t> peak_device_memory() const override {
#ifdef HDFNET_WITH_CUDA
    if (engine_.device().is_cuda()) {
      const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(engine_.device().index());
      return static_cast<std::size_t>(stats.reserved_bytes.at(0).peak);
    }
#endif
    return std::nullopt;
  }

 private:
  void measure_modules(const BatchView& batch, int passes, const Interrupted& interrupted,
                       NetworkTimes& times) {
    DevicePath path(batch, engine_.device());
    path.copy_in();
    path.prepare();
    ModuleClock clock(engine_.device());
    UntilInterrupted observer(clock, interrupted);
    for (int pass = 0; pass < passes; ++pass) {
      engine_.forward(path.rgb, path.depth, &observer);
      clock.finish_pass();
    }
    for (const ModuleTiming& timing : clock.timings()) {
      times.modules.push_back(
          {timing.name, timing.milliseconds, timing.cost.flop, timing.cost.bytes});
    }
  }

  void measure_whole(const BatchView& batch, int passes, const Interrupted& interrupted,
                     NetworkTimes& times) {
    const at::Device device = engine_.device();
    DevicePath path(batch, device);
    const bool pictures = batch.pictures != nullptr;
    const auto add = [&](std::vector<double>& stage, bool exists, const auto& step) {
      if (interrupted()) throw GivenUp();
      const double duration = timed(device, step);
      if (exists) stage.push_back(duration);
    };
    for (int pass = 0; pass < passes; ++pass) {
      add(times.copy_in, device.is_cuda(), [&] { path.copy_in(); });
      add(times.preprocess, pictures, [&] { path.prepare(); });
      add(times.network, true, [&] { path.take(engine_.forward(path.rgb, path.depth)); });
      add(times.postprocess, pictures, [&] { path.finish(); });
      add(times.copy_out, device.is_cuda(), [&] { path.copy_out(); });
    }
  }

  Engine engine_;
  CopyStreams copy_streams_;
  mutable Slabs host_memory_;
  const int threads_;
  NetworkInfo info_;
};

/// The archive's own forward.
class TorchArchive final : public Network {
 public:
  TorchArchive(const std::filesystem::path& archive, at::Device device, int threads)
      : network_(archive, device), threads_(threads) {
    info_.device = device.str();
    info_.precision = "fp32";
  }

  const NetworkInfo& info() const override { return info_; }
  std::shared_ptr<float[]> allocate(std::size_t count) const override {
    return std::shared_ptr<float[]>(new float[count]);
  }
  Maps forward(const BatchView& batch) override {
    return translated([&] {
      const c10::InferenceMode inference;
      const ThreadCount threads(threads_);
      const HostBatch host(batch);
      return fetch(network_.forward(host.rgb, host.depth));
    });
  }
  NetworkTimes measure(const BatchView&, int, const Interrupted&) override { return {}; }
  std::optional<Ceilings> measure_ceilings() override { return std::nullopt; }

 private:
  const ArchiveNetwork network_;
  const int threads_;
  NetworkInfo info_;
};

/// Throws where the kernels of this build do not run on the device.
void check_kernels(at::Device device) {
  if (!device.is_cuda() || !ops::built_with_cuda()) return;
  const CudaDevice card = cuda_device(device.has_index() ? device.index() : 0);
  const std::string missing =
      missing_kernels(built_cuda_architectures(), card.capability, device.str(), card.name);
  if (!missing.empty()) throw SetupError(missing);
}

int usable_gpus() {
  return ops::built_with_cuda() && at::hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0;
}

/// The device's context and the libraries that convolutions need, which are loaded at their first
/// use: as long as reading the weights takes, and longer.
void set_up(at::Device device) {
  try {
    const c10::InferenceMode inference;
    const c10::OptionalDeviceGuard guard(device);
    const auto options = at::TensorOptions(device).dtype(at::kHalf);
    const at::Tensor x =
        at::zeros({1, 64, 16, 16}, options).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor weight =
        at::zeros({64, 64, 3, 3}, options).contiguous(at::MemoryFormat::ChannelsLast);
    at::cudnn_convolution_relu(x, weight, at::zeros({64}, options), {1, 1}, {1, 1}, {1, 1}, 1);
    wait_for(device);
  } catch (const std::exception&) {
    return;
  }
}

class TorchProvider final : public NetworkProvider {
 public:
  void prepare(const std::string& device) override {
    const at::Device wanted(device);
    const int index = wanted.has_index() ? wanted.index() : 0;
    if (!wanted.is_cuda() || index >= usable_gpus()) return;
    prepared_.emplace_back([wanted] { set_up(wanted); });
  }

  std::vector<std::string> devices(const std::string& wanted) override {
    if (wanted == "auto") return {usable_gpus() > 0 ? "cuda:0" : "cpu"};
    if (wanted == "cuda") return {"cuda:0"};
    if (wanted != "all") return {wanted};
    std::vector<std::string> all;
    all.reserve(usable_gpus());
    for (int i = 0; i < usable_gpus(); ++i) all.push_back("cuda:" + std::to_string(i));
    if (all.empty()) {
      const std::string why = unused_gpu();
      throw SetupError("--device all: no usable GPU. " +
                       (why.empty() ? "LibTorch sees no CUDA device." : why) +
                       " Choose --device auto or cpu.");
    }
    return all;
  }

  std::string unused_gpu() const override {
    const int present = cuda_device_count();
    if (present == 0 || usable_gpus() > 0) return {};
    const std::string gpu = "The GPU " + cuda_device(0).name + " is not used: ";
    if (!ops::built_with_cuda()) return gpu + "this build has no CUDA kernels.";
    return gpu + "LibTorch sees no CUDA device; its CUDA version may be newer than the driver's.";
  }

  void load(const std::filesystem::path& weights) override {
    translated([&] { parameters_ = load_parameters(weights); });
    weights_ = weights;
  }

  std::string weights_sha256() override {
    return translated([&] { return file_sha256(weights_); });
  }

  void set_threads(int threads) override { threads_ = threads; }

  std::unique_ptr<Network> make(const NetworkRequest& request) override {
    return translated([&]() -> std::unique_ptr<Network> {
      const EngineOptions options{
          at::Device(request.device), model_precision(request.precision),
          request.ddpm == Ddpm::fused ? DdpmMode::fused : DdpmMode::reference};
      check_kernels(options.device);
      const ThreadCount threads(threads_);
      return std::make_unique<TorchNetwork>(parameters_, options, threads_);
    });
  }

  std::unique_ptr<Network> make_archive(const std::string& device) override {
    return translated([&]() -> std::unique_ptr<Network> {
      return std::make_unique<TorchArchive>(weights_, at::Device(device), threads_);
    });
  }

  std::vector<std::pair<std::string, std::string>> versions() const override {
    const std::string loaded = loaded_libtorch_version();
    const bool other = !loaded.empty() && loaded != TORCH_VERSION;
    std::vector<std::pair<std::string, std::string>> result = {
        {"LibTorch", TORCH_VERSION + (other ? ", loaded " + loaded : "")}};
    const auto& hooks = at::detail::getCUDAHooks();
    if (!ops::built_with_cuda()) {
      result.emplace_back("CUDA", "none, this build has no CUDA kernels");
    } else if (!hooks.hasCUDART()) {
      result.emplace_back("CUDA", "none, LibTorch is loaded without it");
    } else {
      const long cuda = hooks.versionCUDART();
      result.emplace_back("CUDA",
                          std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10));
    }
    if (ops::built_with_cuda() && hooks.hasCuDNN()) {
      const long cudnn = hooks.versionCuDNN();
      result.emplace_back("cuDNN", std::to_string(cudnn / 10000) + "." +
                                       std::to_string(cudnn % 10000 / 100) + "." +
                                       std::to_string(cudnn % 100));
    } else {
      result.emplace_back("cuDNN", "none");
    }
    result.emplace_back("architectures built", with_commas(built_cuda_architectures()));
    return result;
  }

 private:
  std::filesystem::path weights_;
  Parameters parameters_;
  int threads_ = 0;
  std::vector<std::jthread> prepared_;
};

}  // namespace

std::unique_ptr<NetworkProvider> make_torch_provider() {
  return std::make_unique<TorchProvider>();
}

}  // namespace hdfnet::app
