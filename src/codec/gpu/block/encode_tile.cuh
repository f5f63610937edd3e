// SPDX-License-Identifier: Apache-2.0
/// @file encode_tile.cuh
/// One tile by one warp (docs/format.md, section 5).
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

/// What all tiles of a block have in common.
struct CascadeJob {
  format::CascadeLayout layout;
  Transform transform;
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
CINCH_PORTABLE void WriteResidues(const FieldPlace& place, const Octet<kElementBytes>& octet,
                                  Plane top, uint32_t zero_planes) {
  uint8_t* plane = place.bytes;
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

/// Writes the residues and level-0 codes of tile `tile` and lists the symbols that escape where the
/// tile's original bytes were. Returns their number.
template <uint32_t kElementBytes, uint32_t kSymbolBits, typename Team>
CINCH_TEAM uint32_t WarpCodeLevel0(const Team& team, const CascadeJob& job, uint32_t tile,
                                   Workspace* workspace) {
  const format::CascadeLayout& layout = job.layout;
  const uint32_t tile_elements = layout.TileElements(tile);
  const uint32_t tile_first = tile * format::kTileElements;
  uint8_t* list = workspace->original + tile_first * kElementBytes;
  FieldPlace residues{workspace->payload + layout.ResidueOffset(tile), tile_elements, 0, 0};
  FieldPlace codes{workspace->payload + layout.CodeOffset(tile), tile_elements, 0, 0};
  uint32_t listed = 0;
  for (uint32_t step = 0; step < tile_elements; step += kOctet * Team::kLanes) {
    const uint32_t first = step + kOctet * team.lane();
    const uint32_t count = first < tile_elements ? Minimum(tile_elements - first, kOctet) : 0;
    uint32_t escaped = 0;
    Plane symbols{0, 0};
    if (count != 0) {
      const auto octet = LoadOctet<kElementBytes>(workspace->original, tile_first + first,
                                                  layout.elements, job.transform);
      const Plane top = TakePlane(octet, kElementBytes - 1);
      symbols = SymbolsOf<kElementBytes, kSymbolBits>(top);
      residues.first = codes.first = first;
      residues.count = codes.count = count;
      WriteResidues<kElementBytes, kSymbolBits>(residues, octet, top, job.zero_planes);
      if (layout.level0_bits != 0) {
        WriteNibbles(codes, codes.bytes, layout.level0_bits,
                     CodesOf(symbols, count, job, &escaped));
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

/// The size of the coded part of a list of `listed` escapes.
template <typename Team>
CINCH_TEAM uint32_t WarpMeasureList(const Team& team, const uint8_t* list, uint32_t listed,
                                    const Workspace& workspace) {
  uint32_t escapes[3] = {0, 0, 0};  // Of levels 1, 2, 3.
  for (uint32_t first = kListStep * team.lane(); first < listed;
       first += kListStep * Team::kLanes) {
    const auto symbols = LoadAligned<uint32_t>(list + first);
    for (uint32_t k = 0; k < kListStep; ++k) {
      const uint32_t level = workspace.place_of_symbol[ByteOf(symbols, k)] >> 4;
      if (first + k >= listed) break;
      escapes[0] += level > 1 ? 1 : 0;
      escapes[1] += level > 2 ? 1 : 0;
      escapes[2] += level > 3 ? 1 : 0;
    }
  }
  uint32_t bytes = (listed + 3) / 4;
  bytes += (team.WarpSum(escapes[0]) + 3) / 4;
  bytes += (team.WarpSum(escapes[1]) + 3) / 4;
  return bytes + team.WarpSum(escapes[2]);
}

/// Writes the codes of one level of a list to `to` and moves what escapes to the list's front.
/// Returns the number of escapes.
template <typename Team>
CINCH_TEAM uint32_t WarpCodeList(const Team& team, uint32_t level, uint32_t listed,
                                 const Workspace& workspace, uint8_t* list, uint8_t* to) {
  uint32_t kept = 0;
  for (uint32_t step = 0; step < listed; step += kListStep * Team::kLanes) {
    const uint32_t first = step + kListStep * team.lane();
    uint32_t symbols = 0;
    uint32_t codes = 0;
    uint32_t escaped = 0;
    if (first < listed) {
      symbols = LoadAligned<uint32_t>(list + first);
      for (uint32_t k = 0; k < kListStep; ++k) {
        if (first + k >= listed) break;
        const uint32_t place = workspace.place_of_symbol[ByteOf(symbols, k)];
        const bool here = (place >> 4) == level;
        codes |= (here ? place & 3 : format::kCodedEscape) << (2 * k);
        escaped |= (here ? 0U : 1U) << k;
      }
      to[first / kListStep] = static_cast<uint8_t>(codes);
    }
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

/// Writes the coded part of a list of `listed` level-0 escapes to `to`; the list is used up.
template <typename Team>
CINCH_TEAM void WarpCodeLists(const Team& team, uint32_t listed, const Workspace& workspace,
                              uint8_t* list, uint8_t* to) {
  for (uint32_t level = 1; level < format::kLevels; ++level) {
    const uint32_t kept = WarpCodeList(team, level, listed, workspace, list, to);
    to += (listed + 3) / 4;
    listed = kept;
  }
  for (uint32_t i = team.lane(); i < listed; i += Team::kLanes) to[i] = list[i];
}

}  // namespace cinch::codec::gpu
