// SPDX-License-Identifier: Apache-2.0
/// @file bulk.cuh
/// Copies that run beside the threads, by the bulk copy engine with a barrier that counts bytes
/// (sm_90 and up). Device only.
#pragma once

#include <cstdint>

namespace cinch::codec::gpu {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define CINCH_HAS_BULK_COPY 1
#else
#define CINCH_HAS_BULK_COPY 0
#endif

#if CINCH_HAS_BULK_COPY

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
#endif  // CINCH_HAS_BULK_COPY

}  // namespace cinch::codec::gpu
