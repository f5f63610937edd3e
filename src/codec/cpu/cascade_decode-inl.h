// SPDX-License-Identifier: Apache-2.0
// The cascade, decoding (docs/format.md, sections 5.1 and 5.2): count the escapes from the top
// level down, which tells where each level's codes are, then fill in symbols from the bottom up.
//
// Each step is done for all tiles of a block before the next one. Within a tile every step waits
// for the one before; the tiles' chains are independent, so that the processor overlaps them.
#if defined(CINCH_CODEC_CPU_CASCADE_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODEC_CPU_CASCADE_DECODE_INL_H_
#undef CINCH_CODEC_CPU_CASCADE_DECODE_INL_H_
#else
#define CINCH_CODEC_CPU_CASCADE_DECODE_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "codec/cpu/lists-inl.h"
#include "codec/cpu/planes-inl.h"
#include "codec/cpu/tile.h"
#include "codec/cpu/vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codec::cpu {
namespace HWY_NAMESPACE {

/// Codes as they are in the payload. `high` has bit 2 of 3-bit codes, and the codes themselves when
/// they have one bit; `low` has crumbs.
struct PackedCodes {
  const uint8_t* low;
  const uint8_t* high;
};

/// The vector of codes from code j on.
template <uint32_t kBits>
HWY_INLINE VecBytes LoadCodes(const PackedCodes& codes, uint32_t j) {
  if constexpr (kBits == 2) {
    return LoadCrumbs(codes.low + j / 4);
  } else {
    const auto high = hn::LoadMaskBits(kD8, codes.high + j / 8);
    const VecBytes bit = hn::IfThenElseZero(high, hn::Set(kD8, kBits == 1 ? 1 : 4));
    return kBits == 1 ? bit : hn::Or(bit, LoadCrumbs(codes.low + j / 4));
  }
}

template <uint32_t kBits>
inline constexpr uint8_t kEscapeCode = static_cast<uint8_t>((1U << kBits) - 1);

/// How many of a full tile's codes are escapes.
template <uint32_t kBits>
inline uint32_t CountEscapes(const PackedCodes& codes) {
  uint32_t escapes = 0;
  if constexpr (kBits == 1) {
    escapes = CountBits(codes.high, kTile / 8);
  } else if constexpr (kBits == 2) {
    escapes = CountFullCrumbs(codes.low, kTile / 4);
  } else {
    const VecBytes escape = hn::Set(kD8, kEscapeCode<kBits>);
    for (uint32_t j = 0; j < kTile; j += kVectorBytes) {
      escapes +=
          static_cast<uint32_t>(hn::CountTrue(kD8, hn::Eq(LoadCodes<kBits>(codes, j), escape)));
    }
  }
  return escapes;
}

/// symbols[j] = the code's entry of `table`, or for escapes the next entry of `list`, which has
/// kVectorSlack readable bytes past its end. Writes whole vectors, and one even for no codes: a
/// loop that always runs once is one that the processor predicts.
template <uint32_t kBits>
inline void ResolveLevel(const PackedCodes& codes, uint32_t count, const uint8_t* table,
                         const uint8_t* list, uint8_t* symbols) {
  const VecBytes entries = hn::LoadDup128(kD8, table);
  const VecBytes escape = hn::Set(kD8, kEscapeCode<kBits>);
#if HWY_TARGET == HWY_AVX3_DL
  uint32_t j = 0;
  do {
    const VecBytes code = LoadCodes<kBits>(codes, j);
    const __mmask64 escapes = hn::Eq(code, escape).raw;
    const VecBytes named = hn::TableLookupBytes(entries, code);
    const VecBytes next = hn::LoadU(kD8, list);
    hn::StoreU(VecBytes{_mm512_mask_expand_epi8(named.raw, escapes, next.raw)}, kD8, symbols + j);
    list += hwy::PopCount(static_cast<uint64_t>(escapes));
    j += kVectorBytes;
  } while (j < count);
#else
  alignas(8) uint8_t escapes[kTile / 8];
  TileBytes expanded;
  for (uint32_t j = 0; j < count; j += kVectorBytes) {
    hn::StoreMaskBits(kD8, hn::Eq(LoadCodes<kBits>(codes, j), escape), escapes + j / 8);
  }
  ExpandList(escapes, count, list, expanded.at);
  for (uint32_t j = 0; j < count; j += kVectorBytes) {
    const VecBytes code = LoadCodes<kBits>(codes, j);
    const VecBytes named = hn::TableLookupBytes(entries, code);
    hn::StoreU(hn::IfThenElse(hn::Eq(code, escape), hn::Load(kD8, expanded.at + j), named), kD8,
               symbols + j);
  }
#endif
}

/// Symbols by code of all levels of a block, padded to a shuffle's size.
struct CascadeTables {
  alignas(16) uint8_t symbols[format::kLevels][16] = {};
  uint32_t alphabet;

  CascadeTables(const format::Codebook& codebook, uint32_t level0_bits, uint32_t symbol_bits)
      : alphabet(1U << symbol_bits) {
    for (uint32_t level = 0; level < format::kLevels; ++level) {
      for (uint32_t code = 0; code < format::WindowWidth(level0_bits, level); ++code) {
        symbols[level][code] =
            static_cast<uint8_t>(format::SymbolOf(codebook, level0_bits, level, code));
      }
    }
  }
};

/// False when one of `count` raw symbols is outside the alphabet.
inline bool RawSymbolsAreValid(const uint8_t* symbols, uint32_t count, uint32_t alphabet) {
  if (alphabet == 256) return true;
  const VecBytes largest = hn::Set(kD8, static_cast<uint8_t>(alphabet - 1));
  VecBytes excess = hn::Zero(kD8);
  for (uint32_t j = 0; j < count; j += kVectorBytes) {
    const VecBytes over = hn::SaturatedSub(hn::LoadU(kD8, symbols + j), largest);
    excess = hn::Or(excess, hn::IfThenElseZero(FirstLanes(count - j), over));
  }
  return hn::AllTrue(kD8, hn::Eq(excess, hn::Zero(kD8)));
}

/// Where the pieces of a tile's coded part are.
struct CodedTile {
  uint32_t count[format::kLevels];        ///< Entries of level k's list of codes; [0] unused.
  const uint8_t* codes[format::kLevels];  ///< Likewise.
  const uint8_t* raw;
};

/// Finds the pieces of a tile's coded part. `coded` has kVectorSlack readable bytes past its
/// `coded_bytes`, which may be anything. False when they are not exactly what the codes need.
[[nodiscard]] inline bool LocateCoded(uint32_t escapes, const uint8_t* coded, uint32_t coded_bytes,
                                      uint32_t alphabet, CodedTile* tile) {
  uint32_t at = 0;
  for (uint32_t level = 1; level < format::kLevels; ++level) {
    const uint32_t code_bytes = (escapes + 3) / 4;
    if (coded_bytes - at < code_bytes) return false;
    tile->count[level] = escapes;
    tile->codes[level] = coded + at;
    at += code_bytes;
    // In the last byte, what the codes leave of it; nothing is left of 8 bits for 4 codes.
    const uint32_t last = escapes == 0 ? 0 : coded[at - 1];
    if ((last >> (2 * ((escapes + 3) % 4) + 2)) != 0) return false;
    escapes = CountFullCrumbs(tile->codes[level], code_bytes);
  }
  tile->raw = coded + at;
  return coded_bytes - at == escapes && RawSymbolsAreValid(tile->raw, escapes, alphabet);
}

/// Levels 3 to 1 of a tile: the symbols of what escaped level 0, to `list`, in whole vectors.
inline void ResolveCoded(const CascadeTables& tables, const CodedTile& tile, uint8_t* list) {
  TileBytes level3;
  TileBytes level2;
  ResolveLevel<2>({tile.codes[3], nullptr}, tile.count[3], tables.symbols[3], tile.raw, level3.at);
  ResolveLevel<2>({tile.codes[2], nullptr}, tile.count[2], tables.symbols[2], level3.at, level2.at);
  ResolveLevel<2>({tile.codes[1], nullptr}, tile.count[1], tables.symbols[1], level2.at, list);
}

}  // namespace HWY_NAMESPACE
}  // namespace cinch::codec::cpu
HWY_AFTER_NAMESPACE();

#endif
