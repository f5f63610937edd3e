// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "codec/gpu/dispatch/kernels.cuh"
#include "codec/gpu/kernels/plan_kernels.cuh"

namespace cinch::codec::gpu {

cudaError_t PreparePlanning() {
  cudaFuncAttributes attributes;
  for (const void* kernel : {reinterpret_cast<const void*>(PrepareScratchKernel),
                             reinterpret_cast<const void*>(UploadKernel),
                             reinterpret_cast<const void*>(PlanItemsKernel<true>),
                             reinterpret_cast<const void*>(PlanItemsKernel<false>),
                             reinterpret_cast<const void*>(NumberUnitsKernel)}) {
    const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t LaunchPrepareScratch(const Scratch& scratch, uint64_t bytes, cudaStream_t stream) {
  const cudaError_t error = cudaMemsetAsync(scratch.header, 0, bytes, stream);
  if (error != cudaSuccess) return error;
  PrepareScratchKernel<<<1, 1, 0, stream>>>(scratch.header, scratch.max_items, scratch.max_units);
  return cudaGetLastError();
}

cudaError_t LaunchUpload(const Scratch& scratch, const cinch_cuda_item* items, uint32_t count,
                         cudaStream_t stream) {
  for (uint32_t first = 0; first < count; first += kUploadItems) {
    UploadParameters upload{};
    upload.to = scratch.items + first;
    upload.count = Minimum(count - first, kUploadItems);
    std::memcpy(upload.items, items + first, upload.count * sizeof *items);
    UploadKernel<<<1, kUploadItems, 0, stream>>>(upload);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t LaunchPlan(const BatchParameters& batch, bool compress, cudaStream_t stream) {
  const uint32_t ctas = (batch.item_count + kPlanThreads - 1) / kPlanThreads;
  if (compress) {
    PlanItemsKernel<true><<<ctas, kPlanThreads, 0, stream>>>(batch);
  } else {
    PlanItemsKernel<false><<<ctas, kPlanThreads, 0, stream>>>(batch);
  }
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return error;
  NumberUnitsKernel<<<ctas, kPlanThreads, 0, stream>>>(batch);
  return cudaGetLastError();
}

}  // namespace cinch::codec::gpu
