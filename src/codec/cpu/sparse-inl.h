// SPDX-License-Identifier: Apache-2.0
// Sparse blocks (docs/format.md, section 5.4): elements that are not zero to a dense run of bytes
// and a bit for each element, and back.
#if defined(CINCH_CODEC_CPU_SPARSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODEC_CPU_SPARSE_INL_H_
#undef CINCH_CODEC_CPU_SPARSE_INL_H_
#else
#define CINCH_CODEC_CPU_SPARSE_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "codec/cpu/chunk.h"
#include "codec/cpu/lists-inl.h"
#include "codec/cpu/vectors-inl.h"
#include "format/layout.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codec::cpu {
namespace HWY_NAMESPACE {

/// A block's bytes, with room for whole vectors behind them.
struct alignas(64) BlockBytes {
  uint8_t at[format::kBlockBytes + kVectorSlack];
};

/// A bit for each element of a block: bit k of byte g is element k of group g.
struct alignas(64) ElementMap {
  uint8_t at[format::kBlockBytes / format::kSparseGroup + kVectorSlack];
};

inline void XorInto(const uint8_t* a, const uint8_t* b, uint32_t size_bytes, uint8_t* to) {
  uint32_t i = 0;
  for (; i + kVectorBytes <= size_bytes; i += kVectorBytes) {
    hn::StoreU(hn::Xor(hn::LoadU(kD8, a + i), hn::LoadU(kD8, b + i)), kD8, to + i);
  }
  for (; i < size_bytes; ++i) to[i] = static_cast<uint8_t>(a[i] ^ b[i]);
}

/// One group of up to 8 elements of kBytes bytes: appends those that are not zero to `*to`.
template <uint32_t kBytes>
HWY_INLINE uint8_t GatherGroup(const uint8_t* bytes, uint32_t count, uint8_t** to) {
  uint32_t map = 0;
  for (uint32_t k = 0; k < count; ++k) {
    uint64_t element = 0;
    std::memcpy(&element, bytes + k * kBytes, kBytes);
    if (element == 0) continue;
    map |= 1U << k;
    std::memcpy(*to, &element, kBytes);
    *to += kBytes;
  }
  return static_cast<uint8_t>(map);
}

/// The elements that are not zero to `to`, and where they are. May write a whole vector past their
/// end, and so may the map. Returns the number of bytes.
template <uint32_t kBytes>
uint32_t GatherElements(const uint8_t* bytes, uint32_t elements, uint8_t* to, ElementMap* map) {
  constexpr uint32_t kLanes = kVectorBytes / kBytes;
  uint8_t* const begin = to;
  uint32_t j = 0;
  if constexpr (kLanes >= format::kSparseGroup) {
    using T = hwy::UnsignedFromSize<kBytes>;
    const Lanes<T> d;
    for (; j + kLanes <= elements; j += kLanes) {
      const VecBytes lanes = hn::LoadU(kD8, bytes + size_t{j} * kBytes);
      const auto v = hn::BitCast(d, lanes);
      const auto mask = hn::Ne(v, hn::Zero(d));
      hn::StoreMaskBits(d, mask, map->at + j / 8);
      if constexpr (kBytes == 1) {
        to += CompressTo(lanes, mask, to);
      } else {
        hn::StoreU(hn::BitCast(kD8, hn::Compress(v, mask)), kD8, to);
        to += kBytes * hn::CountTrue(d, mask);
      }
    }
  }
  for (; j < elements; j += format::kSparseGroup) {
    const uint32_t left = elements - j;
    map->at[j / 8] = GatherGroup<kBytes>(bytes + size_t{j} * kBytes, left < 8 ? left : 8, &to);
  }
  return static_cast<uint32_t>(to - begin);
}

/// The inverse: elements not in the map become zero. Reads a whole vector past what there is.
template <uint32_t kBytes>
void ScatterElements(const uint8_t* from, const ElementMap& map, uint32_t elements,
                     uint8_t* bytes) {
  uint32_t j = 0;
#if HWY_TARGET == HWY_AVX3_DL
  constexpr uint32_t kLanes = kVectorBytes / kBytes;
  for (; j + kLanes <= elements; j += kLanes) {
    uint64_t mask = 0;
    std::memcpy(&mask, map.at + j / 8, kLanes / 8);
    const __m512i next = _mm512_loadu_si512(from);
    __m512i v;
    if constexpr (kBytes == 1) {
      v = _mm512_maskz_expand_epi8(mask, next);
    } else if constexpr (kBytes == 2) {
      v = _mm512_maskz_expand_epi16(static_cast<__mmask32>(mask), next);
    } else if constexpr (kBytes == 4) {
      v = _mm512_maskz_expand_epi32(static_cast<__mmask16>(mask), next);
    } else {
      v = _mm512_maskz_expand_epi64(static_cast<__mmask8>(mask), next);
    }
    _mm512_storeu_si512(bytes + size_t{j} * kBytes, v);
    from += kBytes * hwy::PopCount(mask);
  }
#endif
  std::memset(bytes + size_t{j} * kBytes, 0, size_t{elements - j} * kBytes);
  for (; j < elements; j += format::kSparseGroup) {
    for (uint32_t bits = map.at[j / 8]; bits != 0; bits &= bits - 1) {
      const auto k = static_cast<uint32_t>(hwy::Num0BitsBelowLS1Bit_Nonzero32(bits));
      std::memcpy(bytes + size_t{j + k} * kBytes, from, kBytes);
      from += kBytes;
    }
  }
}

inline uint32_t GatherElementsOf(uint32_t element_bytes, const uint8_t* bytes, uint32_t elements,
                                 uint8_t* to, ElementMap* map) {
  switch (element_bytes) {
    case 1:
      return GatherElements<1>(bytes, elements, to, map);
    case 2:
      return GatherElements<2>(bytes, elements, to, map);
    case 4:
      return GatherElements<4>(bytes, elements, to, map);
    default:
      return GatherElements<8>(bytes, elements, to, map);
  }
}

inline void ScatterElementsOf(uint32_t element_bytes, const uint8_t* from, const ElementMap& map,
                              uint32_t elements, uint8_t* bytes) {
  switch (element_bytes) {
    case 1:
      return ScatterElements<1>(from, map, elements, bytes);
    case 2:
      return ScatterElements<2>(from, map, elements, bytes);
    case 4:
      return ScatterElements<4>(from, map, elements, bytes);
    default:
      return ScatterElements<8>(from, map, elements, bytes);
  }
}

/// The map of `groups` groups as a sparse block has it: bits at `bits`, bytes right behind them,
/// which may overwrite a vector more. Returns the number of bytes.
inline uint32_t PackMap(const ElementMap& map, uint32_t groups, uint8_t* bits) {
  const auto bit_bytes = static_cast<uint32_t>(format::CeilDivide(groups, 8));
  uint8_t* const bytes = bits + bit_bytes;
  alignas(64) uint8_t all_bits[format::kBlockBytes / 64 + kVectorSlack];
  uint32_t count = 0;
  for (uint32_t g = 0; g < groups; g += kVectorBytes) {
    const VecBytes v = hn::IfThenElseZero(FirstLanes(groups - g), hn::Load(kD8, map.at + g));
    const MaskBytes mask = hn::Ne(v, hn::Zero(kD8));
    hn::StoreMaskBits(kD8, mask, all_bits + g / 8);
    count += CompressTo(v, mask, bytes + count);
  }
  std::memcpy(bits, all_bits, bit_bytes);
  return count;
}

/// The inverse of PackMap for maps that are valid. Reads a whole vector past the bytes.
inline void UnpackMap(const uint8_t* bits, uint32_t groups, const uint8_t* bytes, ElementMap* map) {
  alignas(64) uint8_t all_bits[format::kBlockBytes / 64 + kVectorSlack] = {};
  std::memcpy(all_bits, bits, format::CeilDivide(groups, 8));
#if HWY_TARGET == HWY_AVX3_DL
  for (uint32_t g = 0; g < groups; g += kVectorBytes) {
    uint64_t mask;
    std::memcpy(&mask, all_bits + g / 8, 8);
    _mm512_store_si512(map->at + g, _mm512_maskz_expand_epi8(mask, _mm512_loadu_si512(bytes)));
    bytes += hwy::PopCount(mask);
  }
#else
  ExpandList(all_bits, groups, bytes, map->at);
  for (uint32_t g = 0; g < groups; g += kVectorBytes) {
    const MaskBytes mask = hn::LoadMaskBits(kD8, all_bits + g / 8);
    hn::Store(hn::IfThenElseZero(mask, hn::Load(kD8, map->at + g)), kD8, map->at + g);
  }
#endif
}

inline uint32_t CountBitsIn(const uint8_t* bytes, uint32_t size_bytes) {
  uint32_t count = 0;
  uint32_t i = 0;
  for (; i + 8 <= size_bytes; i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes + i, 8);
    count += static_cast<uint32_t>(hwy::PopCount(word));
  }
  for (; i < size_bytes; ++i) count += static_cast<uint32_t>(hwy::PopCount(uint64_t{bytes[i]}));
  return count;
}

/// Whether the bitmaps of a payload bear out its counts, for counts that its size allows.
inline bool MapIsValid(const uint8_t* payload, const format::SparseLayout& layout,
                       const format::SparseCounts& counts) {
  const uint8_t* bits = payload + format::kSparseBitsOffset;
  const uint32_t bit_bytes = layout.bytes_offset - format::kSparseBitsOffset;
  const uint8_t* bytes = payload + layout.bytes_offset;
  const uint32_t last_bits = layout.groups % 8;
  const bool has_last = ((bits[(layout.groups - 1) / 8] >> ((layout.groups - 1) % 8)) & 1) != 0;
  const uint32_t last_elements = layout.elements % format::kSparseGroup;
  uint32_t empty = 0;
  for (uint32_t i = 0; i < counts.groups; ++i) empty += bytes[i] == 0 ? 1 : 0;
  return empty == 0 && CountBitsIn(bits, bit_bytes) == counts.groups &&
         CountBitsIn(bytes, counts.groups) == counts.elements &&
         (last_bits == 0 || bits[bit_bytes - 1] >> last_bits == 0) &&
         (last_elements == 0 || !has_last || bytes[counts.groups - 1] >> last_elements == 0);
}

}  // namespace HWY_NAMESPACE
}  // namespace cinch::codec::cpu
HWY_AFTER_NAMESPACE();

#endif
