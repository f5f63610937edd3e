// SPDX-License-Identifier: Apache-2.0
/// @file memory.cuh
/// Loads, stores and clocks that need PTX, under names that state scope and order. Device only.
#pragma once

#include <cstdint>

namespace cinch::codec::gpu {

/// A relaxed load at device scope: sees what other thread blocks stored, orders nothing.
__device__ __forceinline__ uint64_t LoadRelaxed(const uint64_t* address) {
  uint64_t value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  return value;
}
__device__ __forceinline__ uint32_t LoadRelaxed(const uint32_t* address) {
  uint32_t value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}
/// Two relaxed loads at device scope, each of 64 bits, in no order; 16 divides the address.
__device__ __forceinline__ void LoadRelaxedPair(const uint64_t* address, uint64_t* first,
                                                uint64_t* second) {
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(*first), "=l"(*second)
               : "l"(address)
               : "memory");
}
/// A relaxed store at device scope.
__device__ __forceinline__ void StoreRelaxed(uint64_t* address, uint64_t value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}
__device__ __forceinline__ void StoreRelaxed(uint32_t* address, uint32_t value) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
/// A relaxed store at system scope: for words that a host thread or a peer polls.
__device__ __forceinline__ void StoreRelaxedSystem(uint64_t* address, uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

/// An acquire load at system scope: what was written before the value that it sees, is seen, too.
__device__ __forceinline__ uint64_t LoadAcquireSystem(const uint64_t* address) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  return value;
}

/// A coarse clock that all multiprocessors share.
__device__ __forceinline__ uint64_t NanosecondsNow() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

}  // namespace cinch::codec::gpu
