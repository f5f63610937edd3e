// SPDX-License-Identifier: Apache-2.0
/// @file element.h
/// Elements in *split order*: symbol << R | residue (docs/format.md, section 3). Every dtype's
/// elements come into this form by a few operations on whole words; from there on only W and R
/// matter. Scalar code for samples and block ends; elements-inl.h has the SIMD twin.
#pragma once

#include <cstdint>
#include <cstring>

#include "format/dtype.h"

namespace cinch::codec::cpu {

/// The first of the dtypes that are coded alike, which stands for all of them in templates.
constexpr uint32_t CanonicalDtype(uint32_t dtype) {
  switch (dtype) {
    case CINCH_DTYPE_FP8_E4M3FNUZ:
      return CINCH_DTYPE_FP8_E4M3FN;
    case CINCH_DTYPE_FP8_E5M2FNUZ:
      return CINCH_DTYPE_FP8_E5M2;
    case CINCH_DTYPE_UINT16:
      return CINCH_DTYPE_INT16;
    case CINCH_DTYPE_UINT32:
      return CINCH_DTYPE_INT32;
    case CINCH_DTYPE_UINT64:
      return CINCH_DTYPE_INT64;
    case CINCH_DTYPE_BF16:
    case CINCH_DTYPE_FP16:
    case CINCH_DTYPE_FP32:
    case CINCH_DTYPE_FP64:
    case CINCH_DTYPE_FP8_E4M3FN:
    case CINCH_DTYPE_FP8_E5M2:
    case CINCH_DTYPE_INT16:
    case CINCH_DTYPE_INT32:
    case CINCH_DTYPE_INT64:
      return dtype;
    default:
      return CINCH_DTYPE_BYTES;
  }
}

/// `Table<dtype>::kValue` of the canonical dtype: a run-time dtype to what was made for it.
template <template <uint32_t> class Table, typename Value>
constexpr Value SelectByDtype(uint32_t dtype) {
  switch (CanonicalDtype(dtype)) {
    case CINCH_DTYPE_BF16:
      return Table<CINCH_DTYPE_BF16>::kValue;
    case CINCH_DTYPE_FP16:
      return Table<CINCH_DTYPE_FP16>::kValue;
    case CINCH_DTYPE_FP32:
      return Table<CINCH_DTYPE_FP32>::kValue;
    case CINCH_DTYPE_FP64:
      return Table<CINCH_DTYPE_FP64>::kValue;
    case CINCH_DTYPE_FP8_E4M3FN:
      return Table<CINCH_DTYPE_FP8_E4M3FN>::kValue;
    case CINCH_DTYPE_FP8_E5M2:
      return Table<CINCH_DTYPE_FP8_E5M2>::kValue;
    case CINCH_DTYPE_INT16:
      return Table<CINCH_DTYPE_INT16>::kValue;
    case CINCH_DTYPE_INT32:
      return Table<CINCH_DTYPE_INT32>::kValue;
    case CINCH_DTYPE_INT64:
      return Table<CINCH_DTYPE_INT64>::kValue;
    default:
      return Table<CINCH_DTYPE_BYTES>::kValue;
  }
}

/// What templates over a canonical dtype need.
template <uint32_t kDtype>
struct Element {
  static constexpr format::DtypeTraits kTraits = format::TraitsOf(kDtype);
  static constexpr uint32_t kBytes = kTraits.element_bytes;
  static constexpr uint32_t kResidueBits = kTraits.residue_bits;
  static constexpr uint32_t kPlanes = kResidueBits / 8;   ///< Byte planes of the residue.
  static constexpr uint32_t kLowBits = kResidueBits % 8;  ///< Residue bits in the top byte.
  static constexpr bool kRotated = kTraits.rotated;
  static constexpr bool kMovesSign = format::SignAboveSymbol(kDtype);
};

/// A value of `bits` bits, rotated by `by` to the left.
constexpr uint32_t RotateLeft(uint32_t value, uint32_t bits, uint32_t by) {
  const uint32_t mask = bits == 32 ? ~uint32_t{0} : (1U << bits) - 1;
  return ((value << by) | (value >> (bits - by))) & mask;
}

template <uint32_t kDtype>
inline uint64_t LoadRaw(const uint8_t* bytes) {
  uint64_t value = 0;
  std::memcpy(&value, bytes, Element<kDtype>::kBytes);
  return value;
}

/// The bytes that element `j` depends on: the 32-bit word around it, or itself.
template <uint32_t kDtype>
inline uint64_t LoadWord(const uint8_t* bytes, uint32_t j) {
  using E = Element<kDtype>;
  if constexpr (E::kRotated) {
    uint32_t word;
    std::memcpy(&word, bytes + j * E::kBytes / 4 * 4, 4);
    return word;
  } else {
    return LoadRaw<kDtype>(bytes + size_t{j} * E::kBytes);
  }
}

/// Which of its word's elements element `j` is.
template <uint32_t kDtype>
constexpr uint32_t PlaceInWord(uint32_t j) {
  return Element<kDtype>::kRotated ? j % (4 / Element<kDtype>::kBytes) : 0;
}

/// What LoadWord returned -> the element in split order. `place`: which of the word's elements.
template <uint32_t kDtype>
constexpr uint64_t WordToSplitOrder(uint64_t word, uint32_t place) {
  using E = Element<kDtype>;
  if constexpr (E::kRotated) {
    const uint32_t rotated = RotateLeft(static_cast<uint32_t>(word), 32, 1);
    return (rotated >> (8 * E::kBytes * place)) & ((uint64_t{1} << (8 * E::kBytes)) - 1);
  } else if constexpr (E::kMovesSign) {
    const format::SplitElement parts = format::Split(kDtype, word);
    return parts.residue | (uint64_t{parts.symbol} << E::kResidueBits);
  } else {
    return word;
  }
}

/// Element `j` in split order. `word_elements`: how many elements lie in whole 32-bit words.
template <uint32_t kDtype>
inline uint64_t LoadSplitOrder(const uint8_t* bytes, uint32_t j, uint32_t word_elements) {
  using E = Element<kDtype>;
  if (E::kRotated && j >= word_elements) {
    const uint64_t element = LoadRaw<kDtype>(bytes + size_t{j} * E::kBytes);
    return RotateLeft(static_cast<uint32_t>(element), 8 * E::kBytes, 1);
  }
  return WordToSplitOrder<kDtype>(LoadWord<kDtype>(bytes, j), PlaceInWord<kDtype>(j));
}

/// The symbol of the element at `at` alone. Rotation moves it within the element, no more.
template <uint32_t kDtype>
inline uint32_t LoadSymbol(const uint8_t* at) {
  using E = Element<kDtype>;
  const uint64_t element = LoadRaw<kDtype>(at);
  constexpr uint32_t kShift = E::kRotated || E::kMovesSign ? E::kResidueBits - 1 : E::kResidueBits;
  constexpr uint64_t kMask = (uint64_t{1} << E::kTraits.symbol_bits) - 1;
  return static_cast<uint32_t>((element >> kShift) & kMask);
}

/// Elements of a block of `length_bytes` that lie in whole 32-bit words.
constexpr uint32_t WordElements(uint32_t element_bytes, uint32_t length_bytes) {
  return element_bytes >= 4 ? length_bytes / element_bytes : length_bytes / 4 * (4 / element_bytes);
}

}  // namespace cinch::codec::cpu
