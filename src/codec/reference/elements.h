// SPDX-License-Identifier: Apache-2.0
/// @file elements.h
/// Bytes to rotated elements and back (docs/format.md, section 3).
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "format/dtype.h"

namespace cinch::codec::reference {

inline uint64_t LoadLittle(const uint8_t* bytes, uint32_t size) {
  uint64_t value = 0;
  for (uint32_t i = 0; i < size; ++i) value |= uint64_t{bytes[i]} << (8 * i);
  return value;
}

inline void StoreLittle(uint64_t value, uint32_t size, uint8_t* bytes) {
  for (uint32_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
}

/// Rotates `value` of `bits` bits to the left by `by`.
inline uint64_t RotateLeft(uint64_t value, uint32_t bits, uint32_t by) {
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return ((value << by) | (value >> (bits - by))) & mask;
}

/// Rotates all words, and the elements after the last word, of `bytes` by one: to the left when
/// encoding, to the right when decoding.
inline void RotateBlock(uint32_t element_bytes, bool left, std::vector<uint8_t>* bytes) {
  size_t at = 0;
  const auto rotate = [&](uint32_t size) {
    const uint32_t by = left ? 1 : 8 * size - 1;
    StoreLittle(RotateLeft(LoadLittle(&(*bytes)[at], size), 8 * size, by), size, &(*bytes)[at]);
    at += size;
  };
  while (at + 4 <= bytes->size()) rotate(4);
  while (at + element_bytes <= bytes->size()) rotate(element_bytes);
}

/// The rotated elements of a block; the tail is left out.
inline std::vector<uint64_t> LoadElements(uint32_t dtype, const uint8_t* bytes,
                                          uint32_t length_bytes) {
  const format::DtypeTraits traits = format::TraitsOf(dtype);
  const uint32_t elements = length_bytes / traits.element_bytes;
  std::vector<uint8_t> copy(bytes, bytes + elements * traits.element_bytes);
  if (traits.rotated) RotateBlock(traits.element_bytes, true, &copy);
  std::vector<uint64_t> values(elements);
  for (uint32_t j = 0; j < elements; ++j) {
    values[j] = LoadLittle(&copy[j * traits.element_bytes], traits.element_bytes);
  }
  return values;
}

/// The inverse of LoadElements.
inline void StoreElements(uint32_t dtype, const std::vector<uint64_t>& values, uint8_t* bytes) {
  const format::DtypeTraits traits = format::TraitsOf(dtype);
  std::vector<uint8_t> copy(values.size() * traits.element_bytes);
  for (size_t j = 0; j < values.size(); ++j) {
    StoreLittle(values[j], traits.element_bytes, &copy[j * traits.element_bytes]);
  }
  if (traits.rotated) RotateBlock(traits.element_bytes, false, &copy);
  for (size_t i = 0; i < copy.size(); ++i) bytes[i] = copy[i];
}

}  // namespace cinch::codec::reference
