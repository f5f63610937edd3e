// SPDX-License-Identifier: Apache-2.0
#include "transfer/cuda/cuda_support.h"

#include <sys/mman.h>

namespace cinch::transfer {

Status StatusOfCuda(cudaError_t error) {
  if (error == cudaSuccess) return CINCH_OK;
  cudaGetLastError();
  switch (error) {
    case cudaErrorMemoryAllocation:
      return CINCH_ERROR_OUT_OF_MEMORY;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
      return CINCH_ERROR_NO_DEVICE;
    case cudaErrorInvalidResourceHandle:
    case cudaErrorInvalidValue:
      return CINCH_ERROR_INVALID_ARGUMENT;
    default:
      return CINCH_ERROR_DEVICE;
  }
}

CurrentDevice::CurrentDevice(int device) {
  status_ = StatusOfCuda(cudaGetDevice(&previous_));
  if (status_ != CINCH_OK || previous_ == device) return;
  status_ = StatusOfCuda(cudaSetDevice(device));
  switched_ = status_ == CINCH_OK;
}

CurrentDevice::~CurrentDevice() {
  if (switched_) cudaSetDevice(previous_);
}

Status AllocateCudaDevice(int device, uint64_t bytes, std::unique_ptr<DeviceBuffer>& buffer) {
  void* memory = nullptr;
  CINCH_RETURN_IF_ERROR(StatusOfCuda(cudaMalloc(&memory, bytes)));
  buffer = std::make_unique<CudaDeviceMemory>(device, memory, bytes);
  return CINCH_OK;
}

// Plain pages that are registered, rather than what cudaHostAlloc() maps: other processes can read
// them (which is how UCX copies between processes of a machine).
Status AllocateCudaPinned(int device, uint64_t bytes, std::unique_ptr<DeviceBuffer>& buffer) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return CINCH_ERROR_OUT_OF_MEMORY;
  const Status status = StatusOfCuda(
      cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped));
  if (status != CINCH_OK) {
    ::munmap(memory, bytes);
    return status;
  }
  buffer = std::make_unique<CudaPinnedMemory>(device, memory, bytes);
  return CINCH_OK;
}

cudaError_t FreeCudaPinned(void* memory, uint64_t bytes) {
  const cudaError_t error = cudaHostUnregister(memory);
  ::munmap(memory, bytes);
  return error;
}

}  // namespace cinch::transfer
