// SPDX-License-Identifier: Apache-2.0
/// @file memory_stream.h
/// Bringing a block's memory into the cache in one straight run before it is worked on.
///
/// A block is read and written in pieces, too slowly for the processor's prefetchers, and its cache
/// misses end up one after another. Measured on Zen 5 with 64 MiB of bf16: touching the payload
/// first makes decoding 30 % faster, asking for the output 8 % more; with everything in the cache
/// both cost 3 % (bench/codec/block_codec_bench).
#pragma once

#include <cstdint>

#include "hwy/cache_control.h"

namespace cinch::codec::cpu {

inline constexpr uint32_t kCacheLineBytes = 64;

/// Reads a byte of each cache line.
inline void TouchForReading(const uint8_t* bytes, uint32_t size_bytes) {
  for (uint32_t at = 0; at < size_bytes; at += kCacheLineBytes) {
    // A true load: the hardware prefetchers do not follow prefetch instructions.
    static_cast<void>(*static_cast<const volatile uint8_t*>(bytes + at));
  }
}

/// Asks for cache lines that will be written.
inline void PrefetchForWriting(const uint8_t* bytes, uint32_t size_bytes) {
  for (uint32_t at = 0; at < size_bytes; at += kCacheLineBytes) hwy::Prefetch(bytes + at);
}

}  // namespace cinch::codec::cpu
