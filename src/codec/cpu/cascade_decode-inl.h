// SPDX-License-Identifier: Apache-2.0
// The cascade, decoding (docs/format.md, sections 5.1 and 5.2). The header says where each level's
// codes are; symbols are filled in from the bottom up, a level's list from the list below it.
#if defined(CINCH_CODEC_CPU_CASCADE_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODEC_CPU_CASCADE_DECODE_INL_H_
#undef CINCH_CODEC_CPU_CASCADE_DECODE_INL_H_
#else
#define CINCH_CODEC_CPU_CASCADE_DECODE_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "codec/cpu/chunk.h"
#include "codec/cpu/lists-inl.h"
#include "codec/cpu/planes-inl.h"
#include "codec/cpu/vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codec::cpu {
namespace HWY_NAMESPACE {

using PackedCodes = SmallField<const uint8_t>;

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

/// symbols[j] = the code's entry of `table`, or for escapes the next entry of `list`, for up to
/// kChunk codes. Returns the list's next entry. Reads and writes whole vectors, also past the end
/// of `list`.
template <uint32_t kBits>
inline const uint8_t* ResolveCodes(const PackedCodes& codes, uint32_t count, const uint8_t* table,
                                   const uint8_t* list, uint8_t* symbols) {
  const VecBytes entries = hn::LoadDup128(kD8, table);
  const VecBytes escape = hn::Set(kD8, kEscapeCode<kBits>);
#if HWY_TARGET == HWY_AVX3_DL
  for (uint32_t j = 0; j < count; j += kVectorBytes) {
    const VecBytes code = LoadCodes<kBits>(codes, j);
    const __mmask64 escapes = hn::Eq(code, escape).raw;
    const VecBytes named = hn::TableLookupBytes(entries, code);
    const VecBytes next = hn::LoadU(kD8, list);
    hn::StoreU(VecBytes{_mm512_mask_expand_epi8(named.raw, escapes, next.raw)}, kD8, symbols + j);
    list += hwy::PopCount(static_cast<uint64_t>(escapes));
  }
#else
  alignas(8) uint8_t escapes[kChunk / 8];
  ChunkBytes expanded;
  for (uint32_t j = 0; j < count; j += kVectorBytes) {
    hn::StoreMaskBits(kD8, hn::Eq(LoadCodes<kBits>(codes, j), escape), escapes + j / 8);
  }
  list = ExpandList(escapes, count, list, expanded.at);
  for (uint32_t j = 0; j < count; j += kVectorBytes) {
    const VecBytes code = LoadCodes<kBits>(codes, j);
    const VecBytes named = hn::TableLookupBytes(entries, code);
    hn::StoreU(hn::IfThenElse(hn::Eq(code, escape), hn::Load(kD8, expanded.at + j), named), kD8,
               symbols + j);
  }
#endif
  return list;
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

/// Whether exactly `escapes` of `count` 2-bit codes are escapes and no reserved bit is set.
inline bool CodesAreValid(const uint8_t* codes, uint32_t count, uint32_t escapes) {
  const uint32_t code_bytes = format::CodeListBytes(count);
  const uint32_t last_bits = 2 * (count % 4);
  return (last_bits == 0 || codes[code_bytes - 1] >> last_bits == 0) &&
         CountFullCrumbs(codes, code_bytes) == escapes;
}

/// The symbols of a list of `count` entries whose codes are valid, `list` being the one below it.
inline void ResolveList(const uint8_t* codes, uint32_t count, const uint8_t* table,
                        const uint8_t* list, uint8_t* symbols) {
  for (uint32_t first = 0; first < count; first += kChunk) {
    const uint32_t left = count - first;
    list = ResolveCodes<2>({2, codes + first / 4, nullptr}, left < kChunk ? left : kChunk, table,
                           list, symbols + first);
  }
}

/// Finds the symbols of all that escaped level 0, in order, in a block's coded part. That has
/// kVectorSlack readable bytes past its end, and `escapes` are no more than the level above has.
class EscapedSymbols {
 public:
  /// False when the codes do not bear out the counts, or a raw symbol is none.
  [[nodiscard]] bool Resolve(const CascadeTables& tables, const format::EscapeCounts& escapes,
                             const uint8_t* coded) {
    const uint8_t* codes[format::kLevels];
    for (uint32_t level = 1; level < format::kLevels; ++level) {
      codes[level] = coded;
      const uint32_t entries = escapes.count[level - 1];
      if (!CodesAreValid(coded, entries, escapes.count[level])) return false;
      coded += format::CodeListBytes(entries);
    }
    if (!RawSymbolsAreValid(coded, escapes.count[format::kLevels - 1], tables.alphabet)) {
      return false;
    }
    // Back and forth between two lists.
    ResolveList(codes[3], escapes.count[2], tables.symbols[3], coded, lists_[0].at);
    ResolveList(codes[2], escapes.count[1], tables.symbols[2], lists_[0].at, lists_[1].at);
    ResolveList(codes[1], escapes.count[0], tables.symbols[1], lists_[1].at, lists_[0].at);
    return true;
  }

  const uint8_t* begin() const { return lists_[0].at; }

 private:
  ListBytes lists_[2];
};

}  // namespace HWY_NAMESPACE
}  // namespace cinch::codec::cpu
HWY_AFTER_NAMESPACE();

#endif
