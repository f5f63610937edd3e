// SPDX-License-Identifier: Apache-2.0
/// @file runtime.h
/// The CUDA runtime's errors as statuses.
#pragma once

#include <cuda_runtime_api.h>

#include "cinch/status.h"

namespace cinch::fused {

/// The status of a runtime call. Clears the runtime's last error.
inline Status StatusOfRuntime(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return CINCH_OK;
    case cudaErrorMemoryAllocation:
      cudaGetLastError();
      return CINCH_ERROR_OUT_OF_MEMORY;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
      cudaGetLastError();
      return CINCH_ERROR_NO_DEVICE;
    default:
      cudaGetLastError();
      return CINCH_ERROR_DEVICE;
  }
}

}  // namespace cinch::fused
