#include "cuda_driver.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <memory>

namespace hdfnet::app {
namespace {

// Numbers of CUdevice_attribute, fixed since CUDA 2.
constexpr int clock_rate_khz = 13, multiprocessors = 16, memory_clock_khz = 36,
              capability_major = 75, capability_minor = 76;

/// The driver's functions that are needed, or nulls where there is no driver.
struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*device_attribute)(int*, int, int) = nullptr;
  int (*total_memory)(std::size_t*, int) = nullptr;
  bool usable = false;

  Driver() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // stays loaded
    if (library == nullptr) return;
    const auto load = [library](const char* name, auto& function) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    usable = load("cuInit", init) && load("cuDeviceGetCount", device_count) &&
             load("cuDeviceGet", device_get) && load("cuDeviceGetName", device_name) &&
             load("cuDeviceGetAttribute", device_attribute) &&
             load("cuDeviceTotalMem_v2", total_memory) && init(0) == 0;
  }

  static const Driver& get() {
    static const Driver driver;
    return driver;
  }

  int attribute(int which, int device) const {
    int value = 0;
    return device_attribute(&value, which, device) == 0 ? value : 0;
  }
};

/// "580.95.05" from the kernel module's line; empty when it is not readable.
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {
    const bool digits_and_dots = word.find_first_not_of("0123456789.") == std::string::npos;
    if (digits_and_dots && word.find('.') != std::string::npos) return word;
  }
  return {};
}

std::string text(const char* format, double value) {
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

}  // namespace

int cuda_device_count() {
  const Driver& driver = Driver::get();
  int count = 0;
  return driver.usable && driver.device_count(&count) == 0 ? count : 0;
}

CudaDevice cuda_device(int index) {
  CudaDevice result;
  const Driver& driver = Driver::get();
  int device = 0;
  if (!driver.usable || driver.device_get(&device, index) != 0) return result;
  char name[256] = {};
  if (driver.device_name(name, sizeof name, device) == 0) result.name = name;
  const int major = driver.attribute(capability_major, device);
  const int minor = driver.attribute(capability_minor, device);
  result.capability = 10 * major + minor;
  result.facts.emplace_back("compute capability",
                            std::to_string(major) + "." + std::to_string(minor));
  result.facts.emplace_back("multiprocessors",
                            std::to_string(driver.attribute(multiprocessors, device)));
  result.facts.emplace_back(
      "highest clock",
      text("%.0f MHz", driver.attribute(clock_rate_khz, device) / 1e3) +
          text(", memory %.0f MHz", driver.attribute(memory_clock_khz, device) / 1e3));
  std::size_t bytes = 0;
  if (driver.total_memory(&bytes, device) == 0) {
    result.facts.emplace_back("device memory", text("%.1f GB", static_cast<double>(bytes) / 1e9));
  }
  if (const std::string version = driver_version(); !version.empty()) {
    result.facts.emplace_back("driver", version);
  }
  return result;
}

}  // namespace hdfnet::app
