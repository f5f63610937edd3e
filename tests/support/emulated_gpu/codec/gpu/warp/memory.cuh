// SPDX-License-Identifier: Apache-2.0
/// @file memory.cuh
/// src/codec/gpu/warp/memory.cuh for emulated_gpu.h.
#pragma once

#include <cstdint>

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
inline uint64_t NanosecondsNow() { return 0; }

}  // namespace cinch::codec::gpu
