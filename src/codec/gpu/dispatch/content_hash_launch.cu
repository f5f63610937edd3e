// SPDX-License-Identifier: Apache-2.0
#include "codec/gpu/dispatch/kernels.cuh"
#include "codec/gpu/kernels/content_hash_kernel.cuh"

namespace cinch::codec::gpu {

cudaError_t PrepareContentHash() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(ContentHashKernel));
}

cudaError_t LaunchContentHash(const uint8_t* bytes, uint64_t size_bytes, uint64_t* content_hash,
                              uint32_t ctas, cudaStream_t stream) {
  ContentHashKernel<<<ctas, kHashThreads, 0, stream>>>(bytes, size_bytes, content_hash);
  return cudaGetLastError();
}

}  // namespace cinch::codec::gpu
