// SPDX-License-Identifier: Apache-2.0
// Tensors of a device.
#include <cuda_runtime_api.h>

#include "base/deadline.h"
#include "cinch/patch.h"
#include "cinch/transfer.h"
#include "transfer/cuda/cuda_support.h"
#include "versions/tensor_memory.h"

namespace cinch::versions {
namespace {

using transfer::CurrentDevice;
using transfer::StatusOfCuda;

// Nothing here takes longer unless the device is lost or its stream waits for something.
constexpr double kMostSeconds = 60;

class DeviceMemory final : public TensorMemory {
 public:
  explicit DeviceMemory(int device) : device_(device) {}
  ~DeviceMemory() override {
    const CurrentDevice current(device_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    if (event_ != nullptr) cudaEventDestroy(event_);
    if (result_ != nullptr) cudaFreeHost(result_);
  }

  [[nodiscard]] Status Open() {
    const CurrentDevice current(device_);
    CINCH_RETURN_IF_ERROR(current.status());
    CINCH_RETURN_IF_ERROR(StatusOfCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)));
    CINCH_RETURN_IF_ERROR(StatusOfCuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)));
    void* result = nullptr;
    CINCH_RETURN_IF_ERROR(StatusOfCuda(cudaMallocHost(&result, sizeof(*result_))));
    result_ = static_cast<cinch_cuda_patch_result*>(result);
    return CINCH_OK;
  }

  [[nodiscard]] Status Allocate(uint64_t bytes, Buffer& buffer) override {
    const CurrentDevice current(device_);
    CINCH_RETURN_IF_ERROR(current.status());
    std::unique_ptr<transfer::DeviceBuffer> allocated;
    CINCH_RETURN_IF_ERROR(transfer::AllocateCudaDevice(device_, bytes == 0 ? 1 : bytes, allocated));
    buffer = std::move(allocated);
    return CINCH_OK;
  }
  [[nodiscard]] Status Copy(void* to, const void* from, uint64_t bytes, void* stream) override {
    const CurrentDevice current(device_);
    CINCH_RETURN_IF_ERROR(current.status());
    CINCH_RETURN_IF_ERROR(Follow(stream));
    CINCH_RETURN_IF_ERROR(
        StatusOfCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_)));
    return Wait();
  }
  [[nodiscard]] Status WaitFor(void* stream) override {
    const CurrentDevice current(device_);
    CINCH_RETURN_IF_ERROR(current.status());
    CINCH_RETURN_IF_ERROR(Follow(stream));
    return Wait();
  }
  [[nodiscard]] Status ContentHash(const void* data, uint64_t bytes, uint64_t& hash) override {
    // The patch that changes nothing: an index of zeroes.
    Buffer patch;
    constexpr uint64_t kBytesOfIndexForEach = 4096;
    const uint64_t room = 4096 + bytes / kBytesOfIndexForEach;
    CINCH_RETURN_IF_ERROR(Allocate(room, patch));
    PatchOutcome outcome;
    CINCH_RETURN_IF_ERROR(CreatePatch(data, data, bytes, patch->data(), room, outcome));
    hash = outcome.base_hash;
    return CINCH_OK;
  }
  [[nodiscard]] Status CreatePatch(const void* base, const void* data, uint64_t bytes, void* patch,
                                   uint64_t capacity, PatchOutcome& outcome) override {
    const CurrentDevice current(device_);
    CINCH_RETURN_IF_ERROR(current.status());
    CINCH_RETURN_IF_ERROR(NeedScratch(bytes));
    CINCH_RETURN_IF_ERROR(cinch_cuda_patch_create(base, data, bytes, patch, capacity, result_,
                                                  scratch_->data(), stream_));
    CINCH_RETURN_IF_ERROR(Wait());
    outcome = {result_->patch_bytes, result_->base_hash, result_->result_hash};
    return result_->status;
  }
  [[nodiscard]] Status ApplyPatch(const void* base, uint64_t base_hash, const void* patch,
                                  uint64_t patch_bytes, void* data, uint64_t bytes,
                                  uint64_t& result_hash) override {
    const CurrentDevice current(device_);
    CINCH_RETURN_IF_ERROR(current.status());
    CINCH_RETURN_IF_ERROR(NeedScratch(bytes));
    CINCH_RETURN_IF_ERROR(cinch_cuda_patch_apply(base, base_hash, patch, patch_bytes, data, bytes,
                                                 result_, scratch_->data(), stream_));
    CINCH_RETURN_IF_ERROR(Wait());
    result_hash = result_->result_hash;
    return result_->status;
  }

 private:
  [[nodiscard]] Status Follow(void* stream) {
    if (stream == CINCH_NO_STREAM) return CINCH_OK;
    CINCH_RETURN_IF_ERROR(StatusOfCuda(cudaEventRecord(event_, static_cast<cudaStream_t>(stream))));
    return StatusOfCuda(cudaStreamWaitEvent(stream_, event_, 0));
  }
  [[nodiscard]] Status Wait() {
    CINCH_RETURN_IF_ERROR(StatusOfCuda(cudaEventRecord(event_, stream_)));
    const Deadline deadline = Deadline::After(kMostSeconds);
    while (true) {
      const cudaError_t error = cudaEventQuery(event_);
      if (error != cudaErrorNotReady) return StatusOfCuda(error);
      cudaGetLastError();
      if (deadline.expired()) return CINCH_ERROR_TIMEOUT;
    }
  }
  [[nodiscard]] Status NeedScratch(uint64_t bytes) {
    const uint64_t needed = cinch_cuda_patch_scratch_bytes(bytes);
    if (needed == 0) return CINCH_ERROR_TOO_LARGE;
    if (scratch_ != nullptr && scratch_->bytes() >= needed) return CINCH_OK;
    return Allocate(needed, scratch_);
  }

  const int device_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t event_ = nullptr;
  cinch_cuda_patch_result* result_ = nullptr;
  Buffer scratch_;
};

}  // namespace

Status OpenDeviceTensorMemory(int device, std::unique_ptr<TensorMemory>& memory) {
  auto opened = std::make_unique<DeviceMemory>(device);
  CINCH_RETURN_IF_ERROR(opened->Open());
  memory = std::move(opened);
  return CINCH_OK;
}

}  // namespace cinch::versions
