// SPDX-License-Identifier: Apache-2.0
// The cascade of a tile, decoding (docs/format.md, sections 5.1 and 5.2): count the escapes from the
// top level down, which tells where each level's codes are, then fill in symbols from the bottom up.
#if defined(CINCH_CODEC_CPU_CASCADE_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODEC_CPU_CASCADE_DECODE_INL_H_
#undef CINCH_CODEC_CPU_CASCADE_DECODE_INL_H_
#else
#define CINCH_CODEC_CPU_CASCADE_DECODE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "codec/cpu/lists-inl.h"
#include "codec/cpu/tile.h"
#include "codec/cpu/vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codec::cpu {
namespace HWY_NAMESPACE {

/// One level's codes and which of them are escapes, as bits.
struct LevelCodes {
  TileBytes codes;
  uint8_t escapes[kTile / 8 + 8];
  uint32_t count;
};

/// Fills in `escapes` and returns their number.
inline uint32_t FindEscapes(uint32_t escape_code, LevelCodes* level) {
  const VecBytes escape = hn::Set(kD8, static_cast<uint8_t>(escape_code));
  const uint32_t count = level->count;
  std::memset(level->escapes + count / 64 * 8, 0, 8);  // The last word may be written in part.
  for (uint32_t j = 0; j < count; j += kVectorBytes) {
    const MaskBytes mask = hn::Eq(hn::Load(kD8, level->codes.at + j), escape);
    hn::StoreMaskBits(kD8, KeepFirst(mask, count - j), level->escapes + j / 8);
  }
  return CountBits(level->escapes, count);
}

/// Unpacks 2-bit codes. Reads up to kVectorBytes / 4 bytes past them.
inline void LoadCodes(const uint8_t* from, LevelCodes* level) {
  const Lanes<uint32_t> d32;
  const hn::Rebind<uint8_t, Lanes<uint32_t>> d_packed;
  const auto mask = hn::Set(d32, 0x03030303);
  for (uint32_t j = 0; j < level->count; j += kVectorBytes) {
    auto x = hn::PromoteTo(d32, hn::LoadU(d_packed, from + j / 4));
    x = hn::Or(x, hn::ShiftLeft<12>(x));
    x = hn::And(hn::Or(x, hn::ShiftLeft<6>(x)), mask);
    hn::Store(hn::BitCast(kD8, x), kD8, level->codes.at + j);
  }
}

/// symbols[j] = the code's entry of `table`, or for escapes the next entry of `list`, which has
/// kVectorSlack readable bytes past its end.
inline void ResolveLevel(const LevelCodes& level, const uint8_t* table, const uint8_t* list,
                         TileBytes* symbols) {
  const VecBytes entries = hn::LoadDup128(kD8, table);
#if HWY_TARGET == HWY_AVX3_DL
  for (uint32_t j = 0; j < level.count; j += kVectorBytes) {
    const VecBytes named = hn::TableLookupBytes(entries, hn::Load(kD8, level.codes.at + j));
    uint64_t escapes;
    std::memcpy(&escapes, level.escapes + j / 8, 8);
    const VecBytes next = hn::LoadU(kD8, list);
    hn::Store(VecBytes{_mm512_mask_expand_epi8(named.raw, escapes, next.raw)}, kD8,
              symbols->at + j);
    list += hwy::PopCount(escapes);
  }
#else
  TileBytes expanded;
  ExpandList(level.escapes, level.count, list, expanded.at);
  for (uint32_t j = 0; j < level.count; j += kVectorBytes) {
    const VecBytes named = hn::TableLookupBytes(entries, hn::Load(kD8, level.codes.at + j));
    const MaskBytes escapes = hn::LoadMaskBits(kD8, level.escapes + j / 8);
    hn::Store(hn::IfThenElse(escapes, hn::Load(kD8, expanded.at + j), named), kD8,
              symbols->at + j);
  }
#endif
}

/// Symbols by code of all levels of a block, padded to a shuffle's size.
struct CascadeTables {
  alignas(16) uint8_t level0[16] = {};
  alignas(16) uint8_t coded[format::kCodedLevels][16] = {};
  uint32_t alphabet;

  CascadeTables(const format::Codebook& codebook, uint32_t symbol_bits)
      : alphabet(1U << symbol_bits) {
    std::memcpy(level0, codebook.level0, sizeof codebook.level0);
    for (uint32_t k = 0; k < format::kCodedLevels; ++k) {
      std::memcpy(coded[k], codebook.coded[k], sizeof codebook.coded[k]);
    }
  }
};

/// A tile's levels while they are decoded.
struct CascadeScratch {
  LevelCodes level[format::kLevels];
  TileBytes lists[2];
  uint8_t coded[kMaxCodedBytes + kVectorSlack];
};

/// Copies the raw symbols at a coded part's end to `list`; false when one is outside the alphabet.
inline bool LoadRawSymbols(const uint8_t* from, uint32_t count, uint32_t alphabet,
                           TileBytes* list) {
  uint32_t any = 0;
  for (uint32_t j = 0; j < count; ++j) {
    list->at[j] = from[j];
    any |= from[j];
  }
  return any < alphabet;  // The alphabet is a power of two.
}

/// A tile's coded part: what the escapes of level 0 are, in `symbols`. `coded` has kVectorSlack
/// readable bytes past its `coded_bytes`, which may be anything. False when they are not exactly
/// what the codes need.
[[nodiscard]] inline bool DecodeCoded(const CascadeTables& tables, uint32_t escapes,
                                      const uint8_t* coded, uint32_t coded_bytes,
                                      CascadeScratch* scratch, TileBytes* symbols) {
  uint32_t at = 0;
  for (uint32_t k = 1; k < format::kLevels; ++k) {
    LevelCodes* level = &scratch->level[k];
    level->count = escapes;
    const uint32_t code_bytes = (escapes + 3) / 4;
    if (coded_bytes - at < code_bytes) return false;
    if (escapes % 4 != 0 && (coded[at + code_bytes - 1] >> (2 * (escapes % 4))) != 0) return false;
    LoadCodes(coded + at, level);
    escapes = FindEscapes(format::kCodedEscape, level);
    at += code_bytes;
  }
  if (coded_bytes - at != escapes) return false;
  if (!LoadRawSymbols(coded + at, escapes, tables.alphabet, &scratch->lists[0])) return false;
  ResolveLevel(scratch->level[3], tables.coded[2], scratch->lists[0].at, &scratch->lists[1]);
  ResolveLevel(scratch->level[2], tables.coded[1], scratch->lists[1].at, &scratch->lists[0]);
  ResolveLevel(scratch->level[1], tables.coded[0], scratch->lists[0].at, symbols);
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace cinch::codec::cpu
HWY_AFTER_NAMESPACE();

#endif
