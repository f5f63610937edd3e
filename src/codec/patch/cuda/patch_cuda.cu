// SPDX-License-Identifier: Apache-2.0
// The calls of cinch/patch.h for device memory.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "base/guarded.h"
#include "base/status.h"
#include "cinch/codec.h"
#include "codec/patch/cuda/apply_patch.cuh"
#include "codec/patch/cuda/create_patch.cuh"

namespace cinch::codec::gpu {
namespace {

constexpr uint64_t kScratchAlignment = 256;

Status StatusOfLaunch(cudaError_t error) {
  if (error == cudaSuccess) return CINCH_OK;
  cudaGetLastError();
  const bool none = error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ||
                    error == cudaErrorNoKernelImageForDevice;
  return none ? CINCH_ERROR_NO_DEVICE : CINCH_ERROR_DEVICE;
}

/// Makes the device of memory current for as long as it lives.
class MemoryDevice {
 public:
  explicit MemoryDevice(const void* memory) {
    cudaPointerAttributes attributes{};
    error_ = cudaGetDevice(&previous_);
    if (error_ == cudaSuccess) error_ = cudaPointerGetAttributes(&attributes, memory);
    if (error_ != cudaSuccess || attributes.device < 0 || attributes.device == previous_) return;
    error_ = cudaSetDevice(attributes.device);
    switched_ = error_ == cudaSuccess;
  }
  MemoryDevice(const MemoryDevice&) = delete;
  MemoryDevice& operator=(const MemoryDevice&) = delete;
  ~MemoryDevice() {
    if (switched_) cudaSetDevice(previous_);
  }
  [[nodiscard]] cudaError_t error() const { return error_; }

 private:
  cudaError_t error_ = cudaSuccess;
  int previous_ = 0;
  bool switched_ = false;
};

/// How many thread blocks are useful and run at once. Also allows the kernel its shared memory.
template <typename Kernel>
cudaError_t FittingCtas(Kernel kernel, size_t shared_bytes, uint32_t blocks, uint32_t* ctas) {
  int device = 0;
  int multiprocessors = 0;
  int each = 0;
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           static_cast<int>(shared_bytes));
  if (error == cudaSuccess) error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error == cudaSuccess) {
    error =
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, kPatchThreads, shared_bytes);
  }
  const auto most = static_cast<uint32_t>(std::max(multiprocessors * each, 1));
  *ctas = std::clamp<uint32_t>(blocks, 1, most);
  return error;
}

bool IsAligned16(const void* left, const void* right) {
  const auto bits = reinterpret_cast<uintptr_t>(left) | reinterpret_cast<uintptr_t>(right);
  return bits % kChunkBytes == 0;
}

Status CheckCall(const void* base, const void* data, uint64_t bytes, const void* patch,
                 const void* result, const void* scratch) {
  if (((base == nullptr || data == nullptr) && bytes > 0) || patch == nullptr ||
      result == nullptr || scratch == nullptr ||
      reinterpret_cast<uintptr_t>(patch) % kChunkBytes != 0 ||
      reinterpret_cast<uintptr_t>(scratch) % kScratchAlignment != 0) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  return bytes > CINCH_MAX_FRAME_INPUT_BYTES ? CINCH_ERROR_TOO_LARGE : CINCH_OK;
}

cudaError_t LaunchCreate(CreateParameters& parameters, void* scratch, cudaStream_t stream) {
  const uint64_t scratch_bytes = cinch_cuda_patch_scratch_bytes(parameters.bytes);
  cudaError_t error = cudaMemsetAsync(scratch, 0, scratch_bytes, stream);
  uint32_t ctas = 0;
  if (error == cudaSuccess) {
    error = FittingCtas(CreatePatchKernel, sizeof(CreateShared), parameters.block_count, &ctas);
  }
  if (error != cudaSuccess) return error;
  CreatePatchKernel<<<ctas, kPatchThreads, sizeof(CreateShared), stream>>>(parameters);
  FinishPatchKernel<<<1, 1, 0, stream>>>(parameters);
  return cudaGetLastError();
}

cudaError_t LaunchApply(const ApplyParameters& parameters, cudaStream_t stream) {
  cudaError_t error = cudaMemsetAsync(parameters.scratch, 0, sizeof(PatchScratch), stream);
  uint32_t ctas = 0;
  if (error == cudaSuccess) {
    error = FittingCtas(ApplyPatchKernel, sizeof(ApplyShared), parameters.block_count, &ctas);
  }
  if (error != cudaSuccess) return error;
  ApplyPatchKernel<<<ctas, kPatchThreads, sizeof(ApplyShared), stream>>>(parameters);
  FinishApplyKernel<<<1, 1, 0, stream>>>(parameters);
  return cudaGetLastError();
}

}  // namespace
}  // namespace cinch::codec::gpu

using namespace cinch::codec::gpu;
using cinch::Guarded;
using cinch::GuardedOr;
using cinch::Status;

uint64_t cinch_cuda_patch_scratch_bytes(uint64_t original_bytes) {
  return GuardedOr(uint64_t{0}, [&]() -> uint64_t {
    if (original_bytes > CINCH_MAX_FRAME_INPUT_BYTES) return 0;
    return kScratchAlignment + 8 * cinch::format::BlockCount(original_bytes);
  });
}

cinch_status cinch_cuda_patch_create(const void* base, const void* data, uint64_t bytes,
                                     void* patch, uint64_t capacity_bytes,
                                     cinch_cuda_patch_result* result, void* scratch, void* stream) {
  return Guarded([&]() -> Status {
    CINCH_RETURN_IF_ERROR(CheckCall(base, data, bytes, patch, result, scratch));
    const uint64_t blocks = cinch::format::BlockCount(bytes);
    if (capacity_bytes < cinch::format::PayloadOffset(blocks)) {
      return CINCH_ERROR_DESTINATION_TOO_SMALL;
    }
    const MemoryDevice device(scratch);
    CINCH_RETURN_IF_ERROR(StatusOfLaunch(device.error()));
    CreateParameters parameters{};
    parameters.base = static_cast<const uint8_t*>(base);
    parameters.data = static_cast<const uint8_t*>(data);
    parameters.bytes = bytes;
    parameters.patch = static_cast<uint8_t*>(patch);
    parameters.capacity_bytes = capacity_bytes;
    parameters.result = result;
    parameters.scratch = static_cast<PatchScratch*>(scratch);
    parameters.states =
        reinterpret_cast<uint64_t*>(static_cast<uint8_t*>(scratch) + kScratchAlignment);
    parameters.block_count = static_cast<uint32_t>(blocks);
    parameters.aligned = IsAligned16(base, data) ? 1 : 0;
    return StatusOfLaunch(LaunchCreate(parameters, scratch, static_cast<cudaStream_t>(stream)));
  });
}

cinch_status cinch_cuda_patch_apply(const void* base, uint64_t base_hash, const void* patch,
                                    uint64_t patch_bytes, void* data, uint64_t bytes,
                                    cinch_cuda_patch_result* result, void* scratch, void* stream) {
  return Guarded([&]() -> Status {
    CINCH_RETURN_IF_ERROR(CheckCall(base, data, bytes, patch, result, scratch));
    const MemoryDevice device(scratch);
    CINCH_RETURN_IF_ERROR(StatusOfLaunch(device.error()));
    ApplyParameters parameters{};
    parameters.base = static_cast<const uint8_t*>(base);
    parameters.patch = static_cast<const uint8_t*>(patch);
    parameters.data = static_cast<uint8_t*>(data);
    parameters.bytes = bytes;
    parameters.patch_bytes = patch_bytes;
    parameters.base_hash = base_hash;
    parameters.result = result;
    parameters.scratch = static_cast<PatchScratch*>(scratch);
    parameters.block_count = static_cast<uint32_t>(cinch::format::BlockCount(bytes));
    parameters.aligned = IsAligned16(base, data) ? 1 : 0;
    return StatusOfLaunch(LaunchApply(parameters, static_cast<cudaStream_t>(stream)));
  });
}
