// SPDX-License-Identifier: Apache-2.0
// The choice of a block's dtype (docs/format.md, section 7.3). The same as trying every dtype, but
// most are ruled out by what they cost at least.
#if defined(CINCH_CODEC_CPU_DETECT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODEC_CPU_DETECT_INL_H_
#undef CINCH_CODEC_CPU_DETECT_INL_H_
#else
#define CINCH_CODEC_CPU_DETECT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "codec/block_codec.h"
#include "codec/cpu/codebook-inl.h"
#include "codec/cpu/sample.h"
#include "codec/plan/dtype_choice.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codec::cpu {
namespace HWY_NAMESPACE {

/// The cheapest dtype so far; dtypes come in the order of kAutoDtypes, the first wins a tie.
class DtypeDetector {
 public:
  uint32_t best_dtype() const { return best_dtype_; }

  /// False when `samples` elements of a dtype that take `least_bits` bits or more cannot win.
  bool CanWin(uint32_t dtype, uint64_t samples, uint64_t least_bits) const {
    return best_raw_bits_ == 0 ||
           least_bits * best_raw_bits_ < best_bits_ * RawBits(dtype, samples);
  }

  void Consider(uint32_t dtype, const SymbolCounts& counts, uint32_t zero_planes) {
    const uint64_t residue_bits = EstimatedBits(dtype, 0, counts.total, zero_planes);
    if (!CanWin(dtype, counts.total, residue_bits + LeastCost(counts))) return;
    const CodebookChoice choice =
        FastChooseCodebook(counts, format::TraitsOf(dtype).symbol_bits, true);
    const uint64_t bits = residue_bits + choice.cost_bits;
    if (!CanWin(dtype, counts.total, bits)) return;
    best_dtype_ = dtype;
    best_bits_ = bits;
    best_raw_bits_ = RawBits(dtype, counts.total);
  }

 private:
  static uint64_t RawBits(uint32_t dtype, uint64_t samples) {
    return samples * 8 * format::TraitsOf(dtype).element_bytes;
  }

  /// What the codebook costs at least: level 0 and the first escapes, each window holding no more
  /// than its width times the most frequent symbol.
  static uint64_t LeastCost(const SymbolCounts& counts) {
    uint32_t most = 0;
    for (const uint32_t count : counts.count) most = count > most ? count : most;
    if (most == counts.total) return 0;
    uint64_t least = ~uint64_t{0};
    for (uint32_t bits = 1; bits <= format::kMaxLevel0Bits; ++bits) {
      const uint32_t named = std::min(counts.total, format::WindowWidth(bits, 0) * most);
      least = std::min<uint64_t>(least, bits * counts.total + 2 * (counts.total - named));
    }
    return least;
  }

  uint32_t best_dtype_ = CINCH_DTYPE_BYTES;
  uint64_t best_bits_ = 0;
  uint64_t best_raw_bits_ = 0;
};

/// Counts of byte values as counts of the kBits bits from kShift up.
template <uint32_t kShift, uint32_t kBits>
inline SymbolCounts FoldCounts(const SymbolCounts& bytes) {
  SymbolCounts folded;
  folded.total = bytes.total;
  for (uint32_t high = 0; high < (256U >> (kShift + kBits)); ++high) {
    for (uint32_t symbol = 0; symbol < (1U << kBits); ++symbol) {
      const uint32_t* from = bytes.count + (((high << kBits) | symbol) << kShift);
      for (uint32_t i = 0; i < (1U << kShift); ++i) folded.count[symbol] += from[i];
    }
  }
  return folded;
}

/// The choice for a block with many zero bytes: sparse estimates count, and there are no
/// shortcuts.
inline uint32_t ChooseDtypeWithZeros(const BlockInput& input) {
  DtypeChooser chooser;
  for (const uint32_t dtype : kAutoDtypes) {
    if (format::TraitsOf(dtype).element_bytes > input.length_bytes) continue;
    SymbolCounts counts;
    CountDetectionSample(dtype, input.bytes, input.length_bytes, &counts);
    chooser.Consider(dtype, counts, DetectionZeroPlanes(dtype, input.bytes, input.length_bytes),
                     CountDetectionZeros(dtype, input.bytes, input.length_bytes));
  }
  return chooser.best_dtype();
}

/// The dtype that `input`'s block is coded with.
inline uint32_t ChooseDtype(const BlockInput& input) {
  if (input.dtype != CINCH_DTYPE_AUTO) return input.dtype;
  SymbolCounts bytes;
  CountDetectionSample(CINCH_DTYPE_BYTES, input.bytes, input.length_bytes, &bytes);
  if (format::HasManyZeros(bytes.total, bytes.count[0])) return ChooseDtypeWithZeros(input);
  DtypeDetector detector;
  for (const uint32_t dtype : kAutoDtypes) {
    const format::DtypeTraits traits = format::TraitsOf(dtype);
    if (traits.element_bytes == 1) break;
    if (traits.element_bytes > input.length_bytes) continue;
    const uint32_t zero_planes = DetectionZeroPlanes(dtype, input.bytes, input.length_bytes);
    // Per element; the number of samples does not matter to a bound without symbols.
    if (!detector.CanWin(dtype, 1, EstimatedBits(dtype, 0, 1, zero_planes))) continue;
    SymbolCounts counts;
    CountDetectionSample(dtype, input.bytes, input.length_bytes, &counts);
    detector.Consider(dtype, counts, zero_planes);
  }
  // Dtypes of one byte see the same samples.
  detector.Consider(CINCH_DTYPE_FP8_E4M3FN, FoldCounts<3, 4>(bytes), 0);
  detector.Consider(CINCH_DTYPE_FP8_E5M2, FoldCounts<2, 5>(bytes), 0);
  detector.Consider(CINCH_DTYPE_BYTES, bytes, 0);
  return detector.best_dtype();
}

}  // namespace HWY_NAMESPACE
}  // namespace cinch::codec::cpu
HWY_AFTER_NAMESPACE();

#endif
