// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "codec/gpu/dispatch/kernels.cuh"
#include "codec/gpu/kernels/plan_kernels.cuh"

namespace cinch::codec::gpu {

cudaError_t PreparePlanning() {
  cudaFuncAttributes attributes;
  for (const void* kernel : {reinterpret_cast<const void*>(PrepareScratchKernel),
                             reinterpret_cast<const void*>(UploadKernel<cinch_cuda_item>),
                             reinterpret_cast<const void*>(UploadKernel<cinch_base>),
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

template <typename Entry>
cudaError_t LaunchUpload(Entry* to, const Entry* entries, uint32_t count, cudaStream_t stream) {
  for (uint32_t first = 0; first < count; first += kUploadItems) {
    UploadParameters<Entry> upload{};
    upload.to = to + first;
    upload.count = Minimum(count - first, kUploadItems);
    std::memcpy(upload.entries, entries + first, upload.count * sizeof *entries);
    UploadKernel<<<1, kUploadItems, 0, stream>>>(upload);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

template cudaError_t LaunchUpload(cinch_cuda_item*, const cinch_cuda_item*, uint32_t, cudaStream_t);
template cudaError_t LaunchUpload(cinch_base*, const cinch_base*, uint32_t, cudaStream_t);

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
