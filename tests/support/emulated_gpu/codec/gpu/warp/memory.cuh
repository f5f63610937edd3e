// SPDX-License-Identifier: Apache-2.0
/// @file memory.cuh
/// src/codec/gpu/warp/memory.cuh for emulated_gpu.h.
#pragma once

#include <cstdint>
#include <functional>

namespace cinch::codec::gpu {

inline uint64_t LoadRelaxed(const uint64_t* address) { return *address; }
inline uint32_t LoadRelaxed(const uint32_t* address) { return *address; }
inline void LoadRelaxedPair(const uint64_t* address, uint64_t* first, uint64_t* second) {
  *first = address[0];
  *second = address[1];
}
inline void StoreRelaxed(uint64_t* address, uint64_t value) { *address = value; }
inline void StoreRelaxed(uint32_t* address, uint32_t value) { *address = value; }
inline void StoreRelaxedSystem(uint64_t* address, uint64_t value) { *address = value; }
/// What happens elsewhere while a kernel polls.
inline std::function<void()> on_poll;
inline uint64_t LoadAcquireSystem(const uint64_t* address) {
  if (on_poll) on_poll();
  return *address;
}
/// Goes on by a microsecond with every look at it.
inline uint64_t NanosecondsNow() {
  static uint64_t now = 0;
  return now += 1000;
}

}  // namespace cinch::codec::gpu
