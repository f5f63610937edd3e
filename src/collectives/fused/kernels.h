// SPDX-License-Identifier: Apache-2.0
/// @file kernels.h
/// Launching the kernels of kernels.cuh.
#pragma once

#include <cuda_runtime_api.h>

#include "cinch/codec.h"
#include "collectives/fused/parameters.h"

namespace cinch::fused {

/// Loads the kernels for the current device.
cudaError_t PrepareKernels();
cudaError_t LaunchExchangeKernel(const Parameters& parameters, uint32_t ctas, cudaStream_t stream);
/// bf16, fp16 or fp32.
cudaError_t LaunchReduceKernel(const Parameters& parameters, cinch_dtype dtype, uint32_t ctas,
                               cudaStream_t stream);

}  // namespace cinch::fused
