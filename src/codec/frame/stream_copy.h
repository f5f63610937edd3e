// SPDX-License-Identifier: Apache-2.0
/// @file stream_copy.h
/// A copy that leaves the caches to others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace cinch::codec {

/// Copies `bytes` from `source`, which is in a cache, to `target`, which is not and need not be:
/// the target's lines are not read first, as plain stores would. Complete for other threads once
/// this one has synchronised with them in any way.
inline void StreamCopy(uint8_t* target, const uint8_t* source, uint64_t bytes) {
#if defined(__SSE2__)
  constexpr uint64_t kVectorBytes = sizeof(__m128i);
  const uint64_t head_bytes = std::min<uint64_t>(
      bytes, (kVectorBytes - reinterpret_cast<uintptr_t>(target) % kVectorBytes) % kVectorBytes);
  std::memcpy(target, source, head_bytes);
  uint64_t at = head_bytes;
  for (; at + 4 * kVectorBytes <= bytes; at += 4 * kVectorBytes) {
    for (uint64_t part = 0; part < 4; ++part) {
      const auto* from = reinterpret_cast<const __m128i*>(source + at + part * kVectorBytes);
      auto* to = reinterpret_cast<__m128i*>(target + at + part * kVectorBytes);
      _mm_stream_si128(to, _mm_loadu_si128(from));
    }
  }
  std::memcpy(target + at, source + at, bytes - at);
  // Streaming stores are not ordered by what orders others.
  _mm_sfence();
#else
  std::memcpy(target, source, bytes);
#endif
}

}  // namespace cinch::codec
