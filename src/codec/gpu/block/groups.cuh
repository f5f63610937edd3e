// SPDX-License-Identifier: Apache-2.0
/// @file groups.cuh
/// The groups of 8 elements of a sparse block (docs/format.md, section 5.4), which a lane takes as
/// octets.
#pragma once

#include <cstdint>

#include "codec/gpu/block/octet.cuh"
#include "codec/gpu/block/workspace.cuh"
#include "format/layout.h"

namespace cinch::codec::gpu {

/// Groups whose bits share a word.
inline constexpr uint32_t kWordGroups = 32;
static_assert(format::kSparseGroup == kOctet);

/// A warp's groups: whole words of them, but for the last.
struct GroupShare {
  uint32_t begin;
  uint32_t end;
};
template <typename Team>
CINCH_TEAM GroupShare GroupShareOf(const Team& team, uint32_t groups) {
  const uint32_t words = (groups + kWordGroups - 1) / kWordGroups;
  const uint32_t share = (words + team.warps() - 1) / team.warps() * kWordGroups;
  return {Minimum(team.warp() * share, groups), Minimum((team.warp() + 1) * share, groups)};
}

/// What the groups of a block, and of the warps before this one, have that is not zero.
struct GroupTotals {
  uint32_t all_elements;
  uint32_t elements_before;
  uint32_t all_groups;
  uint32_t groups_before;
};

/// From each warp's own sums, valid in its lane 0. Ends with a barrier between the counts' use of
/// `sums` and any other.
template <typename Team>
CINCH_TEAM GroupTotals SyncGroupTotals(const Team& team, uint32_t own_elements, uint32_t own_groups,
                                       uint32_t (&sums)[format::kLevels][kMaxWarps]) {
  if (team.lane() == 0) {
    sums[0][team.warp()] = own_elements;
    sums[1][team.warp()] = own_groups;
  }
  team.Sync();
  GroupTotals totals{0, 0, 0, 0};
  for (uint32_t warp = 0; warp < team.warps(); ++warp) {
    if (warp == team.warp()) {
      totals.elements_before = totals.all_elements;
      totals.groups_before = totals.all_groups;
    }
    totals.all_elements += sums[0][warp];
    totals.all_groups += sums[1][warp];
  }
  team.Sync();
  return totals;
}

/// The lowest bit of each byte that is not zero, as four bits.
CINCH_PORTABLE uint32_t NonZeroBytes(uint32_t word) {
  word |= (word >> 4) & 0x0F0F0F0F;
  word |= (word >> 2) & 0x03030303;
  word |= (word >> 1) & 0x01010101;
  return ((word & 0x01010101) * 0x10204080U) >> 28;
}

/// Which elements of an octet are not zero.
template <uint32_t kElementBytes>
CINCH_PORTABLE uint32_t MapOf(const Octet<kElementBytes>& octet) {
  Plane any{0, 0};
  for (uint32_t plane = 0; plane < kElementBytes; ++plane) {
    const Plane bytes = TakePlane(octet, plane);
    any.low |= bytes.low;
    any.high |= bytes.high;
  }
  return NonZeroBytes(any.low) | (NonZeroBytes(any.high) << 4);
}

/// An unsigned number of an element's size.
template <uint32_t kElementBytes>
struct ElementWord;
template <>
struct ElementWord<1> {
  using Type = uint8_t;
};
template <>
struct ElementWord<2> {
  using Type = uint16_t;
};
template <>
struct ElementWord<4> {
  using Type = uint32_t;
};
template <>
struct ElementWord<8> {
  using Type = uint64_t;
};

/// Element `k` of an octet.
template <uint32_t kElementBytes>
CINCH_PORTABLE typename ElementWord<kElementBytes>::Type ElementOf(
    const Octet<kElementBytes>& octet, uint32_t k) {
  using T = typename ElementWord<kElementBytes>::Type;
  if constexpr (kElementBytes == 8) {
    return octet.word[2 * k] | (uint64_t{octet.word[2 * k + 1]} << 32);
  } else {
    constexpr uint32_t kPerWord = 4 / kElementBytes;
    return static_cast<T>(octet.word[k / kPerWord] >> (8 * kElementBytes * (k % kPerWord)));
  }
}

/// Puts element `k` into an octet that has zero there.
template <uint32_t kElementBytes>
CINCH_PORTABLE void PutElement(Octet<kElementBytes>* octet, uint32_t k, uint64_t element) {
  if constexpr (kElementBytes == 8) {
    octet->word[2 * k] = static_cast<uint32_t>(element);
    octet->word[2 * k + 1] = static_cast<uint32_t>(element >> 32);
  } else {
    constexpr uint32_t kPerWord = 4 / kElementBytes;
    octet->word[k / kPerWord] |= static_cast<uint32_t>(element)
                                 << (8 * kElementBytes * (k % kPerWord));
  }
}

}  // namespace cinch::codec::gpu
