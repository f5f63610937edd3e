// SPDX-License-Identifier: Apache-2.0
// Owners of CUDA's things. This folder is the only one of src/transfer that calls CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "base/status.h"
#include "transfer/device_runtime.h"

namespace cinch::transfer {

/// Clears the runtime's last error, which is the caller's to see only when it is sticky.
[[nodiscard]] Status StatusOfCuda(cudaError_t error);

/// Makes a device current for as long as it lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device);
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice();
  [[nodiscard]] Status status() const { return status_; }

 private:
  Status status_ = CINCH_OK;
  int previous_ = 0;
  bool switched_ = false;
};

class CudaEvent final : public StreamPoint {
 public:
  CudaEvent() = default;
  ~CudaEvent() override {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  [[nodiscard]] cudaError_t Create() {
    return cudaEventCreateWithFlags(&event_, cudaEventDisableTiming);
  }
  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Memory that `kFree` gives back with its device current.
template <cudaError_t (*kFree)(void*, uint64_t)>
class CudaMemory final : public DeviceBuffer {
 public:
  CudaMemory(int device, void* memory, uint64_t bytes)
      : device_(device), memory_(memory), bytes_(bytes) {}
  ~CudaMemory() override {
    const CurrentDevice current(device_);
    static_cast<void>(kFree(memory_, bytes_));
  }
  [[nodiscard]] uint8_t* data() const override { return static_cast<uint8_t*>(memory_); }
  [[nodiscard]] uint64_t bytes() const override { return bytes_; }

 private:
  int device_;
  void* memory_;
  uint64_t bytes_;
};

inline cudaError_t FreeCudaDevice(void* memory, uint64_t /*bytes*/) { return cudaFree(memory); }
inline cudaError_t CloseCudaImport(void* memory, uint64_t /*bytes*/) {
  return cudaIpcCloseMemHandle(memory);
}
cudaError_t FreeCudaPinned(void* memory, uint64_t bytes);

using CudaDeviceMemory = CudaMemory<FreeCudaDevice>;
using CudaPinnedMemory = CudaMemory<FreeCudaPinned>;
using CudaImportedMemory = CudaMemory<CloseCudaImport>;

/// OK, OUT_OF_MEMORY, DEVICE. The device must be current.
[[nodiscard]] Status AllocateCudaDevice(int device, uint64_t bytes,
                                        std::unique_ptr<DeviceBuffer>& buffer);
[[nodiscard]] Status AllocateCudaPinned(int device, uint64_t bytes,
                                        std::unique_ptr<DeviceBuffer>& buffer);

/// The device must be current.
[[nodiscard]] Status OpenCudaLane(int device, const LaneOptions& options,
                                  std::unique_ptr<DeviceLane>& lane);

}  // namespace cinch::transfer
