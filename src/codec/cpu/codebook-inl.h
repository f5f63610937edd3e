// SPDX-License-Identifier: Apache-2.0
// ChooseCodebook of codec/plan in a form that compilers turn into a few vector operations: loops of
// fixed length over all places at once instead of sliding windows. It is part of every block's
// time.
#if defined(CINCH_CODEC_CPU_CODEBOOK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODEC_CPU_CODEBOOK_INL_H_
#undef CINCH_CODEC_CPU_CODEBOOK_INL_H_
#else
#define CINCH_CODEC_CPU_CODEBOOK_INL_H_
#endif

#include <cstdint>

#include "codec/plan/codebook.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codec::cpu {
namespace HWY_NAMESPACE {

inline constexpr uint32_t kRangeSymbols = 32;
inline constexpr uint32_t kRangeStep = 8;

struct ChosenWindow {
  uint32_t start;
  uint32_t samples;
};

/// How often the range's symbols occur that no window has taken yet, in ascending order; zeros
/// behind them. Windows that reach into the zeros hold no more than one that ends before them and
/// come later, so that they are never chosen.
#if HWY_TARGET == HWY_AVX3_DL
/// In one register: samples, at most 4096, fit 16 bits.
class RemainingCounts {
 public:
  explicit RemainingCounts(const uint32_t* counts)
      : counts_(_mm512_inserti64x4(
            _mm512_castsi256_si512(_mm512_cvtepi32_epi16(_mm512_loadu_si512(counts))),
            _mm512_cvtepi32_epi16(_mm512_loadu_si512(counts + kRangeSymbols / 2)), 1)) {}

  /// The window with the most samples, the lowest on a tie.
  template <uint32_t kWidth>
  HWY_INLINE ChosenWindow Best() const {
    __m512i sums = counts_;
    for (uint32_t k = 1; k < kWidth; ++k) {
      sums = _mm512_add_epi16(sums, _mm512_maskz_permutexvar_epi16(~0U >> k, From(k), counts_));
    }
    const __m256i halves =
        _mm256_max_epu16(_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64(sums, 1));
    const __m128i eighths =
        _mm_max_epu16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    // There is only a horizontal minimum.
    const __m128i least = _mm_minpos_epu16(_mm_xor_si128(eighths, _mm_set1_epi16(-1)));
    const __m512i most = _mm512_broadcastw_epi16(_mm_xor_si128(least, _mm_set1_epi16(-1)));
    const uint32_t places = _mm512_cmpeq_epi16_mask(sums, most);
    return {static_cast<uint32_t>(hwy::Num0BitsBelowLS1Bit_Nonzero32(places)),
            static_cast<uint32_t>(~_mm_cvtsi128_si32(least)) & 0xFFFF};
  }

  template <uint32_t kWidth>
  HWY_INLINE void Remove(uint32_t start) {
    const __m512i from = _mm512_mask_mov_epi16(From(0), ~0U << start, From(kWidth));
    counts_ = _mm512_maskz_permutexvar_epi16(~0U >> kWidth, from, counts_);
  }

 private:
  /// first, first + 1, ...
  static HWY_INLINE __m512i From(uint32_t first) {
    return hwy::HWY_NAMESPACE::Iota(hwy::HWY_NAMESPACE::ScalableTag<uint16_t>(),
                                    static_cast<uint16_t>(first))
        .raw;
  }

  __m512i counts_;
};
#else
class RemainingCounts {
 public:
  explicit RemainingCounts(const uint32_t* counts) {
    for (uint32_t i = 0; i < kRangeSymbols; ++i) counts_[i] = counts[i];
    for (uint32_t i = kRangeSymbols; i < kRangeSymbols + 16; ++i) counts_[i] = 0;
  }

  /// The window with the most samples, the lowest on a tie.
  template <uint32_t kWidth>
  HWY_INLINE ChosenWindow Best() const {
    // Counts fit 27 bits; a place below them makes the first maximum the only one.
    alignas(64) uint32_t key[kRangeSymbols];
    for (uint32_t i = 0; i < kRangeSymbols; ++i) {
      uint32_t samples = counts_[i];
      for (uint32_t k = 1; k < kWidth; ++k) samples += counts_[i + k];
      key[i] = samples * kRangeSymbols + (kRangeSymbols - 1 - i);
    }
    uint32_t best = 0;
    for (uint32_t i = 0; i < kRangeSymbols; ++i) best = key[i] > best ? key[i] : best;
    return {kRangeSymbols - 1 - best % kRangeSymbols, best / kRangeSymbols};
  }

  template <uint32_t kWidth>
  HWY_INLINE void Remove(uint32_t start) {
    alignas(64) uint32_t kept[kRangeSymbols];
    for (uint32_t i = 0; i < kRangeSymbols; ++i) {
      kept[i] = i < start ? counts_[i] : counts_[i + kWidth];
    }
    for (uint32_t i = 0; i < kRangeSymbols; ++i) counts_[i] = kept[i];
  }

 private:
  alignas(64) uint32_t counts_[kRangeSymbols + 16];
};
#endif

/// Takes the best window of kWidth symbols for a level and adds what escapes it to the cost.
template <uint32_t kWidth>
HWY_INLINE void TakeWindow(uint32_t level, uint32_t first_symbol, RemainingCounts* remaining,
                           uint32_t* escapes, CodebookChoice* choice) {
  const ChosenWindow window = remaining->Best<kWidth>();
  choice->codebook.window_start[level] = static_cast<uint8_t>(first_symbol + window.start);
  remaining->Remove<kWidth>(window.start);
  *escapes -= window.samples;
  const uint32_t bits_of_escape = level + 1 < format::kLevels ? 2 : 8;
  choice->cost_bits += uint64_t{bits_of_escape} * *escapes;
}

template <uint32_t kLevel0Bits>
CodebookChoice ChooseWindows(uint32_t first_symbol, RemainingCounts remaining, uint32_t total) {
  CodebookChoice choice;
  choice.level0_bits = kLevel0Bits;
  choice.cost_bits = uint64_t{kLevel0Bits} * total;
  uint32_t escapes = total;
  TakeWindow<format::WindowWidth(kLevel0Bits, 0)>(0, first_symbol, &remaining, &escapes, &choice);
  for (uint32_t level = 1; level < format::kLevels; ++level) {
    TakeWindow<format::kCodedLevelSymbols>(level, first_symbol, &remaining, &escapes, &choice);
  }
  return choice;
}

/// Level 0 has one bit and names symbol 0, which is below the range.
inline CodebookChoice ChooseZeroShape(uint32_t first_symbol, RemainingCounts remaining,
                                      uint32_t total, uint32_t zeroes) {
  CodebookChoice choice;
  choice.level0_bits = 1;
  uint32_t escapes = total - zeroes;
  choice.cost_bits = total + uint64_t{2} * escapes;
  for (uint32_t level = 1; level < format::kLevels; ++level) {
    TakeWindow<format::kCodedLevelSymbols>(level, first_symbol - 1, &remaining, &escapes, &choice);
  }
  return choice;
}

/// Section 7.2, step 2.
inline uint32_t RangeStart(const SymbolCounts& counts, uint32_t alphabet) {
  if (alphabet <= kRangeSymbols) return 0;
  uint32_t step_samples[256 / kRangeStep];
  for (uint32_t step = 0; step < 256 / kRangeStep; ++step) {
    uint32_t samples = 0;
    for (uint32_t i = 0; i < kRangeStep; ++i) samples += counts.count[step * kRangeStep + i];
    step_samples[step] = samples;
  }
  step_samples[0] -= counts.count[0];  // exact zeroes are far from everything else
  uint32_t best = 0;
  uint32_t best_samples = 0;
  for (uint32_t step = 0; step + 4 <= 256 / kRangeStep; ++step) {
    const uint32_t samples = step_samples[step] + step_samples[step + 1] + step_samples[step + 2] +
                             step_samples[step + 3];
    if (samples > best_samples) {
      best_samples = samples;
      best = step;
    }
  }
  return best * kRangeStep;
}

/// The only symbol that was counted, or 256.
inline uint32_t OnlySymbol(const SymbolCounts& counts) {
  uint32_t only = 256;
  for (uint32_t symbol = 0; symbol < 256; ++symbol) {
    only = counts.count[symbol] == counts.total ? symbol : only;
  }
  return only;
}

/// The same as codec::ChooseCodebook.
inline CodebookChoice FastChooseCodebook(const SymbolCounts& counts, uint32_t symbol_bits,
                                         bool allow_single) {
  const uint32_t only = allow_single ? OnlySymbol(counts) : 256;
  if (only != 256) {
    CodebookChoice single;
    single.codebook.window_start[0] = static_cast<uint8_t>(only);
    single.single_symbol = true;
    return single;
  }
  const uint32_t alphabet = 1U << symbol_bits;
  const uint32_t first_symbol = RangeStart(counts, alphabet);
  const RemainingCounts range(counts.count + first_symbol);
  // Level 0 with 3 bits costs at least those, and with 1 bit at least that bit for all and 2 for
  // what escapes; often one of them need not be weighed.
  CodebookChoice best = ChooseWindows<2>(first_symbol, range, counts.total);
  const uint64_t total = counts.total;
  if (total + 2 * (total - range.Best<1>().samples) < best.cost_bits) {
    const CodebookChoice one_bit = ChooseWindows<1>(first_symbol, range, counts.total);
    if (one_bit.cost_bits < best.cost_bits) best = one_bit;
  }
  if (3 * total < best.cost_bits) {
    const CodebookChoice three_bits = ChooseWindows<3>(first_symbol, range, counts.total);
    if (three_bits.cost_bits < best.cost_bits) best = three_bits;
  }
  const uint32_t zeroes = counts.count[0];
  if (first_symbol != 0 && total + 2 * (total - zeroes) < best.cost_bits) {
    const CodebookChoice zero = ChooseZeroShape(first_symbol, range, counts.total, zeroes);
    if (zero.cost_bits < best.cost_bits) best = zero;
  }
  return best;
}

}  // namespace HWY_NAMESPACE
}  // namespace cinch::codec::cpu
HWY_AFTER_NAMESPACE();

#endif
