// SPDX-License-Identifier: Apache-2.0
/// @file planes.h
/// Fields of any width in planes (docs/format.md, section 5.1), a bit at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "format/layout.h"

namespace cinch::codec::reference {

/// Where the `width` bits of an element stand in a plane.
struct PlanePlace {
  uint32_t byte;
  uint32_t shift;
};

inline PlanePlace PlaceOf(uint32_t width, uint32_t element) {
  return {width * element / 8, width * element % 8};
}

inline uint32_t PlaneBytes(uint32_t width, uint32_t elements) {
  return format::FieldBytes(width, elements);
}

/// The planes' widths of a field, from its low bits up.
inline std::vector<uint32_t> PlaneWidths(uint32_t bits) {
  std::vector<uint32_t> widths(bits / 8, 8);
  for (const uint32_t width : {4U, 2U, 1U}) {
    if ((bits & width) != 0) widths.push_back(width);
  }
  return widths;
}

/// Appends the planes of `values`; `skip_planes` names byte planes to leave out.
inline void WriteField(const std::vector<uint64_t>& values, uint32_t bits, uint32_t skip_planes,
                       std::vector<uint8_t>* out) {
  const auto elements = static_cast<uint32_t>(values.size());
  uint32_t low_bit = 0;
  uint32_t plane = 0;
  for (const uint32_t width : PlaneWidths(bits)) {
    const bool skipped = width == 8 && ((skip_planes >> plane) & 1) != 0;
    if (!skipped) {
      const size_t start = out->size();
      out->resize(start + PlaneBytes(width, elements), 0);
      for (uint32_t j = 0; j < elements; ++j) {
        const PlanePlace place = PlaceOf(width, j);
        const auto piece = static_cast<uint32_t>((values[j] >> low_bit) & ((1U << width) - 1));
        uint8_t& byte = (*out)[start + place.byte];
        byte = static_cast<uint8_t>(byte | (piece << place.shift));
      }
    }
    low_bit += width;
    ++plane;
  }
}

/// Reads what WriteField wrote. The caller has checked that FieldBytes are there. False when a
/// reserved bit is set.
inline bool ReadField(const uint8_t* bytes, uint32_t elements, uint32_t bits, uint32_t skip_planes,
                      std::vector<uint64_t>* values) {
  values->assign(elements, 0);
  uint32_t low_bit = 0;
  uint32_t plane = 0;
  for (const uint32_t width : PlaneWidths(bits)) {
    const bool skipped = width == 8 && ((skip_planes >> plane) & 1) != 0;
    if (!skipped) {
      const uint32_t plane_bytes = PlaneBytes(width, elements);
      std::vector<uint8_t> unused(bytes, bytes + plane_bytes);
      for (uint32_t j = 0; j < elements; ++j) {
        const PlanePlace place = PlaceOf(width, j);
        const uint32_t mask = ((1U << width) - 1) << place.shift;
        (*values)[j] |= uint64_t{(bytes[place.byte] & mask) >> place.shift} << low_bit;
        unused[place.byte] = static_cast<uint8_t>(unused[place.byte] & ~mask);
      }
      for (const uint8_t byte : unused) {
        if (byte != 0) return false;
      }
      bytes += plane_bytes;
    }
    low_bit += width;
    ++plane;
  }
  return true;
}

}  // namespace cinch::codec::reference
