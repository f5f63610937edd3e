// SPDX-License-Identifier: Apache-2.0
/// @file pipeline.cuh
/// What warps of a thread block that have different jobs need to work hand in hand: barriers in
/// shared memory that some arrive at and others wait for, barriers of a part of the warps, and
/// copies out of shared memory. Device only.
#pragma once

#include <cstdint>

#include "codec/gpu/warp/bulk.cuh"

namespace cinch::codec::gpu {

/// Makes a barrier whose phases end with `arrivals` arrivals; before a barrier of the team.
__device__ __forceinline__ void InitPhases(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
#if CINCH_HAS_BULK_COPY
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
/// Releases what this thread did before to whoever waits for the phase.
__device__ __forceinline__ void Arrive(uint32_t barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(barrier)
               : "memory");
}
/// Whether the phase of this parity has ended. Acquires when it has.
__device__ __forceinline__ bool HasEnded(uint32_t barrier, uint32_t parity) {
  uint32_t ended;
  asm volatile(
      "{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, "
      "p; }"
      : "=r"(ended)
      : "r"(barrier), "r"(parity)
      : "memory");
  return ended != 0;
}
inline constexpr uint32_t kMaxSleepNanoseconds = 2000;
/// The same, but the thread may sleep for a while first.
__device__ __forceinline__ bool HasEndedSoon(uint32_t barrier, uint32_t parity) {
#if CINCH_HAS_BULK_COPY
  uint32_t ended;
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, %3; selp.u32 %0, 1, "
      "0, "
      "p; }"
      : "=r"(ended)
      : "r"(barrier), "r"(parity), "r"(kMaxSleepNanoseconds)
      : "memory");
  return ended != 0;
#else
  return HasEnded(barrier, parity);
#endif
}
/// Waits for the end of the phase of this parity. Whoever arrives there waits for copies and for
/// thread blocks that run, and for both only so long.
__device__ __forceinline__ void AwaitPhase(uint32_t barrier, uint32_t parity) {
#ifdef CINCH_GPU_MAX_POLLS  // for a debug build: a trap instead of a hang
  uint32_t polls = 0;
  while (!HasEndedSoon(barrier, parity)) {
    if (++polls > CINCH_GPU_MAX_POLLS) __trap();
  }
#else
  while (!HasEndedSoon(barrier, parity)) {
  }
#endif
}

/// A barrier of `threads` threads, whole warps. kId is from 1 to 15.
template <uint32_t kId>
__device__ __forceinline__ void SyncPart(uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"n"(kId), "r"(threads) : "memory");
}

__device__ __forceinline__ void OrShared(uint32_t address, uint32_t bits) {
  asm volatile("red.shared.or.b32 [%0], %1;" ::"r"(address), "r"(bits) : "memory");
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

/// Copies that start after this, by whoever is told so, see what this thread wrote to shared memory
/// and come after its reads.
__device__ __forceinline__ void FenceCopies() {
#if CINCH_HAS_BULK_COPY
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// All lanes: starts a copy to shared memory that ends a phase of `barrier`, whose arrivals are
/// one. Addresses and size are multiples of 16.
__device__ __forceinline__ void WarpLoadAsync(uint32_t shared, const uint8_t* global,
                                              uint32_t bytes, uint32_t barrier) {
  const uint32_t lane = threadIdx.x % 32;
#if CINCH_HAS_BULK_COPY
  if (lane == 0) {
    ExpectBytes(barrier, bytes);
    BulkLoad(shared, global, bytes, barrier);
  }
#else
  for (uint32_t at = 16 * lane; at < bytes; at += 16 * 32) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared + at), "l"(global + at)
                 : "memory");
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncwarp();
  if (lane == 0) Arrive(barrier);
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
