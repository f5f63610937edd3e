// SPDX-License-Identifier: Apache-2.0
#include "tensors/float_rounding.h"

#include <bit>
#include <cmath>
#include <limits>

namespace cinch::tensors {
namespace {

using Specials = FloatFormat::Specials;

constexpr FloatFormat kBf16 = {8, 7, 127, Specials::kIeee};
constexpr FloatFormat kFp16 = {5, 10, 15, Specials::kIeee};
constexpr FloatFormat kFp32 = {8, 23, 127, Specials::kIeee};
constexpr FloatFormat kFp64 = {11, 52, 1023, Specials::kIeee};
constexpr FloatFormat kE4M3Fn = {4, 3, 7, Specials::kFn};
constexpr FloatFormat kE4M3Fnuz = {4, 3, 8, Specials::kFnuz};
constexpr FloatFormat kE5M2 = {5, 2, 15, Specials::kIeee};
constexpr FloatFormat kE5M2Fnuz = {5, 2, 16, Specials::kFnuz};

constexpr unsigned kDoubleMantissaBits = 52;
constexpr int kDoubleBias = 1023;

uint64_t ExponentMask(const FloatFormat& format) {
  return ((uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits;
}

uint64_t NanPattern(const FloatFormat& format) {
  switch (format.specials) {
    case Specials::kFn:
      return (uint64_t{1} << (format.total_bits() - 1)) - 1;
    case Specials::kFnuz:
      return uint64_t{1} << (format.total_bits() - 1);
    default:
      return ExponentMask(format) | uint64_t{1} << (format.mantissa_bits - 1);
  }
}

/// What a magnitude beyond the largest number becomes: infinity or that number.
uint64_t OverflowPattern(const FloatFormat& format) {
  switch (format.specials) {
    case Specials::kFn:
      return NanPattern(format) - 1;
    case Specials::kFnuz:
      return (uint64_t{1} << (format.total_bits() - 1)) - 1;
    default:
      return ExponentMask(format);
  }
}

constexpr uint64_t kInfinityBits = uint64_t{0x7ff} << kDoubleMantissaBits;

/// A value below the format's least normal number: a multiple of its least subnormal one.
uint64_t RoundSubnormal(uint64_t magnitude, const FloatFormat& format) {
  const int exponent = static_cast<int>(magnitude >> kDoubleMantissaBits) - kDoubleBias;
  const int least_exponent = 1 - format.bias;
  const int shift =
      static_cast<int>(kDoubleMantissaBits - format.mantissa_bits) + least_exponent - exponent;
  // Beyond this, the value is under half of the least subnormal; so is every double's subnormal.
  if (shift > static_cast<int>(kDoubleMantissaBits) + 1) {
    return 0;
  }
  const uint64_t mantissa = magnitude & ((uint64_t{1} << kDoubleMantissaBits) - 1);
  const uint64_t significand = mantissa | uint64_t{1} << kDoubleMantissaBits;
  const uint64_t below_half = (uint64_t{1} << (shift - 1)) - 1;
  const uint64_t odd = (significand >> shift) & 1;
  return (significand + below_half + odd) >> shift;
}

}  // namespace

const FloatFormat* FloatFormatOf(cinch_dtype dtype) {
  switch (dtype) {
    case CINCH_DTYPE_BF16:
      return &kBf16;
    case CINCH_DTYPE_FP16:
      return &kFp16;
    case CINCH_DTYPE_FP32:
      return &kFp32;
    case CINCH_DTYPE_FP64:
      return &kFp64;
    case CINCH_DTYPE_FP8_E4M3FN:
      return &kE4M3Fn;
    case CINCH_DTYPE_FP8_E4M3FNUZ:
      return &kE4M3Fnuz;
    case CINCH_DTYPE_FP8_E5M2:
      return &kE5M2;
    case CINCH_DTYPE_FP8_E5M2FNUZ:
      return &kE5M2Fnuz;
    default:
      return nullptr;
  }
}

FloatRounder::FloatRounder(const FloatFormat& format)
    : format_(format),
      shift_(kDoubleMantissaBits - format.mantissa_bits),
      sign_shift_(format.total_bits() - 1),
      least_normal_(static_cast<uint64_t>(kDoubleBias + 1 - format.bias) << kDoubleMantissaBits),
      normal_span_(kInfinityBits - least_normal_),
      rebase_(static_cast<uint64_t>(kDoubleBias - format.bias) << kDoubleMantissaBits),
      below_half_(shift_ == 0 ? 0 : (uint64_t{1} << (shift_ - 1)) - 1),
      overflow_(OverflowPattern(format)) {}

uint64_t FloatRounder::RoundUnusual(uint64_t bits) const {
  const uint64_t magnitude = bits & ~(uint64_t{1} << 63);
  if (magnitude > kInfinityBits) {
    return NanPattern(format_);
  }
  const uint64_t pattern =
      magnitude == kInfinityBits ? overflow_ : RoundSubnormal(magnitude, format_);
  if (pattern == 0 && format_.specials == Specials::kFnuz) {
    return 0;
  }
  return (bits >> 63) << sign_shift_ | pattern;
}

uint64_t RoundToFormat(double value, const FloatFormat& format) {
  if (format.mantissa_bits == kDoubleMantissaBits) {
    return std::isnan(value) ? NanPattern(format) : std::bit_cast<uint64_t>(value);
  }
  return FloatRounder(format)(value);
}

double ValueOfFormat(uint64_t pattern, const FloatFormat& format) {
  const bool negative = (pattern >> (format.total_bits() - 1) & 1) != 0;
  const uint64_t exponent = (pattern & ExponentMask(format)) >> format.mantissa_bits;
  const uint64_t mantissa = pattern & ((uint64_t{1} << format.mantissa_bits) - 1);
  const uint64_t magnitude = pattern & ((uint64_t{1} << (format.total_bits() - 1)) - 1);
  const bool highest = exponent == (uint64_t{1} << format.exponent_bits) - 1;
  const double sign = negative ? -1.0 : 1.0;
  if ((format.specials == Specials::kIeee && highest && mantissa != 0) ||
      (format.specials == Specials::kFn && magnitude == NanPattern(format)) ||
      (format.specials == Specials::kFnuz && pattern == NanPattern(format))) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (format.specials == Specials::kIeee && highest) {
    return sign * std::numeric_limits<double>::infinity();
  }
  const int mantissa_bits = static_cast<int>(format.mantissa_bits);
  if (exponent == 0) {
    return sign * std::ldexp(static_cast<double>(mantissa), 1 - format.bias - mantissa_bits);
  }
  const uint64_t significand = mantissa | uint64_t{1} << format.mantissa_bits;
  return sign * std::ldexp(static_cast<double>(significand),
                           static_cast<int>(exponent) - format.bias - mantissa_bits);
}

}  // namespace cinch::tensors
