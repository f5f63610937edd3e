// SPDX-License-Identifier: Apache-2.0
#include "codec/gpu/dispatch/kernels.cuh"
#include "codec/gpu/kernels/decode_kernel.cuh"

namespace cinch::codec::gpu {
namespace {

__global__ void __launch_bounds__(kDecodeTuning.threads, kDecodeTuning.min_ctas_per_sm)
    DecodeKernel(const __grid_constant__ BatchParameters batch) {
  extern __shared__ __align__(128) uint8_t shared_bytes[];
  SyncDecodeBatch(batch, reinterpret_cast<DecodeShared*>(shared_bytes));
}

}  // namespace

cudaError_t PrepareDecode(int* ctas_per_sm) {
  const cudaError_t error =
      cudaFuncSetAttribute(DecodeKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(sizeof(DecodeShared)));
  if (error != cudaSuccess) return error;
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(ctas_per_sm, DecodeKernel,
                                                       kDecodeTuning.threads, sizeof(DecodeShared));
}

cudaError_t LaunchDecode(const BatchParameters& batch, uint32_t ctas, cudaStream_t stream) {
  DecodeKernel<<<ctas, kDecodeTuning.threads, sizeof(DecodeShared), stream>>>(batch);
  return cudaGetLastError();
}

}  // namespace cinch::codec::gpu
