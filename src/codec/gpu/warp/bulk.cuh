// SPDX-License-Identifier: Apache-2.0
/// @file bulk.cuh
/// Copies that run beside the threads: single words by cp.async (sm_80 and up), whole ranges by the
/// bulk copy engine with a barrier that counts bytes (sm_90 and up). Device only.
#pragma once

#include <cstdint>

namespace cinch::codec::gpu {

/// Starts a copy of one word from global to shared memory by this thread.
__device__ __forceinline__ void CopyWordAsync(uint32_t shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(global) : "memory");
}
/// Waits for all such copies of this thread.
__device__ __forceinline__ void WaitForWords() { asm volatile("cp.async.wait_all;" ::: "memory"); }

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define CINCH_HAS_BULK_COPY 1
#else
#define CINCH_HAS_BULK_COPY 0
#endif

#if CINCH_HAS_BULK_COPY

/// Makes a barrier in shared memory that one thread arrives at; before a barrier of the team.
__device__ __forceinline__ void InitBulkBarrier(uint32_t barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/// The one arrival of this phase, which ends when `bytes` bytes have come.
__device__ __forceinline__ void ExpectBytes(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Starts a copy of `bytes` bytes; both addresses and the size are multiples of 16.
__device__ __forceinline__ void BulkLoad(uint32_t shared, const void* global, uint32_t bytes,
                                         uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared),
      "l"(global), "r"(bytes), "r"(barrier)
      : "memory");
}
/// Waits for the end of the phase of this parity; what the copies brought is then visible. The
/// bytes were expected before, so that the wait is bounded by the copy.
__device__ __forceinline__ void WaitForPhase(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{ .reg .pred p; WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1, %2; @!p bra "
      "WAIT; }" ::"r"(barrier),
      "r"(parity), "r"(1000000u)
      : "memory");
}

#endif  // CINCH_HAS_BULK_COPY

}  // namespace cinch::codec::gpu
