// SPDX-License-Identifier: Apache-2.0
/// @file copy.cuh
/// Cooperative copies between any addresses.
#pragma once

#include <cstdint>

#include "codec/gpu/warp/portable.cuh"

namespace cinch::codec::gpu {

template <typename T, typename Team>
CINCH_TEAM void CopyAs(const Team& team, uint8_t* to, const uint8_t* from, uint32_t bytes) {
  constexpr uint32_t kSize = sizeof(T);
  for (uint32_t at = kSize * team.thread(); at + kSize <= bytes; at += kSize * team.threads()) {
    StoreAligned<T>(to + at, LoadAligned<T>(from + at));
  }
  for (uint32_t at = bytes / kSize * kSize + team.thread(); at < bytes; at += team.threads()) {
    to[at] = from[at];
  }
}

/// Copies `bytes` bytes, never touching others, in the largest pieces that both addresses allow.
/// Called by all threads of the team; complete after the next Sync.
template <typename Team>
CINCH_TEAM void CopyBytes(const Team& team, uint8_t* to, const uint8_t* from, uint32_t bytes) {
  const auto both = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  if (both % 16 == 0) {
    CopyAs<Words4>(team, to, from, bytes);
  } else if (both % 4 == 0) {
    CopyAs<uint32_t>(team, to, from, bytes);
  } else if (both % 2 == 0) {
    CopyAs<uint16_t>(team, to, from, bytes);
  } else {
    CopyAs<uint8_t>(team, to, from, bytes);
  }
}

template <typename T, typename Team>
CINCH_TEAM void XorAs(const Team& team, uint8_t* to, const uint8_t* from, uint32_t bytes) {
  constexpr uint32_t kSize = sizeof(T);
  for (uint32_t at = kSize * team.thread(); at + kSize <= bytes; at += kSize * team.threads()) {
    auto ours = LoadAligned<T>(to + at);
    const auto theirs = LoadAligned<T>(from + at);
    for (uint32_t i = 0; i < kSize / 4; ++i) ours.word[i] ^= theirs.word[i];
    StoreAligned<T>(to + at, ours);
  }
  for (uint32_t at = bytes / kSize * kSize + team.thread(); at < bytes; at += team.threads()) {
    to[at] = static_cast<uint8_t>(to[at] ^ from[at]);
  }
}

struct alignas(4) Words1 {
  uint32_t word[1];
};

/// to ^= from, for `bytes` bytes, as CopyBytes copies.
template <typename Team>
CINCH_TEAM void XorBytes(const Team& team, uint8_t* to, const uint8_t* from, uint32_t bytes) {
  const auto both = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  if (both % 16 == 0) return XorAs<Words4>(team, to, from, bytes);
  if (both % 4 == 0) return XorAs<Words1>(team, to, from, bytes);
  for (uint32_t at = team.thread(); at < bytes; at += team.threads()) {
    to[at] = static_cast<uint8_t>(to[at] ^ from[at]);
  }
}

/// Zeroes [begin, end) of `bytes`; called by all threads, complete after the next Sync.
template <typename Team>
CINCH_TEAM void ZeroBytes(const Team& team, uint8_t* bytes, uint32_t begin, uint32_t end) {
  for (uint32_t at = begin + team.thread(); at < end; at += team.threads()) bytes[at] = 0;
}

/// This thread's part of the check that [begin, end) of `bytes` is zero: true if it saw a byte that
/// is not.
template <typename Team>
CINCH_TEAM bool SeesNonZero(const Team& team, const uint8_t* bytes, uint32_t begin, uint32_t end) {
  bool seen = false;
  for (uint32_t at = begin + team.thread(); at < end; at += team.threads()) {
    seen |= bytes[at] != 0;
  }
  return seen;
}

}  // namespace cinch::codec::gpu
