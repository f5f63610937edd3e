// SPDX-License-Identifier: Apache-2.0
#include "collectives/fused/kernels.h"

#include "collectives/fused/kernels.cuh"

namespace cinch::fused {
namespace {

constexpr size_t kSharedBytes = kWarps * sizeof(WarpMemory);

template <typename Kernel>
cudaError_t Prepare(Kernel* kernel) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(kSharedBytes));
}

}  // namespace

cudaError_t PrepareKernels() {
  cudaError_t error = Prepare(&ExchangeKernel);
  if (error == cudaSuccess) error = Prepare(&ReduceScatterKernel<__nv_bfloat16>);
  if (error == cudaSuccess) error = Prepare(&ReduceScatterKernel<__half>);
  if (error == cudaSuccess) error = Prepare(&ReduceScatterKernel<float>);
  return error;
}

cudaError_t LaunchExchangeKernel(const Parameters& parameters, uint32_t ctas, cudaStream_t stream) {
  ExchangeKernel<<<ctas, kThreads, kSharedBytes, stream>>>(parameters);
  return cudaGetLastError();
}

cudaError_t LaunchReduceKernel(const Parameters& parameters, cinch_dtype dtype, uint32_t ctas,
                               cudaStream_t stream) {
  switch (dtype) {
    case CINCH_DTYPE_BF16:
      ReduceScatterKernel<__nv_bfloat16><<<ctas, kThreads, kSharedBytes, stream>>>(parameters);
      break;
    case CINCH_DTYPE_FP16:
      ReduceScatterKernel<__half><<<ctas, kThreads, kSharedBytes, stream>>>(parameters);
      break;
    case CINCH_DTYPE_FP32:
      ReduceScatterKernel<float><<<ctas, kThreads, kSharedBytes, stream>>>(parameters);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace cinch::fused
