#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "options/values.h"

/// The application's view of the network: plain memory and plain structs, so that everything but
/// the adapter in torch_network.cpp builds and is tested without LibTorch.
namespace hdfnet::app {

/// The device has not enough memory for this batch; a smaller one may fit.
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Asks whether whoever waits wants to wait no longer.
using Interrupted = std::function<bool()>;

/// What was under way was given up because it was interrupted.
class GivenUp : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

/// The run cannot start as asked. Exit status 2.
class SetupError : public std::runtime_error {
 public:
  enum class Fault {
    device,   ///< or the precision, which that device lacks
    weights,  ///< not found, or not usable
    library,  ///< the LibTorch that is loaded
  };
  explicit SetupError(const std::string& message, Fault fault = Fault::device)
      : std::runtime_error(message), fault_(fault) {}
  Fault fault() const noexcept { return fault_; }

 private:
  Fault fault_;
};

/// An 8-bit map that a network is asked to finish on its device.
struct LevelMap {
  int height = 0;
  int width = 0;
  Rounding rounding = Rounding::nearest;
};

/// One pair as 8-bit pictures in host memory, for networks that prepare them on their device.
struct PairPictures {
  const unsigned char* bytes = nullptr;  ///< R,G,B (height,width,3), then depth (height,width)
  int height = 0;
  int width = 0;
  std::optional<LevelMap> map;  ///< what is wanted back; nothing: the network's own map
};

/// One batch in host memory: `count` images of height x width, planes one after the other; or, for
/// networks that take them, as many pairs of pictures to be resized to height x width.
struct BatchView {
  const float* rgb = nullptr;    ///< (count,3,height,width), ImageNet-normalised
  const float* depth = nullptr;  ///< (count,1,height,width), 0..1
  int count = 0;
  int height = 0;
  int width = 0;
  const PairPictures* pictures = nullptr;  ///< (count); then there are no planes
  /// The network computes so many images, the last one again and again after `count`, and returns
  /// `count` maps. Which kernels a device runs depends on the number, and the last bits on them.
  int filled_to = 0;

  /// That the network computes.
  int images() const { return std::max(count, filled_to); }

  /// Images [first, first + size) of this batch, not filled up.
  BatchView part(int first, int size) const {
    if (pictures != nullptr) return {nullptr, nullptr, size, height, width, pictures + first};
    const std::size_t plane = static_cast<std::size_t>(height) * width;
    return {rgb + 3 * plane * first, depth + plane * first, size, height, width};
  }
};

/// What a network finished on its device for one pair of pictures.
struct FinishedMap {
  /// Of the size that was asked for; null: not asked for, or not done. Then the values are there.
  std::shared_ptr<const unsigned char[]> levels;
  bool finite = true;  ///< of the values
};

/// Saliency maps of a batch, row-major, one after the other, in memory that copies of this share.
struct Maps {
  std::shared_ptr<const float[]> values;  ///< null where every map was finished
  int count = 0;
  int height = 0;
  int width = 0;
  /// (count) for a batch of pictures; else null.
  std::shared_ptr<const std::vector<FinishedMap>> finished;

  std::size_t plane() const { return static_cast<std::size_t>(height) * width; }
  std::span<const float> all() const { return {values.get(), plane() * count}; }
  std::span<const float> map(int index) const { return all().subspan(plane() * index, plane()); }
  const unsigned char* levels(int index) const {
    return finished == nullptr ? nullptr : (*finished)[index].levels.get();
  }
};

/// What a report says of a network; texts are ready to print.
struct NetworkInfo {
  std::string device;       ///< cpu, cuda:0
  std::string device_name;  ///< for example NVIDIA H200
  std::string precision;    ///< fp32, tf32, fp16, bf16; never auto
  std::string ddpm;         ///< fused, reference
  std::string variant;      ///< vgg16, vgg19, resnet50
  /// Further facts for the report's header: driver, clock, library versions.
  std::vector<std::pair<std::string, std::string>> facts;
};

/// One module of the network over several passes.
struct ModuleTimes {
  std::string name;
  std::vector<double> milliseconds;  ///< one value a pass; the first is cold
  double flop = 0;                   ///< of one pass over the batch
  double bytes = 0;
};

/// The network over several passes, measured apart from the throughput run.
struct NetworkTimes {
  /// Milliseconds, one value a pass, the first is cold; empty where there is no such step.
  std::vector<double> copy_in, preprocess, network, postprocess, copy_out;
  std::vector<ModuleTimes> modules;  ///< run one by one, in order
};

/// What the device reaches at best, measured with a large matrix product and a large copy.
struct Ceilings {
  double flop_per_second = 0;
  double bytes_per_second = 0;
};

/// Memory of a device, in bytes.
struct DeviceRoom {
  std::size_t free = 0;   ///< that this process can still take
  std::size_t image = 0;  ///< that one image of a batch takes, about
};

/// HDFNet on one device in one precision.
class Network {
 public:
  virtual ~Network() = default;
  virtual const NetworkInfo& info() const = 0;

  /// Host memory from which this network reads a batch fastest (page-locked for a GPU).
  virtual std::shared_ptr<float[]> allocate(std::size_t count) const = 0;

  /// Whether batches may be pictures, which then are prepared, and their maps finished, on the
  /// device.
  virtual bool takes_pictures() const { return false; }

  /// Calls of forward() that may be under way at the same time, from several threads: more than one
  /// where the copies of one batch and the computation of another overlap.
  virtual int batches_at_once() const { return 1; }

  /// The host's memory is not read any more when this returns or throws.
  /// Throws OutOfMemory; any other exception is a fault of this batch.
  virtual Maps forward(const BatchView& batch) = 0;

  /// Calls of forward() before those that follow, of the same size, are as fast as they can be. Who
  /// has many batches makes them beforehand, with any batch.
  virtual int passes_to_warm_up() const { return 0; }

  /// Runs `passes` passes over the batch, whole and module by module. Throws GivenUp before the
  /// next module or step when it was interrupted.
  virtual NetworkTimes measure(const BatchView& batch, int passes,
                               const Interrupted& interrupted) = 0;
  NetworkTimes measure(const BatchView& batch, int passes) {
    return measure(batch, passes, [] { return false; });
  }

  /// Nothing when the device cannot be measured.
  virtual std::optional<Ceilings> measure_ceilings() = 0;

  /// With images of that size; nothing where there is no device memory, or nobody says.
  virtual std::optional<DeviceRoom> room(int height, int width) const {
    static_cast<void>(height), static_cast<void>(width);
    return std::nullopt;
  }

  /// Largest device memory in use so far, in bytes; nothing where there is no device memory.
  virtual std::optional<std::size_t> peak_device_memory() const { return std::nullopt; }
};

struct NetworkRequest {
  std::string device = "cpu";  ///< one of NetworkProvider::devices()
  Precision precision = Precision::automatic;
  Ddpm ddpm = Ddpm::fused;
};

/// Makes networks from one weights file. Every function throws SetupError with a full sentence.
class NetworkProvider {
 public:
  virtual ~NetworkProvider() = default;

  /// The devices that a `--device` value stands for: one, or every GPU for `all`.
  virtual std::vector<std::string> devices(const std::string& wanted) = 0;

  /// Why a GPU of this machine is not used by `auto`, as a sentence; empty when none is there.
  virtual std::string unused_gpu() const { return {}; }

  /// Begins to set up what networks on that device need whatever the weights are, beside what the
  /// caller goes on to do. Says nothing of faults: make() meets them again.
  virtual void prepare(const std::string& device) { static_cast<void>(device); }

  /// Reads the weights; must come before the functions below.
  virtual void load(const std::filesystem::path& weights) = 0;
  virtual std::string weights_sha256() = 0;

  /// Threads for one network's arithmetic on the CPU.
  virtual void set_threads(int threads) = 0;

  virtual std::unique_ptr<Network> make(const NetworkRequest& request) = 0;

  /// The archive's own forward in fp32. Runs code from the archive.
  virtual std::unique_ptr<Network> make_archive(const std::string& device) = 0;

  /// Name and version of each library, for --version and the reports.
  virtual std::vector<std::pair<std::string, std::string>> versions() const = 0;
};

}  // namespace hdfnet::app
