// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "cinch/codec.h"

namespace cinch::tensors {

/// How a binary floating-point type of at most 64 bits spends its bits: sign, exponent, mantissa,
/// highest first.
struct FloatFormat {
  enum class Specials {
    kIeee,  ///< The highest exponent is infinity and NaN.
    kFn,    ///< No infinity; NaN is all ones; the highest exponent holds numbers too.
    kFnuz,  ///< No infinity, no negative zero; its pattern is the only NaN.
  };
  unsigned exponent_bits;
  unsigned mantissa_bits;
  int bias;
  Specials specials;

  constexpr unsigned total_bits() const { return 1 + exponent_bits + mantissa_bits; }
};

/// The layout of a float dtype; null for integers, bytes and auto. Static storage.
const FloatFormat* FloatFormatOf(cinch_dtype dtype);

/// Rounds doubles to one format. Holds what depends on the format alone, for loops over many
/// values.
class FloatRounder {
 public:
  explicit FloatRounder(const FloatFormat& format);

  /// As RoundToFormat().
  uint64_t operator()(double value) const {
    const uint64_t bits = std::bit_cast<uint64_t>(value);
    const uint64_t magnitude = bits & ~(uint64_t{1} << 63);
    if (magnitude - least_normal_ >= normal_span_) {
      return RoundUnusual(bits);
    }
    // Exponent and mantissa are one number: a carry out of the mantissa moves to the next exponent
    // by itself.
    const uint64_t rebased = magnitude - rebase_;
    const uint64_t odd = (rebased >> shift_) & 1;
    const uint64_t rounded = (rebased + below_half_ + odd) >> shift_;
    return (bits >> 63) << sign_shift_ | (rounded < overflow_ ? rounded : overflow_);
  }

 private:
  /// Zeros, subnormal results, infinities and NaNs.
  uint64_t RoundUnusual(uint64_t bits) const;

  FloatFormat format_;
  unsigned shift_;
  unsigned sign_shift_;
  uint64_t least_normal_;  ///< The format's least normal number, as a double's bits.
  uint64_t normal_span_;   ///< From there to a double's infinity.
  uint64_t rebase_;        ///< Turns a double's exponent into the format's.
  uint64_t below_half_;
  uint64_t overflow_;
};

/// The bit pattern nearest to `value`, ties to even. Too large a value becomes infinity where the
/// format has one and the largest number of that sign where it has none; NaN becomes the format's
/// quiet NaN.
uint64_t RoundToFormat(double value, const FloatFormat& format);

/// The value of a bit pattern, exactly. Any NaN becomes a quiet NaN.
double ValueOfFormat(uint64_t pattern, const FloatFormat& format);

}  // namespace cinch::tensors
