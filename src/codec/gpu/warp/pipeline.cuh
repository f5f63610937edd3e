// SPDX-License-Identifier: Apache-2.0
/// @file pipeline.cuh
/// What warps of a thread block that have different jobs need to work hand in hand: barriers of a
/// part of the warps, and copies out of shared memory. Device only.
#pragma once

#include <cstdint>

#include "codec/gpu/warp/bulk.cuh"

namespace cinch::codec::gpu {

/// A barrier of `threads` threads, whole warps. kId is from 1 to 15.
template <uint32_t kId>
__device__ __forceinline__ void SyncPart(uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"n"(kId), "r"(threads) : "memory");
}

/// Adds 1: that has an instruction of its own, which is not slowed down by lanes that meet.
__device__ __forceinline__ void CountShared(uint32_t address) {
  asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(address) : "memory");
}
__device__ __forceinline__ uint4 LoadShared128(uint32_t address) {
  uint4 value;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(address)
               : "memory");
  return value;
}
__device__ __forceinline__ void StoreShared128(uint32_t address, uint4 value) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(value.x),
               "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}

/// Copies that this thread starts from now on see what was written to shared memory before, by this
/// thread or, with a barrier between, by others.
__device__ __forceinline__ void FenceCopies() {
#if CINCH_HAS_BULK_COPY
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// All lanes: starts a copy out of shared memory. Addresses and size are multiples of 16.
__device__ __forceinline__ void WarpStoreAsync(uint8_t* global, uint32_t shared, uint32_t bytes) {
  const uint32_t lane = threadIdx.x % 32;
#if CINCH_HAS_BULK_COPY
  if (lane == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
                 "r"(shared), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }
#else
  for (uint32_t at = 16 * lane; at < bytes; at += 16 * 32) {
    *reinterpret_cast<uint4*>(global + at) = LoadShared128(shared + at);
  }
#endif
}
/// All lanes: until the warp's copies out of shared memory have read it.
__device__ __forceinline__ void WarpAwaitReads() {
#if CINCH_HAS_BULK_COPY
  if (threadIdx.x % 32 == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
  __syncwarp();
}
/// All lanes: until they have also written what they read; it is then as if lane 0 had written it.
__device__ __forceinline__ void WarpAwaitWrites() {
#if CINCH_HAS_BULK_COPY
  if (threadIdx.x % 32 == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
  __syncwarp();
}
/// One thread: has the second-level cache fetch what will be loaded. Multiples of 16.
__device__ __forceinline__ void PrefetchToL2(const uint8_t* global, uint32_t bytes) {
#if CINCH_HAS_BULK_COPY
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes) : "memory");
#endif
}

}  // namespace cinch::codec::gpu
