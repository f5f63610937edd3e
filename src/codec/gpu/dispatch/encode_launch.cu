// SPDX-License-Identifier: Apache-2.0
#include "codec/gpu/dispatch/kernels.cuh"
#include "codec/gpu/kernels/encode_kernel.cuh"

namespace cinch::codec::gpu {

__global__ void __launch_bounds__(kEncodeTuning.threads, kEncodeTuning.min_ctas_per_sm)
    EncodeKernel(const __grid_constant__ BatchParameters batch) {
  extern __shared__ __align__(128) uint8_t shared_bytes[];
  SyncEncodeBatch(batch, reinterpret_cast<EncodeShared*>(shared_bytes));
}

cudaError_t PrepareEncode(int* ctas_per_sm) {
  const cudaError_t error =
      cudaFuncSetAttribute(EncodeKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(sizeof(EncodeShared)));
  if (error != cudaSuccess) return error;
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(ctas_per_sm, EncodeKernel,
                                                       kEncodeTuning.threads, sizeof(EncodeShared));
}

cudaError_t LaunchEncode(const BatchParameters& batch, uint32_t ctas, cudaStream_t stream) {
  EncodeKernel<<<ctas, kEncodeTuning.threads, sizeof(EncodeShared), stream>>>(batch);
  return cudaGetLastError();
}

}  // namespace cinch::codec::gpu
