// SPDX-License-Identifier: Apache-2.0
/// @file phases.cuh
/// src/codec/gpu/warp/phases.cuh for emulated_gpu.h.
#pragma once

#include <cstdint>

#include "codec/gpu/warp/lanes.cuh"
#include "codec/gpu/warp/pipeline.cuh"
#include "emulated_gpu.h"

namespace cinch::codec::gpu {

/// What stands in the 8 bytes of a barrier.
struct EmulatedPhases {
  uint16_t arrivals;
  uint16_t arrived;
  uint32_t ended;
};
inline EmulatedPhases* PhasesAt(uint32_t barrier) {
  return reinterpret_cast<EmulatedPhases*>(SharedPointer<uint64_t>(barrier));
}
inline void InitPhases(uint32_t barrier, uint32_t arrivals) {
  *PhasesAt(barrier) = {static_cast<uint16_t>(arrivals), 0, 0};
}
inline void Arrive(uint32_t barrier) {
  EmulatedPhases* phases = PhasesAt(barrier);
  if (++phases->arrived < phases->arrivals) return;
  phases->arrived = 0;
  ++phases->ended;
}
inline bool HasEnded(uint32_t barrier, uint32_t parity) {
  const bool ended = PhasesAt(barrier)->ended % 2 != parity;
  emulated::Grid::Current().Yield();
  return ended;
}
inline void AwaitPhase(uint32_t barrier, uint32_t parity) {
  const EmulatedPhases* phases = PhasesAt(barrier);
  emulated::Grid::Current().WaitUntil([=] { return phases->ended % 2 != parity; });
}

template <uint32_t kId>
bool SyncPartAny(uint32_t threads, bool value) {
  const auto& all = emulated::Grid::Current().Barrier(kId, threads, value ? 1 : 0);
  return std::any_of(all.begin(), all.end(), [](uint64_t one) { return one != 0; });
}

/// The copy happens some time after the call.
inline void WarpLoadAsync(uint32_t shared, const uint8_t* global, uint32_t bytes,
                          uint32_t barrier) {
  CheckCopy(global, shared, bytes);
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    std::memcpy(SharedPointer<uint8_t>(shared), global, bytes);
    Arrive(barrier);
  }
}
inline void FenceLoads() {}

}  // namespace cinch::codec::gpu
