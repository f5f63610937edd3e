// SPDX-License-Identifier: Apache-2.0
/// @file copy.cuh
/// Copies by a warp between any addresses of any memory. Device only.
#pragma once

#include <cstdint>

namespace cinch::fused {

__device__ __forceinline__ bool IsAligned16(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % 16 == 0;
}

/// Loads go before stores, four at a time: the compiler cannot know that they do not overlap.
template <typename T>
__device__ __forceinline__ void WarpCopyAs(uint8_t* to, const uint8_t* from, uint32_t bytes) {
  constexpr uint32_t kSize = sizeof(T);
  constexpr uint32_t kAhead = 4;
  const uint32_t lane = threadIdx.x % 32;
  for (uint32_t begin = kSize * lane; begin + kSize <= bytes; begin += 32 * kSize * kAhead) {
    T part[kAhead];
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i) {
      const uint32_t at = begin + 32 * kSize * i;
      if (at + kSize <= bytes) part[i] = *reinterpret_cast<const T*>(from + at);
    }
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i) {
      const uint32_t at = begin + 32 * kSize * i;
      if (at + kSize <= bytes) *reinterpret_cast<T*>(to + at) = part[i];
    }
  }
  const uint32_t rest = bytes / kSize * kSize + lane;
  if (rest < bytes) to[rest] = from[rest];
}

/// All lanes. In the largest pieces that both addresses allow; never touches other bytes.
__device__ __forceinline__ void WarpCopy(uint8_t* to, const uint8_t* from, uint32_t bytes) {
  const auto both = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  if (both % 16 == 0) {
    WarpCopyAs<uint4>(to, from, bytes);
  } else if (both % 4 == 0) {
    WarpCopyAs<uint32_t>(to, from, bytes);
  } else if (both % 2 == 0) {
    WarpCopyAs<uint16_t>(to, from, bytes);
  } else {
    WarpCopyAs<uint8_t>(to, from, bytes);
  }
}

}  // namespace cinch::fused
