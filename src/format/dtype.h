// SPDX-License-Identifier: Apache-2.0
/// @file dtype.h
/// How a dtype's bytes become symbols and residues: docs/format.md, section 3.
#pragma once

#include <cstdint>

#include "cinch/codec.h"
#include "format/host_device.h"

namespace cinch::format {

/// The table of section 3, a row.
struct DtypeTraits {
  uint32_t element_bytes;  ///< W
  uint32_t symbol_bits;    ///< S
  uint32_t residue_bits;   ///< R
  bool rotated;            ///< 32-bit words rotate left by one bit before the split.
};

/// True for dtypes that a block may carry: all but auto.
CINCH_HOST_DEVICE constexpr bool IsBlockDtype(uint32_t dtype) {
  return dtype == CINCH_DTYPE_BYTES ||
         (dtype >= CINCH_DTYPE_BF16 && dtype <= CINCH_DTYPE_FP8_E5M2FNUZ) ||
         (dtype >= CINCH_DTYPE_INT8 && dtype <= CINCH_DTYPE_UINT64);
}

/// True for dtypes that a frame header may name.
CINCH_HOST_DEVICE constexpr bool IsFrameDtype(uint32_t dtype) {
  return dtype == CINCH_DTYPE_AUTO || IsBlockDtype(dtype);
}

/// The traits of a block dtype; those of bytes for any other value.
CINCH_HOST_DEVICE constexpr DtypeTraits TraitsOf(uint32_t dtype) {
  switch (dtype) {
    case CINCH_DTYPE_BF16:
      return {2, 8, 8, true};
    case CINCH_DTYPE_FP16:
      return {2, 5, 11, true};
    case CINCH_DTYPE_FP32:
      return {4, 8, 24, false};
    case CINCH_DTYPE_FP64:
      return {8, 8, 56, false};
    case CINCH_DTYPE_FP8_E4M3FN:
    case CINCH_DTYPE_FP8_E4M3FNUZ:
      return {1, 4, 4, true};
    case CINCH_DTYPE_FP8_E5M2:
    case CINCH_DTYPE_FP8_E5M2FNUZ:
      return {1, 5, 3, true};
    case CINCH_DTYPE_INT16:
    case CINCH_DTYPE_UINT16:
      return {2, 8, 8, false};
    case CINCH_DTYPE_INT32:
    case CINCH_DTYPE_UINT32:
      return {4, 8, 24, false};
    case CINCH_DTYPE_INT64:
    case CINCH_DTYPE_UINT64:
      return {8, 8, 56, false};
    default:
      return {1, 8, 0, false};
  }
}

/// True when the sign sits above the symbol and moves on top of the residue (fp32, fp64).
CINCH_HOST_DEVICE constexpr bool SignAboveSymbol(uint32_t dtype) {
  return dtype == CINCH_DTYPE_FP32 || dtype == CINCH_DTYPE_FP64;
}

/// An element's two parts.
struct SplitElement {
  uint32_t symbol;
  uint64_t residue;
};

/// Splits an element that has already been rotated.
CINCH_HOST_DEVICE constexpr SplitElement Split(uint32_t dtype, uint64_t element) {
  const DtypeTraits traits = TraitsOf(dtype);
  const uint64_t symbol_mask = (uint64_t{1} << traits.symbol_bits) - 1;
  if (SignAboveSymbol(dtype)) {
    const uint32_t mantissa_bits = traits.residue_bits - 1;
    const uint64_t mantissa = element & ((uint64_t{1} << mantissa_bits) - 1);
    const uint64_t sign = element >> (8 * traits.element_bytes - 1);
    return {static_cast<uint32_t>((element >> mantissa_bits) & symbol_mask),
            mantissa | (sign << mantissa_bits)};
  }
  return {static_cast<uint32_t>((element >> traits.residue_bits) & symbol_mask),
          element & ((uint64_t{1} << traits.residue_bits) - 1)};
}

/// The inverse of Split.
CINCH_HOST_DEVICE constexpr uint64_t Join(uint32_t dtype, SplitElement parts) {
  const DtypeTraits traits = TraitsOf(dtype);
  if (SignAboveSymbol(dtype)) {
    const uint32_t mantissa_bits = traits.residue_bits - 1;
    const uint64_t mantissa = parts.residue & ((uint64_t{1} << mantissa_bits) - 1);
    const uint64_t sign = parts.residue >> mantissa_bits;
    return mantissa | (uint64_t{parts.symbol} << mantissa_bits) |
           (sign << (8 * traits.element_bytes - 1));
  }
  return parts.residue | (uint64_t{parts.symbol} << traits.residue_bits);
}

}  // namespace cinch::format
