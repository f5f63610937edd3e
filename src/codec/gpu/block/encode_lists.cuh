// SPDX-License-Identifier: Apache-2.0
/// @file encode_lists.cuh
/// Fields and lists of a block, each warp's share by that warp (docs/format.md, section 5).
///
/// A warp lists the symbols that escape level 0 in its share of the elements, and codes its own
/// list level by level. The block's lists are the warps' one behind the other, so that all a warp
/// needs of the others is how many escapes there are before its own.
#pragma once

#include <cstdint>

#include "codec/gpu/block/field.cuh"
#include "codec/gpu/block/octet.cuh"
#include "codec/gpu/block/sample.cuh"
#include "codec/gpu/block/workspace.cuh"
#include "format/layout.h"

namespace cinch::codec::gpu {

/// Entries of a list of escapes that a lane takes at once: those of one byte of codes.
inline constexpr uint32_t kListStep = 4;

/// What all warps of a block have in common.
struct CascadeJob {
  format::CascadeLayout layout;
  Transform transform;
  uint32_t level0_bits;
  uint32_t zero_planes;
  uint32_t window_start;  ///< Of level 0.
  uint32_t window_width;  ///< Of level 0; also its escape code.
};

/// A normalized octet's symbols.
template <uint32_t kElementBytes, uint32_t kSymbolBits>
CINCH_PORTABLE Plane SymbolsOf(Plane top) {
  if constexpr (kSymbolBits == 8) {
    return top;
  } else {
    constexpr uint32_t kMask = ((1U << kSymbolBits) - 1) * 0x01010101;
    return {(top.low >> (8 - kSymbolBits)) & kMask, (top.high >> (8 - kSymbolBits)) & kMask};
  }
}

template <uint32_t kElementBytes, uint32_t kSymbolBits>
CINCH_PORTABLE void WriteResidues(const FieldPlace& place, uint8_t* plane,
                                  const Octet<kElementBytes>& octet, Plane top,
                                  uint32_t zero_planes) {
  for (uint32_t k = 0; k + 1 < kElementBytes; ++k) {
    if (((zero_planes >> k) & 1) == 0) plane = WriteBytePlane(place, plane, TakePlane(octet, k));
  }
  if constexpr (kSymbolBits < 8) {
    constexpr uint32_t kMask = (1U << (8 - kSymbolBits)) - 1;
    const uint32_t nibbles = NibblesOfBytes(top.low) | (NibblesOfBytes(top.high) << 16);
    WriteNibbles(place, plane, 8 - kSymbolBits, nibbles & (kMask * 0x11111111));
  }
}

/// The level-0 codes of an octet's symbols, as nibbles; `escaped` gets a bit for each escape.
CINCH_PORTABLE uint32_t CodesOf(Plane symbols, uint32_t count, const CascadeJob& job,
                                uint32_t* escaped) {
  uint32_t codes = 0;
  uint32_t mask = 0;
  for (uint32_t e = 0; e < kOctet; ++e) {
    const uint32_t symbol = e < 4 ? ByteOf(symbols.low, e) : ByteOf(symbols.high, e - 4);
    const uint32_t code = Minimum(symbol - job.window_start, job.window_width);
    codes |= code << (4 * e);
    mask |= (code == job.window_width ? 1U : 0U) << e;
  }
  *escaped = count == kOctet ? mask : mask & ((1U << count) - 1);
  return codes & NibbleMask(count);
}

/// Writes the residues and level-0 codes of a share and lists the symbols that escape where the
/// share's original bytes were. Returns their number.
template <uint32_t kElementBytes, uint32_t kSymbolBits, typename Team>
CINCH_TEAM uint32_t WarpCodeLevel0(const Team& team, const CascadeJob& job, const Share& share,
                                   EncodeWorkspace* workspace) {
  const format::CascadeLayout& layout = job.layout;
  uint8_t* list = workspace->original + share.begin * kElementBytes;
  uint8_t* residues = PayloadOf(workspace) + format::kResidueOffset;
  uint8_t* codes = PayloadOf(workspace) + layout.code_offset;
  uint32_t listed = 0;
  for (uint32_t step = share.begin; step < share.end; step += kOctet * Team::kLanes) {
    const uint32_t first = step + kOctet * team.lane();
    const uint32_t count = first < share.end ? Minimum(share.end - first, kOctet) : 0;
    uint32_t escaped = 0;
    Plane symbols{0, 0};
    if (count != 0) {
      const auto octet =
          LoadOctet<kElementBytes>(workspace->original, first, layout.elements, job.transform);
      const Plane top = TakePlane(octet, kElementBytes - 1);
      symbols = SymbolsOf<kElementBytes, kSymbolBits>(top);
      const FieldPlace place{layout.elements, first, count};
      WriteResidues<kElementBytes, kSymbolBits>(place, residues, octet, top, job.zero_planes);
      if (job.level0_bits != 0) {
        WriteNibbles(place, codes, job.level0_bits, CodesOf(symbols, count, job, &escaped));
      }
    }
    uint32_t total = 0;
    uint8_t* to = list + listed + team.WarpExclusive(CountOnes(escaped), &total);
    team.WarpSync();
    for (uint32_t e = 0; e < kOctet; ++e) {
      if (((escaped >> e) & 1) != 0) {
        *to++ = static_cast<uint8_t>(e < 4 ? ByteOf(symbols.low, e) : ByteOf(symbols.high, e - 4));
      }
    }
    listed += total;
  }
  team.WarpSync();
  return listed;
}

/// Counts how many of a warp's `listed` escapes of level 0 escape each level; the result is in lane
/// 0's workspace->escapes.
template <typename Team>
CINCH_TEAM void WarpCountEscapes(const Team& team, const uint8_t* list, uint32_t listed,
                                 EncodeWorkspace* workspace) {
  uint32_t escapes[format::kLevels] = {listed, 0, 0, 0};
  for (uint32_t first = kListStep * team.lane(); first < listed;
       first += kListStep * Team::kLanes) {
    const auto symbols = LoadAligned<uint32_t>(list + first);
    for (uint32_t k = 0; k < kListStep; ++k) {
      if (first + k >= listed) break;
      const uint32_t level = workspace->place_of_symbol[ByteOf(symbols, k)] >> 4;
      escapes[1] += level > 1 ? 1 : 0;
      escapes[2] += level > 2 ? 1 : 0;
      escapes[3] += level > 3 ? 1 : 0;
    }
  }
  for (uint32_t level = 0; level < format::kLevels; ++level) {
    const uint32_t sum = level == 0 ? listed : team.WarpSum(escapes[level]);
    if (team.lane() == 0) workspace->escapes[level][team.warp()] = sum;
  }
}

/// Escapes of each level in the whole block, and in the shares of the warps before this one.
struct EscapeTotals {
  uint32_t all[format::kLevels];
  uint32_t before[format::kLevels];
};

/// From what all warps have counted; the same in all lanes.
template <typename Team>
CINCH_TEAM EscapeTotals WarpTotals(const Team& team,
                                   const uint32_t (&escapes)[format::kLevels][kMaxWarps]) {
  EscapeTotals totals;
  for (uint32_t level = 0; level < format::kLevels; ++level) {
    const uint32_t own = team.lane() < team.warps() ? escapes[level][team.lane()] : 0;
    totals.all[level] = team.WarpSum(own);
    totals.before[level] = team.WarpSum(team.lane() < team.warp() ? own : 0);
  }
  return totals;
}

/// ORs a byte into memory of the team that other threads OR other bits into. `bytes` is 4-byte
/// aligned.
template <typename Team>
CINCH_TEAM void OrByte(const Team& team, uint8_t* bytes, uint32_t at, uint32_t value) {
  team.Or(reinterpret_cast<uint32_t*>(bytes + (at & ~3U)), value << (8 * (at & 3)));
}

/// Codes one level of a warp's list, whose entries are the block's from `position` on, into the
/// payload from offset `to` on, and moves what escapes to the list's front. Returns the escapes.
template <typename Team>
CINCH_TEAM uint32_t WarpCodeList(const Team& team, uint32_t level, uint32_t listed,
                                 uint32_t position, uint32_t to, uint8_t* list,
                                 EncodeWorkspace* workspace) {
  uint32_t kept = 0;
  // A lane takes the entries of one byte of codes; the first and the last may be others' in part.
  const uint32_t bytes_end = (position + listed + kListStep - 1) / kListStep;
  for (uint32_t step = position / kListStep; step < bytes_end && listed != 0;
       step += Team::kLanes) {
    const uint32_t byte = step + team.lane();
    uint32_t symbols = 0;
    uint32_t codes = 0;
    uint32_t escaped = 0;
    for (uint32_t k = 0; k < kListStep; ++k) {
      const uint32_t entry = kListStep * byte + k - position;
      if (entry >= listed) continue;
      const uint32_t symbol = list[entry];
      const uint32_t place = workspace->place_of_symbol[symbol];
      const bool here = (place >> 4) == level;
      symbols |= symbol << (8 * k);
      codes |= (here ? place & 3 : format::kCodedEscape) << (2 * k);
      escaped |= (here ? 0U : 1U) << k;
    }
    if (codes != 0) OrByte(team, PayloadOf(workspace), to + byte, codes);
    uint32_t total = 0;
    uint8_t* keep = list + kept + team.WarpExclusive(CountOnes(escaped), &total);
    team.WarpSync();
    for (uint32_t k = 0; k < kListStep; ++k) {
      if (((escaped >> k) & 1) != 0) *keep++ = static_cast<uint8_t>(ByteOf(symbols, k));
    }
    kept += total;
    team.WarpSync();
  }
  return kept;
}

/// Codes a warp's list into the block's coded part, which starts at offset `to` and is zero; the
/// list is used up.
template <typename Team>
CINCH_TEAM void WarpCodeLists(const Team& team, const EscapeTotals& totals, uint32_t to,
                              uint8_t* list, EncodeWorkspace* workspace) {
  uint32_t listed = workspace->escapes[0][team.warp()];
  for (uint32_t level = 1; level < format::kLevels; ++level) {
    listed = WarpCodeList(team, level, listed, totals.before[level - 1], to, list, workspace);
    to += format::CodeListBytes(totals.all[level - 1]);
  }
  const uint32_t raws = to + totals.before[format::kLevels - 1];
  for (uint32_t i = team.lane(); i < listed; i += Team::kLanes) {
    OrByte(team, PayloadOf(workspace), raws + i, list[i]);
  }
}

}  // namespace cinch::codec::gpu
