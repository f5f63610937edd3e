// SPDX-License-Identifier: Apache-2.0
/// @file phases.cuh
/// Barriers in shared memory at which some threads arrive and others wait, and copies into shared
/// memory that end in an arrival. Device only.
///
/// A barrier's phase ends when all its arrivals have come, and all bytes that were expected; what
/// the arriving threads wrote, and what the copies brought, is then visible to who waits.
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
/// Waits for the end of the phase of this parity. Whoever arrives there waits for copies and for
/// threads of the same thread block, or for frames that arrive, and for these only so long.
__device__ __forceinline__ void AwaitPhase(uint32_t barrier, uint32_t parity) {
#if CINCH_HAS_BULK_COPY
  uint32_t ended = 0;
  while (ended == 0) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, %3; selp.u32 %0, 1, "
        "0, p; }"
        : "=r"(ended)
        : "r"(barrier), "r"(parity), "r"(kMaxSleepNanoseconds)
        : "memory");
  }
#else
  while (!HasEnded(barrier, parity)) {
  }
#endif
}

/// A barrier of `threads` threads, whole warps; true if any thread says so. kId is from 1 to 15.
template <uint32_t kId>
__device__ __forceinline__ bool SyncPartAny(uint32_t threads, bool value) {
  uint32_t any;
  asm volatile(
      "{ .reg .pred p, q; setp.ne.u32 p, %1, 0; bar.red.or.pred q, %2, %3, p; selp.u32 %0, 1, 0, "
      "q; }"
      : "=r"(any)
      : "r"(value ? 1U : 0U), "n"(kId), "r"(threads)
      : "memory");
  return any != 0;
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

/// Copies that this thread starts from now on see what it has seen of memory.
__device__ __forceinline__ void FenceLoads() {
#if CINCH_HAS_BULK_COPY
  asm volatile("fence.proxy.async;" ::: "memory");
#endif
}

}  // namespace cinch::codec::gpu
