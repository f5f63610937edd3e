// SPDX-License-Identifier: Apache-2.0
/// @file block_hash.h
/// The checksum of docs/format.md, section 6.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/host_device.h"

namespace cinch::format {

/// Keys of pair p: (p + 1) times these. Two different factors, so that no exchange of pairs that
/// have the same sum goes unnoticed.
inline constexpr uint32_t kHashEvenKeyFactor = 0x9E3779B1;
inline constexpr uint32_t kHashOddKeyFactor = 0x85EBCA77;

/// The term of words 2p and 2p + 1, p being `pair`.
CINCH_HOST_DEVICE constexpr uint64_t HashPair(uint32_t pair, uint32_t even_word,
                                              uint32_t odd_word) {
  const uint32_t even_factor = even_word + kHashEvenKeyFactor * (pair + 1);
  const uint32_t odd_factor = odd_word + kHashOddKeyFactor * (pair + 1);
  return uint64_t{even_factor} * uint64_t{odd_factor};
}

/// Turns the sum of all pairs' terms into the block's hash.
CINCH_HOST_DEVICE constexpr uint64_t FinishHash(uint64_t sum, uint64_t length_bytes,
                                                uint64_t index) {
  uint64_t x = sum ^ (length_bytes * 0xD6E8FEB86659FD93 + index * 0xA0761D6478BD642F);
  x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCD;
  x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53;
  return x ^ (x >> 33);
}

/// BlockHash of `length_bytes` bytes as block `index`. Plain code; the SIMD codec has its own.
CINCH_HOST_DEVICE constexpr uint64_t BlockHash(const uint8_t* bytes, size_t length_bytes,
                                               uint64_t index) {
  uint64_t sum = 0;
  const size_t pairs = (length_bytes + 7) / 8;
  for (size_t pair = 0; pair < pairs; ++pair) {
    uint64_t words = 0;
    for (size_t i = 0; i < 8 && pair * 8 + i < length_bytes; ++i) {
      words |= uint64_t{bytes[pair * 8 + i]} << (8 * i);
    }
    sum += HashPair(static_cast<uint32_t>(pair), static_cast<uint32_t>(words),
                    static_cast<uint32_t>(words >> 32));
  }
  return FinishHash(sum, length_bytes, index);
}

}  // namespace cinch::format
