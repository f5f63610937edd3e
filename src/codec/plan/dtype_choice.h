// SPDX-License-Identifier: Apache-2.0
/// @file dtype_choice.h
/// The encoder's choices of dtype and mode: docs/format.md, sections 7.3 and 7.4.
#pragma once

#include <algorithm>
#include <cstdint>

#include "codec/plan/codebook.h"
#include "format/dtype.h"

namespace cinch::codec {

/// What `auto` tries, in this order.
inline constexpr uint32_t kAutoDtypes[] = {
    CINCH_DTYPE_BF16,       CINCH_DTYPE_FP32,     CINCH_DTYPE_FP16, CINCH_DTYPE_FP64,
    CINCH_DTYPE_FP8_E4M3FN, CINCH_DTYPE_FP8_E5M2, CINCH_DTYPE_BYTES};

/// A mask of the residue byte planes of `dtype` that are zero in `any_residue`, the OR of residues.
constexpr uint32_t ZeroPlanesOf(uint64_t any_residue, uint32_t dtype) {
  uint32_t zero_planes = 0;
  for (uint32_t plane = 0; plane < format::TraitsOf(dtype).residue_bits / 8; ++plane) {
    if (((any_residue >> (8 * plane)) & 0xFF) == 0) zero_planes |= 1U << plane;
  }
  return zero_planes;
}

/// Bits that `samples` elements would take: their symbols' cost and their residues.
constexpr uint64_t EstimatedBits(uint32_t dtype, uint64_t cost_bits, uint64_t samples,
                                 uint32_t zero_planes) {
  return cost_bits +
         samples * (format::TraitsOf(dtype).residue_bits - 8 * format::CountBits(zero_planes));
}

/// Section 7.4, step 3: false when the block is stored without trying.
constexpr bool WorthCoding(uint32_t dtype, uint64_t cost_bits, uint64_t samples,
                           uint32_t zero_planes) {
  const uint64_t raw_bits = samples * 8 * format::TraitsOf(dtype).element_bytes;
  return EstimatedBits(dtype, cost_bits, samples, zero_planes) < raw_bits - raw_bits / 64;
}

/// Keeps the dtype with the smallest estimate per original bit; the first one on a tie.
class DtypeChooser {
 public:
  /// Weighs a dtype by its detection sample, which must not be empty. `zeros`: elements of it that
  /// are zero, or 0 when these do not count.
  void Consider(uint32_t dtype, const SymbolCounts& counts, uint32_t zero_planes, uint32_t zeros) {
    const CodebookChoice choice = ChooseCodebook(counts, format::TraitsOf(dtype).symbol_bits, true);
    uint64_t bits = EstimatedBits(dtype, choice.cost_bits, counts.total, zero_planes);
    if (format::HasManyZeros(counts.total, zeros)) {
      const format::DtypeTraits traits = format::TraitsOf(dtype);
      const uint32_t residue_bits = traits.residue_bits - 8 * format::CountBits(zero_planes);
      bits = std::min<uint64_t>(
          bits, format::SparseEstimate(traits.element_bytes, residue_bits, counts.total, zeros,
                                       static_cast<uint32_t>(choice.cost_bits)));
    }
    const uint64_t raw_bits = uint64_t{counts.total} * 8 * format::TraitsOf(dtype).element_bytes;
    if (best_raw_bits_ == 0 || bits * best_raw_bits_ < best_bits_ * raw_bits) {
      best_dtype_ = dtype;
      best_bits_ = bits;
      best_raw_bits_ = raw_bits;
    }
  }

  uint32_t best_dtype() const { return best_dtype_; }

 private:
  uint32_t best_dtype_ = CINCH_DTYPE_BYTES;
  uint64_t best_bits_ = 0;
  uint64_t best_raw_bits_ = 0;
};

}  // namespace cinch::codec
