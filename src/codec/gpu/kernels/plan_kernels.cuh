// SPDX-License-Identifier: Apache-2.0
/// @file plan_kernels.cuh
/// The small kernels: preparing scratch memory, and planning batches too large for one warp.
#pragma once

#include <cstdint>

#include "codec/gpu/kernels/arrival.cuh"
#include "codec/gpu/kernels/batch.cuh"
#include "codec/gpu/kernels/plan.cuh"

namespace cinch::codec::gpu {

/// Items, or bases, on their way from the host, in a launch's parameters.
template <typename Entry>
struct UploadParameters {
  Entry* to;
  uint32_t count;
  Entry entries[kUploadItems];
};
static_assert(sizeof(UploadParameters<cinch_cuda_item>) <= 4096);

/// After the scratch memory has been zeroed.
__global__ void PrepareScratchKernel(ScratchHeader* header, uint64_t max_items,
                                     uint64_t max_units) {
  header->max_items = max_items;
  header->max_units = max_units;
  header->epoch = 1;
  header->magic = kScratchMagic;
}

template <typename Entry>
__global__ void UploadKernel(const __grid_constant__ UploadParameters<Entry> upload) {
  if (threadIdx.x < upload.count) upload.to[threadIdx.x] = upload.entries[threadIdx.x];
}

/// The sum of `value` over the thread block, valid in thread 0.
__device__ __forceinline__ uint64_t SyncSum(uint64_t value) {
  __shared__ unsigned long long sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, static_cast<unsigned long long>(value));
  __syncthreads();
  return sum;
}

/// True when the scratch memory is what the launch takes it for.
__device__ __forceinline__ bool IsPrepared(const Scratch& scratch) {
  return scratch.header->magic == kScratchMagic && scratch.header->max_items == scratch.max_items &&
         scratch.header->max_units == scratch.max_units;
}

/// Plans each item and adds up the units of each kPlanThreads of them.
template <bool kCompress>
__global__ void __launch_bounds__(kPlanThreads)
    PlanItemsKernel(const __grid_constant__ BatchParameters batch) {
  if (!IsPrepared(batch.scratch)) return;
  const uint32_t i = blockIdx.x * kPlanThreads + threadIdx.x;
  uint32_t units = 0;
  if (i < batch.item_count) {
    const cinch_cuda_item item = batch.items[i];
    const cinch_base base = batch.BaseAt(i);
    const PlanItem plan =
        kCompress ? PlanCompression(item, batch.checksum, base) : PlanArriving(batch, i);
    batch.scratch.plan[i] = plan;
    units = plan.units();
  }
  const uint64_t sum = SyncSum(units);
  if (threadIdx.x == 0) batch.scratch.chunk_units[blockIdx.x] = sum;
}

/// Numbers the units: after PlanItemsKernel, with the same grid.
__global__ void __launch_bounds__(kPlanThreads)
    NumberUnitsKernel(const __grid_constant__ BatchParameters batch) {
  __shared__ uint64_t ends[kPlanThreads];
  if (!IsPrepared(batch.scratch)) return;
  uint64_t before = 0;
  for (uint32_t chunk = threadIdx.x; chunk < blockIdx.x; chunk += kPlanThreads) {
    before += batch.scratch.chunk_units[chunk];
  }
  before = SyncSum(before);
  const uint32_t i = blockIdx.x * kPlanThreads + threadIdx.x;
  const uint32_t units = i < batch.item_count ? batch.scratch.plan[i].units() : 0;
  ends[threadIdx.x] = units;
  __syncthreads();
  for (uint32_t distance = 1; distance < kPlanThreads; distance *= 2) {
    const uint64_t below = threadIdx.x >= distance ? ends[threadIdx.x - distance] : 0;
    __syncthreads();
    ends[threadIdx.x] += below;
    __syncthreads();
  }
  const uint64_t end = before + ends[threadIdx.x];
  // Batches of 2^32 units and more are refused by the coding kernels.
  if (i < batch.item_count) batch.scratch.first_unit[i] = static_cast<uint32_t>(end - units);
  if (i == batch.item_count - 1) batch.scratch.header->total_units = end;
}

}  // namespace cinch::codec::gpu
