// SPDX-License-Identifier: Apache-2.0
/// @file decode_tile.cuh
/// One tile by one warp, from untrusted bytes (docs/format.md, section 5).
///
/// Lists of symbols are expanded in place, from level 3 up to level 0, always with their end where
/// the tile's last byte will be. A list never runs into what it is expanded from: as many entries
/// are left to read as escapes are left to place, and no more than entries are left to write.
#pragma once

#include <cstdint>

#include "codec/gpu/block/encode_tile.cuh"
#include "codec/gpu/block/field.cuh"
#include "codec/gpu/block/octet.cuh"
#include "codec/gpu/block/workspace.cuh"
#include "format/layout.h"

namespace cinch::codec::gpu {

/// One level of a tile's coded part.
struct CodedLevel {
  const uint8_t* codes;
  uint32_t listed;   ///< Entries of the level above that escaped: codes here.
  uint32_t escapes;  ///< Of these, how many escape again.
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

/// Counts the level-0 escapes of a tile; `*valid` becomes false for reserved bits.
template <typename Team>
CINCH_TEAM uint32_t WarpCountLevel0(const Team& team, const format::CascadeLayout& layout,
                                    uint32_t tile, const uint8_t* payload, bool* valid) {
  if (layout.level0_bits == 0) return 0;
  const uint32_t tile_elements = layout.TileElements(tile);
  uint32_t escapes = 0;
  for (uint32_t first = kOctet * team.lane(); first < tile_elements;
       first += kOctet * Team::kLanes) {
    const uint32_t count = Minimum(tile_elements - first, kOctet);
    const FieldPlace place{nullptr, tile_elements, first, count};
    const uint32_t codes =
        ReadNibbles(place, payload + layout.CodeOffset(tile), layout.level0_bits);
    if (HasReservedNibbles(codes, count)) *valid = false;
    escapes += CountOnes(EscapesOfNibbles(codes, layout.level0_bits, count));
  }
  return team.WarpSum(escapes);
}

/// Finds the levels of a coded part of `coded_bytes` bytes and checks that it is exactly them.
/// False in all lanes when it is not; reserved bits that this lane saw make `*valid` false.
template <typename Team>
CINCH_TEAM bool WarpFindLevels(const Team& team, const uint8_t* coded, uint32_t coded_bytes,
                               uint32_t listed, CodedLevel (&levels)[format::kLevels],
                               bool* valid) {
  uint32_t at = 0;
  for (uint32_t level = 1; level < format::kLevels; ++level) {
    const uint32_t code_bytes = (listed + 3) / 4;
    if (coded_bytes - at < code_bytes) return false;
    uint32_t escapes = 0;
    for (uint32_t i = team.lane(); i < code_bytes; i += Team::kLanes) {
      const uint32_t codes = coded[at + i];
      const uint32_t count = Minimum(listed - kListStep * i, kListStep);
      if ((codes >> (2 * count)) != 0) *valid = false;
      escapes += CountOnes(EscapesOfByte(codes) & ((1U << count) - 1));
    }
    escapes = team.WarpSum(escapes);
    levels[level] = {coded + at, listed, escapes};
    at += code_bytes;
    listed = escapes;
  }
  return coded_bytes - at == listed;
}

/// Expands the list that ends at `list_end` from the escapes of a level to all its entries.
template <typename Team>
CINCH_TEAM void WarpExpandLevel(const Team& team, const CodedLevel& coded, const uint32_t* symbols,
                                uint8_t* list_end) {
  const uint8_t* from = list_end - coded.escapes;
  uint8_t* to = list_end - coded.listed;
  for (uint32_t step = 0; step < coded.listed; step += kListStep * Team::kLanes) {
    const uint32_t first = step + kListStep * team.lane();
    const uint32_t count = first < coded.listed ? Minimum(coded.listed - first, kListStep) : 0;
    const uint32_t codes = count != 0 ? coded.codes[first / kListStep] : 0;
    const uint32_t escaped = EscapesOfByte(codes) & ((1U << count) - 1);
    uint32_t total = 0;
    const uint8_t* next = from + team.WarpExclusive(CountOnes(escaped), &total);
    uint32_t values = 0;
    for (uint32_t k = 0; k < count; ++k) {
      const bool is_escape = ((escaped >> k) & 1) != 0;
      const uint32_t symbol = is_escape ? *next++ : symbols[(codes >> (2 * k)) & 3];
      values |= symbol << (8 * k);
    }
    team.WarpSync();
    StoreBytes<uint32_t>(to + first, values, count);
    from += total;
    team.WarpSync();
  }
}

/// Reads an octet's residues. True when reserved bits are set. `*top` gets the bits below the
/// symbol.
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

/// Puts symbols and residues together: the last step, over the whole tile.
template <uint32_t kElementBytes, uint32_t kSymbolBits, typename Team>
CINCH_TEAM void WarpJoinTile(const Team& team, const format::CascadeLayout& layout,
                             Transform transform, uint32_t zero_planes, uint32_t tile,
                             uint32_t escapes, Workspace* workspace, bool* valid) {
  const uint32_t tile_elements = layout.TileElements(tile);
  const uint32_t tile_first = tile * format::kTileElements;
  uint8_t* tile_end = workspace->original + (tile_first + tile_elements) * kElementBytes;
  const uint8_t* from = tile_end - escapes;
  for (uint32_t step = 0; step < tile_elements; step += kOctet * Team::kLanes) {
    const uint32_t first = step + kOctet * team.lane();
    const uint32_t count = first < tile_elements ? Minimum(tile_elements - first, kOctet) : 0;
    const FieldPlace place{nullptr, tile_elements, first, count};
    uint32_t codes = 0;
    uint32_t escaped = 0;
    if (layout.level0_bits != 0 && count != 0) {
      codes = ReadNibbles(place, workspace->payload + layout.CodeOffset(tile), layout.level0_bits);
      escaped = EscapesOfNibbles(codes, layout.level0_bits, count);
    }
    uint32_t total = 0;
    const uint8_t* next = from + team.WarpExclusive(CountOnes(escaped), &total);
    Octet<kElementBytes> octet{};
    if (count != 0) {
      Plane planes[kElementBytes];
      if (ReadResidues<kElementBytes, kSymbolBits>(
              place, workspace->payload + layout.ResidueOffset(tile), zero_planes, planes)) {
        *valid = false;
      }
      Plane symbols{0, 0};
      for (uint32_t e = 0; e < kOctet; ++e) {
        const bool is_escape = ((escaped >> e) & 1) != 0;
        const uint32_t symbol =
            is_escape ? *next++ : workspace->symbol_of_code[0][(codes >> (4 * e)) & 7];
        (e < 4 ? symbols.low : symbols.high) |= symbol << (8 * (e % 4));
      }
      planes[kElementBytes - 1].low |= symbols.low << (8 - kSymbolBits);
      planes[kElementBytes - 1].high |= symbols.high << (8 - kSymbolBits);
      octet = JoinPlanes<kElementBytes>(planes);
    }
    team.WarpSync();
    if (count != 0) {
      StoreOctet(octet, tile_first + first, layout.elements, transform, workspace->original);
    }
    from += total;
    team.WarpSync();
  }
}

/// Decodes a tile whose coded part is [coded_begin, coded_end) of the block's. False, in some lane
/// at least, when it is not valid; the tile's bytes are then unspecified.
template <uint32_t kElementBytes, uint32_t kSymbolBits, typename Team>
CINCH_TEAM bool WarpDecodeTile(const Team& team, const format::CascadeLayout& layout,
                               Transform transform, uint32_t zero_planes, uint32_t tile,
                               uint32_t coded_begin, uint32_t coded_end, Workspace* workspace) {
  bool valid = true;
  const uint32_t escapes = WarpCountLevel0(team, layout, tile, workspace->payload, &valid);
  const uint8_t* coded = workspace->payload + layout.coded_offset + coded_begin;
  const uint32_t coded_bytes = coded_end - coded_begin;
  CodedLevel levels[format::kLevels];
  if (!WarpFindLevels(team, coded, coded_bytes, escapes, levels, &valid)) return false;
  const uint32_t tile_last = tile * format::kTileElements + layout.TileElements(tile);
  uint8_t* list_end = workspace->original + tile_last * kElementBytes;
  const uint32_t raws = levels[format::kLevels - 1].escapes;
  for (uint32_t i = team.lane(); i < raws; i += Team::kLanes) {
    const uint8_t symbol = coded[coded_bytes - raws + i];
    if ((symbol >> kSymbolBits) != 0) valid = false;
    list_end[static_cast<int>(i) - static_cast<int>(raws)] = symbol;
  }
  team.WarpSync();
  for (uint32_t level = format::kLevels - 1; level > 0; --level) {
    WarpExpandLevel(team, levels[level], workspace->symbol_of_code[level], list_end);
  }
  WarpJoinTile<kElementBytes, kSymbolBits>(team, layout, transform, zero_planes, tile, escapes,
                                           workspace, &valid);
  return valid;
}

}  // namespace cinch::codec::gpu
