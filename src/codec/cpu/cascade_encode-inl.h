// SPDX-License-Identifier: Apache-2.0
// The cascade, encoding (docs/format.md, sections 5.1 and 5.2).
//
// No tables: each level's symbols are a window of consecutive symbols of the alphabet that the
// levels above left over. Numbering the symbols within that alphabet makes a code
// min(number - window start, escape), and dropping a window from it takes two more operations.
#if defined(CINCH_CODEC_CPU_CASCADE_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODEC_CPU_CASCADE_ENCODE_INL_H_
#undef CINCH_CODEC_CPU_CASCADE_ENCODE_INL_H_
#else
#define CINCH_CODEC_CPU_CASCADE_ENCODE_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "codec/cpu/chunk.h"
#include "codec/cpu/lists-inl.h"
#include "codec/cpu/planes-inl.h"
#include "codec/cpu/vectors-inl.h"
#include "codec/plan/codebook.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codec::cpu {
namespace HWY_NAMESPACE {

/// A level's window.
struct Window {
  VecBytes start;
  VecBytes width;  ///< Also the level's escape code.

  Window(uint32_t start_in, uint32_t width_in)
      : start(hn::Set(kD8, static_cast<uint8_t>(start_in))),
        width(hn::Set(kD8, static_cast<uint8_t>(width_in))) {}

  /// Numbers below the window wrap around to far above it.
  HWY_INLINE VecBytes Code(VecBytes number) const { return hn::Min(hn::Sub(number, start), width); }
  /// Escaped numbers in the alphabet without the window.
  HWY_INLINE VecBytes Drop(VecBytes number) const {
    return hn::Min(number, hn::Max(hn::SaturatedSub(number, width), start));
  }
  /// The inverse of Drop.
  HWY_INLINE VecBytes PutBack(VecBytes number) const {
    return hn::Add(number, hn::IfThenZeroElse(hn::Lt(number, start), width));
  }
};

/// Level 0 of `count` symbols: their codes, 0 from there to the end of the vector, and at `list`
/// what escapes. Returns how many escape.
inline uint32_t EncodeLevel0(const Window& window, const uint8_t* symbols, uint32_t count,
                             uint8_t* codes, uint8_t* list) {
  uint32_t escaped = 0;
  uint32_t j = 0;
  for (; j + kVectorBytes <= count; j += kVectorBytes) {
    const VecBytes numbers = hn::Load(kD8, symbols + j);
    const VecBytes code = window.Code(numbers);
    hn::Store(code, kD8, codes + j);
    escaped += CompressTo(numbers, hn::Eq(code, window.width), list + escaped);
  }
  if (j == count) return escaped;
  const VecBytes numbers = hn::Load(kD8, symbols + j);
  const VecBytes code = hn::IfThenElseZero(FirstLanes(count - j), window.Code(numbers));
  hn::Store(code, kD8, codes + j);
  return escaped + CompressTo(numbers, hn::Eq(code, window.width), list + escaped);
}

/// One of levels 1 to 3: writes the codes of the list's `count` entries to `to` and shrinks the
/// list to what escapes. Entries are numbered in the alphabet without `above`'s window afterwards.
inline uint32_t EncodeCodedLevel(const Window& above, const Window& window, uint32_t count,
                                 uint8_t* list, uint8_t* to) {
  uint32_t escaped = 0;
  for (uint32_t j = 0; j < count; j += kVectorBytes) {
    const VecBytes numbers = above.Drop(hn::LoadU(kD8, list + j));
    const VecBytes codes = hn::IfThenElseZero(FirstLanes(count - j), window.Code(numbers));
    StoreCrumbs(codes, to + j / 4);
    // In place: the list's end never overtakes the vector just read.
    escaped += CompressTo(numbers, hn::Eq(codes, window.width), list + escaped);
  }
  return escaped;
}

/// The windows of all levels of a block.
struct Cascade {
  Window level[format::kLevels];

  explicit Cascade(const CodebookChoice& choice)
      : level{WindowOf(choice, 0), WindowOf(choice, 1), WindowOf(choice, 2), WindowOf(choice, 3)} {}

 private:
  static Window WindowOf(const CodebookChoice& choice, uint32_t level_index) {
    return {choice.codebook.window_start[level_index],
            format::WindowWidth(choice.level0_bits, level_index)};
  }
};

/// What escaped level 3, `count` entries of `list`, as raw symbols to `to`.
inline void StoreRawSymbols(const Cascade& cascade, uint32_t count, const uint8_t* list,
                            uint8_t* to) {
  for (uint32_t j = 0; j < count; j += kVectorBytes) {
    VecBytes numbers = hn::LoadU(kD8, list + j);
    for (uint32_t level = format::kLevels - 1; level-- > 0;) {
      numbers = cascade.level[level].PutBack(numbers);
    }
    hn::StoreU(numbers, kD8, to + j);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cinch::codec::cpu
HWY_AFTER_NAMESPACE();

#endif
