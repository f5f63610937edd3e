// SPDX-License-Identifier: Apache-2.0
/// @file pipeline.cuh
/// src/codec/gpu/warp/pipeline.cuh for emulated_gpu.h.
#pragma once

#include <cstdint>

#include "codec/gpu/warp/lanes.cuh"
#include "emulated_gpu.h"

namespace cinch::codec::gpu {

template <uint32_t kId>
void SyncPart(uint32_t threads) {
  emulated::Grid::Current().Barrier(kId, threads, 0);
}

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
inline void WarpStoreAsync(uint8_t* global, uint32_t shared, uint32_t bytes) {
  CheckCopy(global, shared, bytes);
  __syncwarp();
  if (threadIdx.x % 32 == 0) std::memcpy(global, SharedPointer<uint8_t>(shared), bytes);
}
inline void WarpAwaitReads() { __syncwarp(); }
inline void WarpAwaitWrites() { __syncwarp(); }
inline void PrefetchToL2(const uint8_t*, uint32_t) {}

}  // namespace cinch::codec::gpu
