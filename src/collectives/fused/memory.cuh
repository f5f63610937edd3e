// SPDX-License-Identifier: Apache-2.0
/// @file memory.cuh
/// Loads, stores and bulk copies between ranks, under names that state scope and order
/// (docs/memory-order.md says which release pairs with which acquire). Device only.
#pragma once

#include <cstdint>

#include "codec/gpu/warp/bulk.cuh"
#include "codec/gpu/warp/memory.cuh"

namespace cinch::fused {

using codec::gpu::LoadAcquireSystem;
using codec::gpu::NanosecondsNow;

__device__ __forceinline__ uint32_t LoadAcquireSystem(const uint32_t* address) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}
__device__ __forceinline__ uint64_t LoadRelaxedSystem(const uint64_t* address) {
  uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  return value;
}
__device__ __forceinline__ uint32_t LoadRelaxedSystem(const uint32_t* address) {
  uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}
__device__ __forceinline__ void StoreReleaseSystem(uint64_t* address, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}
__device__ __forceinline__ void StoreReleaseSystem(uint32_t* address, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
__device__ __forceinline__ void StoreRelaxedSystem(uint32_t* address, uint32_t value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

/// The user's data and what lies in windows: used once. Streaming hints (ld.global.cs,
/// st.global.cs) instead halve the rate of coding (one H200, 32 multiprocessors: 380 against 757
/// GB/s).
__device__ __forceinline__ uint4 LoadOnce(const void* address) {
  uint4 value;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(address)
               : "memory");
  return value;
}
__device__ __forceinline__ uint32_t LoadOnce32(const void* address) {
  uint32_t value;
  asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}
__device__ __forceinline__ void StoreOnce(void* address, uint4 value) {
  asm volatile("st.global.L1::no_allocate.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address),
               "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}

__device__ __forceinline__ void StoreOnce32(void* address, uint32_t value) {
  asm volatile("st.global.L1::no_allocate.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
__device__ __forceinline__ uint32_t LoadOnce8(const void* address) {
  uint32_t value;
  asm volatile("ld.global.L1::no_allocate.u8 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

// Bulk copies out of shared memory, which run beside the thread that starts them. A thread's copies
// form groups; waiting for all but the newest kNewest groups is waiting for the older ones.

/// By every thread that wrote what a bulk copy will read, before the barrier behind which the copy
/// starts.
__device__ __forceinline__ void FenceSharedForBulk() {
#if CINCH_HAS_BULK_COPY
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
/// Both addresses and the size are multiples of 16. A group of its own.
__device__ __forceinline__ void BulkStore(void* global, uint32_t shared, uint32_t bytes) {
#if CINCH_HAS_BULK_COPY
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
               "r"(shared), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}
/// Until the groups have been read from shared memory.
template <int kNewest>
__device__ __forceinline__ void WaitBulkRead() {
#if CINCH_HAS_BULK_COPY
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kNewest) : "memory");
#endif
}
/// Until the groups have been written, for this thread and whom it tells.
template <int kNewest>
__device__ __forceinline__ void WaitBulkWritten() {
#if CINCH_HAS_BULK_COPY
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kNewest) : "memory");
#endif
}

}  // namespace cinch::fused
