// SPDX-License-Identifier: Apache-2.0
/// @file sparse.h
/// Which elements of a block are zero, and the bytes of the others (docs/format.md, section 5.4).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "format/layout.h"

namespace cinch::codec::reference {

/// For each element of a block whether it is zero.
inline std::vector<bool> ZeroElements(uint32_t dtype, const uint8_t* bytes, uint32_t length_bytes) {
  const uint32_t element_bytes = format::TraitsOf(dtype).element_bytes;
  std::vector<bool> zero;
  for (uint32_t j = 0; j < length_bytes / element_bytes; ++j) {
    const uint8_t* element = bytes + j * element_bytes;
    zero.push_back(
        std::all_of(element, element + element_bytes, [](uint8_t byte) { return byte == 0; }));
  }
  return zero;
}

/// Counts and bitmaps, padded to where the inner payload begins: all between header and that.
inline std::vector<uint8_t> SparseMaps(const std::vector<bool>& zero) {
  const size_t groups = format::CeilDivide(zero.size(), format::kSparseGroup);
  std::vector<uint8_t> bits(format::CeilDivide(groups, 8), 0);
  std::vector<uint8_t> bytes;
  uint32_t elements = 0;
  for (size_t group = 0; group < groups; ++group) {
    uint32_t byte = 0;
    for (uint32_t k = 0; k < format::kSparseGroup; ++k) {
      const size_t j = group * format::kSparseGroup + k;
      if (j >= zero.size() || zero[j]) continue;
      byte |= 1U << k;
      ++elements;
    }
    if (byte == 0) continue;
    bytes.push_back(static_cast<uint8_t>(byte));
    bits[group / 8] = static_cast<uint8_t>(bits[group / 8] | (1U << (group % 8)));
  }
  const auto group_count = static_cast<uint32_t>(bytes.size());
  std::vector<uint8_t> maps;
  maps.reserve(2 * sizeof(uint16_t) + bits.size() + bytes.size() + format::kPayloadUnitBytes);
  for (const uint32_t count : {group_count, elements}) {
    maps.push_back(static_cast<uint8_t>(count));
    maps.push_back(static_cast<uint8_t>(count >> 8));
  }
  maps.insert(maps.end(), bits.begin(), bits.end());
  maps.insert(maps.end(), bytes.begin(), bytes.end());
  const size_t end = sizeof(format::BlockHeader) + maps.size();
  maps.resize(maps.size() + format::AlignUp(end, format::kPayloadUnitBytes) - end, 0);
  return maps;
}

/// The bytes of the elements that are not zero, and the tail.
inline std::vector<uint8_t> InnerBytes(uint32_t dtype, const std::vector<bool>& zero,
                                       const uint8_t* bytes, uint32_t length_bytes) {
  const uint32_t element_bytes = format::TraitsOf(dtype).element_bytes;
  std::vector<uint8_t> inner;
  for (size_t j = 0; j < zero.size(); ++j) {
    if (zero[j]) continue;
    inner.insert(inner.end(), bytes + j * element_bytes, bytes + (j + 1) * element_bytes);
  }
  inner.insert(inner.end(), bytes + zero.size() * element_bytes, bytes + length_bytes);
  return inner;
}

/// Reads what SparseMaps wrote of a payload whose size is right for `counts`. False when it does
/// not bear out the counts or a reserved bit is set.
inline bool ReadMaps(const uint8_t* payload, const format::SparseLayout& layout,
                     const format::SparseCounts& counts, std::vector<bool>* zero) {
  zero->assign(layout.elements, true);
  const uint8_t* bits = payload + format::kSparseBitsOffset;
  uint32_t next = layout.bytes_offset;
  uint32_t elements = 0;
  for (uint32_t group = 0; group < 8 * (layout.bytes_offset - format::kSparseBitsOffset); ++group) {
    if (((bits[group / 8] >> (group % 8)) & 1) == 0) continue;
    if (group >= layout.groups || next == layout.bytes_end || payload[next] == 0) return false;
    for (uint32_t k = 0; k < format::kSparseGroup; ++k) {
      if (((payload[next] >> k) & 1) == 0) continue;
      const uint32_t j = format::kSparseGroup * group + k;
      if (j >= layout.elements) return false;
      (*zero)[j] = false;
      ++elements;
    }
    ++next;
  }
  return next == layout.bytes_end && elements == counts.elements;
}

/// bytes ^= base.
inline void XorBytes(const uint8_t* base, std::vector<uint8_t>* bytes) {
  for (size_t i = 0; i < bytes->size(); ++i) {
    (*bytes)[i] = static_cast<uint8_t>((*bytes)[i] ^ base[i]);
  }
}

}  // namespace cinch::codec::reference
