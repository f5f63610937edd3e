// SPDX-License-Identifier: Apache-2.0
/// @file pipeline.cuh
/// src/codec/gpu/warp/pipeline.cuh for emulated_gpu.h.
#pragma once

#include <cstdint>

#include "codec/gpu/warp/lanes.cuh"
#include "emulated_gpu.h"

namespace cinch::codec::gpu {

/// What stands in the 8 bytes of a barrier.
struct EmulatedPhases {
  uint16_t arrivals;
  uint16_t arrived;
  uint32_t ended;
};
inline void InitPhases(uint32_t barrier, uint32_t arrivals) {
  *SharedPointer<uint64_t>(barrier) = 0;
  reinterpret_cast<EmulatedPhases*>(SharedPointer<uint64_t>(barrier))->arrivals =
      static_cast<uint16_t>(arrivals);
}
inline void Arrive(uint32_t barrier) {
  auto* phases = reinterpret_cast<EmulatedPhases*>(SharedPointer<uint64_t>(barrier));
  if (++phases->arrived < phases->arrivals) return;
  phases->arrived = 0;
  ++phases->ended;
}
inline bool PhaseHasEnded(uint32_t barrier, uint32_t parity) {
  const auto* phases = reinterpret_cast<EmulatedPhases*>(SharedPointer<uint64_t>(barrier));
  return phases->ended % 2 != parity;
}
inline bool HasEnded(uint32_t barrier, uint32_t parity) {
  const bool ended = PhaseHasEnded(barrier, parity);
  emulated::Grid::Current().Yield();
  return ended;
}
inline bool HasEndedSoon(uint32_t barrier, uint32_t parity) { return HasEnded(barrier, parity); }
inline void AwaitPhase(uint32_t barrier, uint32_t parity) {
  const auto* phases = reinterpret_cast<EmulatedPhases*>(SharedPointer<uint64_t>(barrier));
  emulated::Grid::Current().WaitUntil([=] { return phases->ended % 2 != parity; });
}

template <uint32_t kId>
void SyncPart(uint32_t threads) {
  emulated::Grid::Current().Barrier(kId, threads, 0);
}

inline void OrShared(uint32_t address, uint32_t bits) { *SharedPointer<uint32_t>(address) |= bits; }
inline void CountShared(uint32_t address) { ++*SharedPointer<uint32_t>(address); }
inline uint4 LoadShared128(uint32_t address) {
  if (address % 16 != 0) throw std::logic_error("a bad shared address");
  const auto* words = SharedPointer<uint32_t>(address);
  return {words[0], words[1], words[2], words[3]};
}
inline void StoreShared128(uint32_t address, uint4 value) {
  if (address % 16 != 0) throw std::logic_error("a bad shared address");
  auto* words = SharedPointer<uint32_t>(address);
  words[0] = value.x;
  words[1] = value.y;
  words[2] = value.z;
  words[3] = value.w;
}
inline void FenceCopies() {}

inline void CheckCopy(const uint8_t* global, uint32_t shared, uint32_t bytes) {
  if (reinterpret_cast<uintptr_t>(global) % 16 != 0 || shared % 16 != 0 || bytes % 16 != 0) {
    throw std::logic_error("a copy that is not aligned");
  }
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
inline void WarpStoreAsync(uint8_t* global, uint32_t shared, uint32_t bytes) {
  CheckCopy(global, shared, bytes);
  __syncwarp();
  if (threadIdx.x % 32 == 0) std::memcpy(global, SharedPointer<uint8_t>(shared), bytes);
}
inline void WarpAwaitReads() { __syncwarp(); }
inline void WarpAwaitWrites() { __syncwarp(); }
inline void PrefetchToL2(const uint8_t*, uint32_t) {}

}  // namespace cinch::codec::gpu
