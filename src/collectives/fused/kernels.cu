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

template <bool kDirect>
cudaError_t PrepareAll() {
  cudaError_t error = Prepare(&ExchangeKernel<kDirect>);
  if (error == cudaSuccess) error = Prepare(&ReduceScatterKernel<__nv_bfloat16, kDirect>);
  if (error == cudaSuccess) error = Prepare(&ReduceScatterKernel<__half, kDirect>);
  if (error == cudaSuccess) error = Prepare(&ReduceScatterKernel<float, kDirect>);
  return error;
}

template <typename Element>
void LaunchReduce(const Parameters& parameters, uint32_t ctas, cudaStream_t stream) {
  if (parameters.direct != 0) {
    ReduceScatterKernel<Element, true><<<ctas, kThreads, kSharedBytes, stream>>>(parameters);
  } else {
    ReduceScatterKernel<Element, false><<<ctas, kThreads, kSharedBytes, stream>>>(parameters);
  }
}

}  // namespace

cudaError_t PrepareKernels() {
  const cudaError_t error = PrepareAll<true>();
  return error == cudaSuccess ? PrepareAll<false>() : error;
}

cudaError_t LaunchExchangeKernel(const Parameters& parameters, uint32_t ctas, cudaStream_t stream) {
  if (parameters.direct != 0) {
    ExchangeKernel<true><<<ctas, kThreads, kSharedBytes, stream>>>(parameters);
  } else {
    ExchangeKernel<false><<<ctas, kThreads, kSharedBytes, stream>>>(parameters);
  }
  return cudaGetLastError();
}

cudaError_t LaunchReduceKernel(const Parameters& parameters, cinch_dtype dtype, uint32_t ctas,
                               cudaStream_t stream) {
  switch (dtype) {
    case CINCH_DTYPE_BF16:
      LaunchReduce<__nv_bfloat16>(parameters, ctas, stream);
      break;
    case CINCH_DTYPE_FP16:
      LaunchReduce<__half>(parameters, ctas, stream);
      break;
    case CINCH_DTYPE_FP32:
      LaunchReduce<float>(parameters, ctas, stream);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace cinch::fused
