// SPDX-License-Identifier: Apache-2.0
#include "cuda_devices.h"

#include <dlfcn.h>

#include <array>
#include <utility>

namespace cinch::cli {
namespace {

/// From cuda.h, which builds without CUDA do not have. These values are part of the driver's ABI.
constexpr int kCudaSuccess = 0;
constexpr int kComputeCapabilityMajor = 75;
constexpr int kComputeCapabilityMinor = 76;

struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*driver_version)(int*) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*device_attribute)(int*, int, int) = nullptr;
  int (*device_memory)(size_t*, int) = nullptr;
};

template <typename Function>
bool Load(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool LoadAll(void* library, Driver* driver) {
  return Load(library, "cuInit", &driver->init) &&
         Load(library, "cuDriverGetVersion", &driver->driver_version) &&
         Load(library, "cuDeviceGetCount", &driver->device_count) &&
         Load(library, "cuDeviceGet", &driver->device_get) &&
         Load(library, "cuDeviceGetName", &driver->device_name) &&
         Load(library, "cuDeviceGetAttribute", &driver->device_attribute) &&
         Load(library, "cuDeviceTotalMem_v2", &driver->device_memory);
}

bool Describe(const Driver& driver, int index, CudaDevice* device) {
  int handle = 0;
  std::array<char, 256> name{};
  size_t memory_bytes = 0;
  if (driver.device_get(&handle, index) != kCudaSuccess ||
      driver.device_name(name.data(), static_cast<int>(name.size()), handle) != kCudaSuccess ||
      driver.device_attribute(&device->compute_major, kComputeCapabilityMajor, handle) !=
          kCudaSuccess ||
      driver.device_attribute(&device->compute_minor, kComputeCapabilityMinor, handle) !=
          kCudaSuccess ||
      driver.device_memory(&memory_bytes, handle) != kCudaSuccess) {
    return false;
  }
  device->name = name.data();
  device->memory_bytes = memory_bytes;
  return true;
}

}  // namespace

CudaDevices FindCudaDevices() {
  CudaDevices result;
  // Never closed: the driver starts threads that must not lose their code.
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    result.reason = "no CUDA driver on this machine";
    return result;
  }
  Driver driver;
  if (!LoadAll(library, &driver)) {
    result.reason = "the CUDA driver is too old";
    return result;
  }
  int count = 0;
  if (driver.init(0) != kCudaSuccess ||
      driver.driver_version(&result.driver_version) != kCudaSuccess ||
      driver.device_count(&count) != kCudaSuccess) {
    result.reason = "the CUDA driver found no usable device";
    return result;
  }
  result.available = true;
  for (int index = 0; index < count; ++index) {
    CudaDevice device;
    if (Describe(driver, index, &device)) {
      result.devices.push_back(std::move(device));
    }
  }
  return result;
}

}  // namespace cinch::cli
