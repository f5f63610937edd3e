// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <string>

#include "base/log.h"
#include "transfer/cuda/cuda_support.h"

namespace cinch::transfer {
namespace {

using PointerQuery = CUresult (*)(unsigned, CUpointer_attribute*, void**, CUdeviceptr);

// Asking the runtime would start CUDA in processes that only move host memory. A process without
// the driver library has no device memory.
PointerQuery FindPointerQuery() {
  static std::atomic<PointerQuery> found{nullptr};
  if (const PointerQuery query = found.load(std::memory_order_acquire)) return query;
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return nullptr;
  const auto query = reinterpret_cast<PointerQuery>(::dlsym(driver, "cuPointerGetAttributes"));
  found.store(query, std::memory_order_release);
  return query;
}

struct Range {
  MemoryPlace place;
  uint64_t begin = 0;  // Known to be in that place, from here
  uint64_t end = 0;    // to here.
};

Range FindRange(PointerQuery query, const uint8_t* address) {
  const auto pointer = reinterpret_cast<CUdeviceptr>(address);
  CUmemorytype type{};
  unsigned managed = 0;
  int device = -1;
  CUdeviceptr start = 0;
  size_t bytes = 0;
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                 CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* values[] = {&type, &managed, &device, &start, &bytes};
  Range range{{}, pointer, pointer + 1};
  if (query(std::size(names), names, values, pointer) != CUDA_SUCCESS) return range;
  const bool on_device = type == CU_MEMORYTYPE_DEVICE || managed != 0;
  if (!on_device) return range;
  range.place.device = device < 0 ? 0 : device;
  if (start <= pointer && pointer - start < bytes) {
    range.begin = start;
    range.end = start + bytes;
  }
  return range;
}

std::array<uint8_t, 32> ThisMachine() {
  std::array<uint8_t, 32> name{};
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  std::memcpy(name.data(), text.data(), std::min(text.size(), name.size()));
  return name;
}

class CudaRuntime final : public DeviceRuntime {
 public:
  [[nodiscard]] DeviceSpeedTable& speeds() override { return speeds_; }

  [[nodiscard]] Status Locate(PieceList& pieces) const override {
    const PointerQuery query = FindPointerQuery();
    if (query == nullptr) return CINCH_OK;
    Range known;
    MemoryPlace place;
    bool first = true;
    const bool together = pieces.AllExtents([&](const uint8_t* address, uint64_t bytes) {
      const auto at = reinterpret_cast<uint64_t>(address);
      if (first || at < known.begin || at >= known.end) {
        known = FindRange(query, address);
        if (!first && known.place != place) return false;
        place = known.place;
        first = false;
      }
      // A range of one byte is one whose end is not known.
      const bool bounded = known.place.on_device() && known.end > known.begin + 1;
      return !bounded || bytes <= known.end - at;
    });
    if (!together) return CINCH_ERROR_INVALID_ARGUMENT;
    pieces.set_place(place);
    return CINCH_OK;
  }

  [[nodiscard]] Status Mark(MemoryPlace place, void* stream,
                            std::shared_ptr<StreamPoint>& point) override {
    const CurrentDevice current(place.device);
    CINCH_RETURN_IF_ERROR(current.status());
    // What is captured happens later, or never: there is nothing to come after.
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    if (stream != nullptr) {
      CINCH_RETURN_IF_ERROR(
          StatusOfCuda(cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &capture)));
    }
    if (capture != cudaStreamCaptureStatusNone) return CINCH_ERROR_INVALID_ARGUMENT;
    auto event = std::make_shared<CudaEvent>();
    CINCH_RETURN_IF_ERROR(StatusOfCuda(event->Create()));
    CINCH_RETURN_IF_ERROR(
        StatusOfCuda(cudaEventRecord(event->get(), static_cast<cudaStream_t>(stream))));
    point = std::move(event);
    return CINCH_OK;
  }

  [[nodiscard]] Status OpenLane(int device, const LaneOptions& options,
                                std::unique_ptr<DeviceLane>& lane) override {
    const CurrentDevice current(device);
    CINCH_RETURN_IF_ERROR(current.status());
    return OpenCudaLane(device, options, lane);
  }

  [[nodiscard]] Status AllocatePinned(int device, uint64_t bytes,
                                      std::unique_ptr<DeviceBuffer>& buffer) override {
    const CurrentDevice current(device);
    CINCH_RETURN_IF_ERROR(current.status());
    return AllocateCudaPinned(device, bytes, buffer);
  }

  [[nodiscard]] Status AllocateDevice(int device, uint64_t bytes,
                                      std::unique_ptr<DeviceBuffer>& buffer) override {
    const CurrentDevice current(device);
    CINCH_RETURN_IF_ERROR(current.status());
    return AllocateCudaDevice(device, bytes, buffer);
  }

  [[nodiscard]] Status AllocateShared(int device, uint64_t bytes,
                                      std::unique_ptr<DeviceBuffer>& buffer,
                                      DeviceExport& name) override {
    const CurrentDevice current(device);
    CINCH_RETURN_IF_ERROR(current.status());
    CINCH_RETURN_IF_ERROR(AllocateCudaDevice(device, bytes, buffer));
    cudaIpcMemHandle_t handle{};
    static_assert(sizeof(handle) == sizeof(name.handle));
    if (cudaIpcGetMemHandle(&handle, buffer->data()) != cudaSuccess) {
      cudaGetLastError();
      buffer.reset();
      return CINCH_ERROR_UNSUPPORTED;
    }
    std::memcpy(name.handle.data(), &handle, sizeof(handle));
    name.machine = ThisMachine();
    name.bytes = bytes;
    return CINCH_OK;
  }

  [[nodiscard]] Status Import(int device, const DeviceExport& name,
                              std::unique_ptr<DeviceBuffer>& buffer) override {
    if (name.machine != ThisMachine()) return CINCH_ERROR_UNSUPPORTED;
    const CurrentDevice current(device);
    CINCH_RETURN_IF_ERROR(current.status());
    cudaIpcMemHandle_t handle{};
    std::memcpy(&handle, name.handle.data(), sizeof(handle));
    void* memory = nullptr;
    const cudaError_t error = cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess);
    if (error != cudaSuccess) {
      Log(LogLevel::kDebug, "a peer's device memory cannot be mapped: {}",
          cudaGetErrorString(error));
      cudaGetLastError();
      return CINCH_ERROR_UNSUPPORTED;
    }
    auto imported = std::make_unique<CudaImportedMemory>(device, memory, name.bytes);
    const Range range = FindRange(FindPointerQuery(), imported->data());
    const auto at = reinterpret_cast<uint64_t>(memory);
    if (!range.place.on_device() || range.begin > at || range.end - at < name.bytes) {
      return CINCH_ERROR_UNSUPPORTED;
    }
    buffer = std::move(imported);
    return CINCH_OK;
  }

 private:
  DeviceSpeedTable speeds_;
};

}  // namespace

std::shared_ptr<DeviceRuntime> CudaDeviceRuntime() {
  static const std::shared_ptr<DeviceRuntime> runtime = std::make_shared<CudaRuntime>();
  return runtime;
}

}  // namespace cinch::transfer
