// SPDX-License-Identifier: Apache-2.0
/// @file decode_lists.cuh
/// Lists and fields of a block from untrusted bytes, each warp's share by that warp
/// (docs/format.md, section 5).
///
/// First every level's escapes are counted, which tells every warp where its share of the next list
/// starts, and whether the counts that the block claims are true. Then the lists of symbols are
/// expanded from level 3 up to level 0.
#pragma once

#include <cstdint>

#include "codec/gpu/block/encode_lists.cuh"
#include "codec/gpu/block/field.cuh"
#include "codec/gpu/block/octet.cuh"
#include "codec/gpu/block/workspace.cuh"
#include "format/layout.h"

namespace cinch::codec::gpu {

/// What a cascade block says of itself before its fields, checked.
struct CascadeHead {
  bool valid;
  uint32_t level0_bits;
  uint32_t zero_planes;
  uint32_t symbol_bits;
  uint32_t coded_bytes;
  Transform transform;
  format::Codebook codebook;
  format::EscapeCounts escapes;
  format::CascadeLayout layout;
  uint32_t codes_offset[format::kLevels];  ///< Of the codes of levels 1 to 3; [0] is of the raws.

  CINCH_PORTABLE uint32_t listed(uint32_t level) const { return escapes.count[level - 1]; }
};

/// A bit for each of the four codes of a byte that is an escape.
CINCH_PORTABLE uint32_t EscapesOfByte(uint32_t codes) {
  const uint32_t both = codes & (codes >> 1) & 0x55;
  return (both & 1) | ((both >> 1) & 2) | ((both >> 2) & 4) | ((both >> 3) & 8);
}

/// The escape bits of an octet's level-0 codes.
CINCH_PORTABLE uint32_t EscapesOfNibbles(uint32_t codes, uint32_t level0_bits, uint32_t count) {
  uint32_t all = codes;
  if (level0_bits > 1) all &= codes >> 1;
  if (level0_bits > 2) all &= codes >> 2;
  return BitsOfNibbles(all & NibbleMask(count));
}

/// Counts the level-0 escapes of a share; `*valid` becomes false for reserved bits.
template <typename Team>
CINCH_TEAM uint32_t WarpCountLevel0(const Team& team, const CascadeHead& head, const Share& share,
                                    const uint8_t* payload, bool* valid) {
  if (head.level0_bits == 0) return 0;
  uint32_t escapes = 0;
  for (uint32_t first = share.begin + kOctet * team.lane(); first < share.end;
       first += kOctet * Team::kLanes) {
    const FieldPlace place{head.layout.elements, first, Minimum(share.end - first, kOctet)};
    const uint32_t codes = ReadNibbles(place, payload + head.layout.code_offset, head.level0_bits);
    if (HasReservedNibbles(codes, place.count)) *valid = false;
    escapes += CountOnes(EscapesOfNibbles(codes, head.level0_bits, place.count));
  }
  return team.WarpSum(escapes);
}

/// The same for the codes of a list.
template <typename Team>
CINCH_TEAM uint32_t WarpCountList(const Team& team, const uint8_t* codes, const Share& share,
                                  bool* valid) {
  uint32_t escapes = 0;
  for (uint32_t first = share.begin + kListStep * team.lane(); first < share.end;
       first += kListStep * Team::kLanes) {
    const uint32_t byte = codes[first / kListStep];
    const uint32_t count = Minimum(share.end - first, kListStep);
    if ((byte >> (2 * count)) != 0) *valid = false;
    escapes += CountOnes(EscapesOfByte(byte) & ((1U << count) - 1));
  }
  return team.WarpSum(escapes);
}

/// Counts all levels' escapes in this warp's shares into workspace->escapes.
template <typename Team>
CINCH_TEAM void WarpCountLevels(const Team& team, const CascadeHead& head, const uint8_t* payload,
                                DecodeWorkspace* workspace, bool* valid) {
  for (uint32_t level = 0; level < format::kLevels; ++level) {
    const uint32_t escapes =
        level == 0 ? WarpCountLevel0(team, head, ShareOf(team, head.layout.elements, kOctet),
                                     payload, valid)
                   : WarpCountList(team, payload + head.codes_offset[level],
                                   ShareOf(team, head.listed(level), kListStep), valid);
    if (team.lane() == 0) workspace->escapes[level][team.warp()] = escapes;
  }
}

/// Expands a warp's share of a level: `to` gets the symbols of all its entries, `from` has those of
/// the entries that escape, this warp's first.
template <typename Team>
CINCH_TEAM void WarpExpandLevel(const Team& team, const Share& share, const uint8_t* codes,
                                const uint32_t* symbols, const uint8_t* from, uint8_t* to) {
  for (uint32_t step = share.begin; step < share.end; step += kListStep * Team::kLanes) {
    const uint32_t first = step + kListStep * team.lane();
    const uint32_t count = first < share.end ? Minimum(share.end - first, kListStep) : 0;
    const uint32_t byte = count != 0 ? codes[first / kListStep] : 0;
    const uint32_t escaped = EscapesOfByte(byte) & ((1U << count) - 1);
    uint32_t total = 0;
    const uint8_t* next = from + team.WarpExclusive(CountOnes(escaped), &total);
    uint32_t values = 0;
    for (uint32_t k = 0; k < count; ++k) {
      const bool is_escape = ((escaped >> k) & 1) != 0;
      const uint32_t symbol = is_escape ? *next++ : symbols[(byte >> (2 * k)) & 3];
      values |= symbol << (8 * k);
    }
    StoreBytes<uint32_t>(to + first, values, count);
    from += total;
  }
}

/// Expands the lists of levels 3 to 1: the symbols that escaped level 0 are then in
/// workspace->list. The counts have been checked.
template <typename Team>
CINCH_TEAM void SyncExpandLists(const Team& team, const CascadeHead& head,
                                const EscapeTotals& totals, const uint8_t* payload,
                                DecodeWorkspace* workspace) {
  const uint8_t* from = payload + head.codes_offset[0];
  for (uint32_t level = format::kLevels - 1; level > 0; --level) {
    uint8_t* to = level == 2 ? workspace->original : workspace->list;
    WarpExpandLevel(team, ShareOf(team, head.listed(level), kListStep),
                    payload + head.codes_offset[level], workspace->symbol_of_code[level],
                    from + totals.before[level], to);
    team.Sync();
    from = to;
  }
}

/// Reads an octet's residues. True when reserved bits are set. The last plane gets the bits below
/// the symbol.
template <uint32_t kElementBytes, uint32_t kSymbolBits>
CINCH_PORTABLE bool ReadResidues(const FieldPlace& place, const uint8_t* plane,
                                 uint32_t zero_planes, Plane (&planes)[kElementBytes]) {
  for (uint32_t k = 0; k + 1 < kElementBytes; ++k) {
    planes[k] = {0, 0};
    if (((zero_planes >> k) & 1) == 0) plane = ReadBytePlane(place, plane, &planes[k]);
  }
  Plane& top = planes[kElementBytes - 1];
  top = {0, 0};
  if constexpr (kSymbolBits < 8) {
    const uint32_t nibbles = ReadNibbles(place, plane, 8 - kSymbolBits);
    top = {BytesOfNibbles(nibbles), BytesOfNibbles(nibbles >> 16)};
    return HasReservedNibbles(nibbles, place.count);
  }
  return false;
}

/// The symbols of an octet; `next` points to those of its escapes.
CINCH_PORTABLE Plane JoinSymbols(uint32_t codes, uint32_t escaped, const uint32_t* symbols,
                                 const uint8_t* next) {
  Plane joined{0, 0};
  for (uint32_t e = 0; e < kOctet; ++e) {
    const bool is_escape = ((escaped >> e) & 1) != 0;
    const uint32_t symbol = is_escape ? *next++ : symbols[(codes >> (4 * e)) & 7];
    (e < 4 ? joined.low : joined.high) |= symbol << (8 * (e % 4));
  }
  return joined;
}

/// Puts a share's symbols and residues together. False, in some lane, when reserved bits are set.
template <uint32_t kElementBytes, uint32_t kSymbolBits, typename Team>
CINCH_TEAM bool WarpJoin(const Team& team, const CascadeHead& head, const uint8_t* payload,
                         const uint8_t* from, DecodeWorkspace* workspace) {
  const Share share = ShareOf(team, head.layout.elements, kOctet);
  bool valid = true;
  for (uint32_t step = share.begin; step < share.end; step += kOctet * Team::kLanes) {
    const uint32_t first = step + kOctet * team.lane();
    const uint32_t count = first < share.end ? Minimum(share.end - first, kOctet) : 0;
    const FieldPlace place{head.layout.elements, first, count};
    uint32_t codes = 0;
    uint32_t escaped = 0;
    if (head.level0_bits != 0 && count != 0) {
      codes = ReadNibbles(place, payload + head.layout.code_offset, head.level0_bits);
      escaped = EscapesOfNibbles(codes, head.level0_bits, count);
    }
    uint32_t total = 0;
    const uint8_t* next = from + team.WarpExclusive(CountOnes(escaped), &total);
    from += total;
    if (count == 0) continue;
    Plane planes[kElementBytes];
    if (ReadResidues<kElementBytes, kSymbolBits>(place, payload + format::kResidueOffset,
                                                 head.zero_planes, planes)) {
      valid = false;
    }
    const Plane symbols = JoinSymbols(codes, escaped, workspace->symbol_of_code[0], next);
    planes[kElementBytes - 1].low |= symbols.low << (8 - kSymbolBits);
    planes[kElementBytes - 1].high |= symbols.high << (8 - kSymbolBits);
    StoreOctet(JoinPlanes<kElementBytes>(planes), first, head.layout.elements, head.transform,
               workspace->original);
  }
  return valid;
}

}  // namespace cinch::codec::gpu
