// SPDX-License-Identifier: Apache-2.0
/// @file arrival.cuh
/// Frames that are decoded while they arrive: waiting until enough of one is there.
#pragma once

#include <cstdint>

#include "cinch/status.h"
#include "codec/gpu/kernels/batch.cuh"
#include "codec/gpu/kernels/errors.cuh"
#include "codec/gpu/kernels/plan.cuh"
#include "codec/gpu/warp/memory.cuh"

namespace cinch::codec::gpu {

/// Between two looks at a counter, which may be on the other side of a slow bus.
inline constexpr uint32_t kPollNanoseconds = 500;

/// By one thread: waits until the first `bytes` bytes of item `item`'s frame are there. False when
/// their number has not grown for as long as the caller allows, or another thread has given the
/// item up. Pairs with whatever made the bytes visible before their number was stored.
__device__ __forceinline__ bool AwaitBytes(const BatchParameters& batch, uint32_t item,
                                           uint64_t bytes) {
  const uint64_t* error_key = &batch.scratch.states[item].error_key;
  uint64_t seen = 0;
  uint64_t since = NanosecondsNow();
  while (true) {
    const uint64_t now_there = LoadAcquireSystem(batch.available_bytes + item);
    if (now_there >= bytes) return true;
    if (StatusOfKey(LoadRelaxed(error_key)) == CINCH_ERROR_TIMEOUT) return false;
    const uint64_t now = NanosecondsNow();
    if (now_there != seen) {
      seen = now_there;
      since = now;
    } else if (now - since > batch.available_timeout_ns) {
      return false;
    }
    __nanosleep(kPollNanoseconds);
  }
}

/// By one thread: tells all others that an item's block will not come.
__device__ __forceinline__ uint64_t GiveUp(const BatchParameters& batch, uint32_t item,
                                           uint32_t block) {
  const uint64_t key = ErrorKey(ErrorRank::kArrival, block, CINCH_ERROR_TIMEOUT);
  atomicMax(reinterpret_cast<unsigned long long*>(&batch.scratch.states[item].error_key),
            static_cast<unsigned long long>(key));
  return key;
}

/// By one thread: the plan of an item whose header may still be on its way.
__device__ __forceinline__ PlanItem PlanArriving(const BatchParameters& batch, uint32_t item) {
  if (batch.available_bytes != nullptr &&
      batch.items[item].input_bytes >= sizeof(format::FrameHeader) &&
      !AwaitBytes(batch, item, sizeof(format::FrameHeader))) {
    PlanItem plan = PlanOf(batch.items[item]);
    plan.status = CINCH_ERROR_TIMEOUT;
    return plan;
  }
  return PlanDecompression(batch.items[item], batch.BaseAt(item));
}

}  // namespace cinch::codec::gpu
