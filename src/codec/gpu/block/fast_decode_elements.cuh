// SPDX-License-Identifier: Apache-2.0
/// @file fast_decode_elements.cuh
/// A unit, 16 bytes of the original, on the fast path: its level-0 codes, the symbols they stand
/// for, and its elements. One lane each. Device only.
#pragma once

#include <cstdint>

#include "codec/gpu/block/fast_decode_lists.cuh"
#include "codec/gpu/block/fast_decode_plan.cuh"
#include "codec/gpu/block/group_places.cuh"
#include "codec/gpu/warp/lanes.cuh"

namespace cinch::codec::gpu {

constexpr uint32_t ElementsOfUnit(FastFormat format) {
  switch (format) {
    case FastFormat::kHalfOf5:
    case FastFormat::kHalfOf8:
      return 8;
    case FastFormat::kWordOf8:
      return 4;
    case FastFormat::kLongOf8:
      return 2;
    default:
      return 16;
  }
}

/// kElements codes of 2 bits.
template <uint32_t kElements>
__device__ __forceinline__ uint32_t LoadCrumbs(uint32_t plane, uint32_t unit) {
  if constexpr (kElements == 2) {
    return (ReadShared<uint8_t>(plane + unit / 2) >> (4 * (unit % 2))) & 15;
  } else if constexpr (kElements == 4) {
    return ReadShared<uint8_t>(plane + unit);
  } else if constexpr (kElements == 8) {
    return ReadShared<uint16_t>(plane + 2 * unit);
  } else {
    return ReadShared<uint32_t>(plane + 4 * unit);
  }
}
/// kElements bits.
template <uint32_t kElements>
__device__ __forceinline__ uint32_t LoadBits(uint32_t plane, uint32_t unit) {
  if constexpr (kElements == 2) {
    return (ReadShared<uint8_t>(plane + unit / 4) >> (2 * (unit % 4))) & 3;
  } else if constexpr (kElements == 4) {
    return (ReadShared<uint8_t>(plane + unit / 2) >> (4 * (unit % 2))) & 15;
  } else if constexpr (kElements == 8) {
    return ReadShared<uint8_t>(plane + unit);
  } else {
    return ReadShared<uint16_t>(plane + 2 * unit);
  }
}
/// Bits as codes: 0, and 3 for a bit that is set.
__device__ __forceinline__ uint32_t CodesOfBits(uint32_t bits) {
  bits = (bits | (bits << 8)) & 0x00FF00FF;
  bits = (bits | (bits << 4)) & 0x0F0F0F0F;
  bits = (bits | (bits << 2)) & 0x33333333;
  bits = (bits | (bits << 1)) & 0x55555555;
  return bits * 3;
}

/// A unit's 3-bit level-0 codes as 2-bit codes of which only 3, escape, means something.
template <uint32_t kElements>
__device__ __forceinline__ uint32_t LoadWideCodes(const FastFields& fields, uint32_t payload,
                                                  uint32_t unit) {
  return LoadCrumbs<kElements>(payload + fields.codes, unit) &
         CodesOfBits(LoadBits<kElements>(payload + fields.code_bits, unit));
}

/// All lanes: finds the places of the escapes of the lane's units, and of those of its chunk.
template <uint32_t kElements>
__device__ __forceinline__ GroupOffsets WarpPlaceEscapes(const uint32_t (&codes)[4],
                                                         FastChunk* chunk) {
  uint32_t count[4];
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) count[k] = CountEscapes(codes[k]);
  uint32_t chunk_end = chunk->place;
  if constexpr (kElements <= 8) {
    const uint32_t own = count[0] | (count[1] << 8) | (count[2] << 16) | (count[3] << 24);
    uint32_t end = own;
    ScanTwoInclusive(&end, &chunk_end);
    PlaceChunk(chunk_end, chunk);
    return PlaceGroups(own, end);
  } else {
    const uint32_t own[2] = {count[0] | (count[1] << 16), count[2] | (count[3] << 16)};
    uint32_t end[2] = {own[0], own[1]};
    ScanTwoInclusive(&end[0], &end[1]);
    PlaceChunk(ScanInclusive(chunk_end), chunk);
    return PlaceGroupsOf16(own, end);
  }
}

/// Nibbles of four 3-bit codes, from their two planes.
__device__ __forceinline__ uint32_t NibblesOfQuad(uint32_t crumbs, uint32_t bits) {
  crumbs = (crumbs | (crumbs << 4)) & 0x0F0F;
  crumbs = (crumbs | (crumbs << 2)) & 0x3333;
  bits = (bits | (bits << 6)) & 0x0303;
  bits = (bits | (bits << 3)) & 0x1111;
  return crumbs | (bits << 2);
}

/// What a unit's symbols are looked up with: shared addresses, and level 0's books.
struct FastTables {
  uint32_t selectors;  ///< MergeSelector or, for 3-bit codes, KeepSelector.
  uint32_t book;
  uint32_t book_high;  ///< For 3-bit codes.
};

/// Words of a unit's symbols, four each.
constexpr uint32_t QuadsOf(uint32_t elements) { return (elements + 3) / 4; }

/// The symbols of a unit; its escapes' are at `list`.
template <uint32_t kElements, bool kWide>
__device__ __forceinline__ void FindSymbols(const FastFields& fields, const FastTables& tables,
                                            uint32_t payload, uint32_t unit, uint32_t codes,
                                            uint32_t list,
                                            uint32_t (&symbols)[QuadsOf(kElements)]) {
  constexpr uint32_t kQuads = QuadsOf(kElements);
  uint32_t escapes[kQuads];
  const uint32_t aligned = list & ~3U;
  uint32_t word = ReadShared<uint32_t>(aligned);
#pragma unroll
  for (uint32_t q = 0; q < kQuads; ++q) {
    const uint32_t next = ReadShared<uint32_t>(aligned + 4 * q + 4);
    escapes[q] = ShiftRightWrapped(word, next, 8 * list);
    word = next;
  }
  uint32_t crumbs = 0;
  uint32_t bits = 0;
  if constexpr (kWide) {
    crumbs = LoadCrumbs<kElements>(payload + fields.codes, unit);
    bits = LoadBits<kElements>(payload + fields.code_bits, unit);
  }
#pragma unroll
  for (uint32_t q = 0; q < kQuads; ++q) {
    const uint32_t selector = SelectorOf(tables.selectors, codes, q);
    uint32_t named = tables.book;
    if constexpr (kWide) {
      named = Permute(tables.book, tables.book_high,
                      NibblesOfQuad((crumbs >> (8 * q)) & 0xFF, (bits >> (4 * q)) & 15));
    }
    symbols[q] = Permute(named, escapes[0], selector);
    const uint32_t used = selector >> 16;
#pragma unroll
    for (uint32_t k = 0; k + 1 + q < kQuads; ++k) {
      escapes[k] = ShiftRightClamped(escapes[k], escapes[k + 1], used);
    }
  }
}

/// A byte's four crumbs, and a nibble's four bits shifted up by 2, as bytes.
__device__ __forceinline__ uint32_t BytesOfCrumbs(uint32_t crumbs) {
  return (((crumbs * 0x1001) & 0x000F000F) * 0x41) & 0x03030303;
}
__device__ __forceinline__ uint32_t BytesOfBits(uint32_t bits) {
  return (bits * (0x00204081U << 2)) & 0x04040404;
}
/// The three low bits of the upper bytes of quad `q` of a unit, from the unit's crumbs and bits.
__device__ __forceinline__ uint32_t ResidueOfThree(uint32_t crumbs, uint32_t bits, uint32_t q) {
  return BytesOfCrumbs((crumbs >> (8 * q)) & 0xFF) | BytesOfBits((bits >> (4 * q)) & 15);
}

/// A unit's words, from its symbols (at the upper ends of bytes) and its residues in the payload.
template <FastFormat kFormat>
struct JoinUnit;

template <>
struct JoinUnit<FastFormat::kHalfOf8> {
  __device__ __forceinline__ static uint4 Words(const FastFields& fields, uint32_t payload,
                                                uint32_t unit, const uint32_t (&symbols)[2]) {
    uint2 low = make_uint2(0, 0);
    if (fields.planes[0] != 0) low = ReadShared<uint2>(payload + fields.planes[0] + 8 * unit);
    return make_uint4(Permute(low.x, symbols[0], 0x5140), Permute(low.x, symbols[0], 0x7362),
                      Permute(low.y, symbols[1], 0x5140), Permute(low.y, symbols[1], 0x7362));
  }
};

template <>
struct JoinUnit<FastFormat::kHalfOf5> {
  __device__ __forceinline__ static uint4 Words(const FastFields& fields, uint32_t payload,
                                                uint32_t unit, const uint32_t (&symbols)[2]) {
    const uint32_t crumbs = LoadCrumbs<8>(payload + fields.planes[1], unit);
    const uint32_t bits = LoadBits<8>(payload + fields.planes[2], unit);
    const uint32_t upper[2] = {symbols[0] | ResidueOfThree(crumbs, bits, 0),
                               symbols[1] | ResidueOfThree(crumbs, bits, 1)};
    return JoinUnit<FastFormat::kHalfOf8>::Words(fields, payload, unit, upper);
  }
};

/// Puts the sign, the top bit of the residue's highest plane, back above the symbol.
__device__ __forceinline__ void RestoreSigns(uint32_t* plane, uint32_t* top) {
  const uint32_t sign = *plane;
  *plane = ((*top << 7) & 0x80808080) | (sign & 0x7F7F7F7F);
  *top = ((*top >> 1) & 0x7F7F7F7F) | (sign & 0x80808080);
}

template <>
struct JoinUnit<FastFormat::kWordOf8> {
  __device__ __forceinline__ static uint4 Words(const FastFields& fields, uint32_t payload,
                                                uint32_t unit, const uint32_t (&symbols)[1]) {
    uint32_t plane[3] = {0, 0, 0};
#pragma unroll
    for (uint32_t k = 0; k < 3; ++k) {
      if (fields.planes[k] != 0)
        plane[k] = ReadShared<uint32_t>(payload + fields.planes[k] + 4 * unit);
    }
    uint32_t top = symbols[0];
    if (fields.moves_sign != 0) RestoreSigns(&plane[2], &top);
    const uint32_t low01 = Permute(plane[0], plane[1], 0x5140);
    const uint32_t low23 = Permute(plane[0], plane[1], 0x7362);
    const uint32_t high01 = Permute(plane[2], top, 0x5140);
    const uint32_t high23 = Permute(plane[2], top, 0x7362);
    return make_uint4(Permute(low01, high01, 0x5410), Permute(low01, high01, 0x7632),
                      Permute(low23, high23, 0x5410), Permute(low23, high23, 0x7632));
  }
};

template <>
struct JoinUnit<FastFormat::kLongOf8> {
  __device__ __forceinline__ static uint4 Words(const FastFields& fields, uint32_t payload,
                                                uint32_t unit, const uint32_t (&symbols)[1]) {
    uint32_t plane[8] = {};
#pragma unroll
    for (uint32_t k = 0; k < 7; ++k) {
      if (fields.planes[k] != 0) {
        plane[k] = ReadShared<uint16_t>(payload + fields.planes[k] + 2 * unit);
      }
    }
    plane[7] = symbols[0];
    if (fields.moves_sign != 0) RestoreSigns(&plane[6], &plane[7]);
    uint32_t pair[4];
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) pair[k] = Permute(plane[2 * k], plane[2 * k + 1], 0x5140);
    return make_uint4(Permute(pair[0], pair[1], 0x5410), Permute(pair[2], pair[3], 0x5410),
                      Permute(pair[0], pair[1], 0x7632), Permute(pair[2], pair[3], 0x7632));
  }
};

template <>
struct JoinUnit<FastFormat::kByteOf8> {
  __device__ __forceinline__ static uint4 Words(const FastFields&, uint32_t, uint32_t,
                                                const uint32_t (&symbols)[4]) {
    return make_uint4(symbols[0], symbols[1], symbols[2], symbols[3]);
  }
};

template <>
struct JoinUnit<FastFormat::kByteOf4> {
  __device__ __forceinline__ static uint4 Words(const FastFields& fields, uint32_t payload,
                                                uint32_t unit, const uint32_t (&symbols)[4]) {
    const uint2 nibbles = ReadShared<uint2>(payload + fields.planes[0] + 8 * unit);
    return make_uint4(Join(symbols[0], nibbles.x, 0x1100), Join(symbols[1], nibbles.x, 0x3322),
                      Join(symbols[2], nibbles.y, 0x1100), Join(symbols[3], nibbles.y, 0x3322));
  }

 private:
  __device__ __forceinline__ static uint32_t Join(uint32_t symbols, uint32_t nibbles,
                                                  uint32_t pick) {
    const uint32_t twice = Permute(nibbles, 0, pick);
    return symbols | (((twice & 0x00FF00FF) | ((twice >> 4) & 0xFF00FF00)) & 0x0F0F0F0F);
  }
};

template <>
struct JoinUnit<FastFormat::kByteOf5> {
  __device__ __forceinline__ static uint4 Words(const FastFields& fields, uint32_t payload,
                                                uint32_t unit, const uint32_t (&symbols)[4]) {
    const uint32_t crumbs = LoadCrumbs<16>(payload + fields.planes[0], unit);
    const uint32_t bits = LoadBits<16>(payload + fields.planes[1], unit);
    return make_uint4(
        symbols[0] | ResidueOfThree(crumbs, bits, 0), symbols[1] | ResidueOfThree(crumbs, bits, 1),
        symbols[2] | ResidueOfThree(crumbs, bits, 2), symbols[3] | ResidueOfThree(crumbs, bits, 3));
  }
};

}  // namespace cinch::codec::gpu
