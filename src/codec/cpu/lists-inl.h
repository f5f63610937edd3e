// SPDX-License-Identifier: Apache-2.0
// Dense lists of bytes: the elements that escaped, in order. Compress makes a list, expand puts its
// entries back to their places.
#if defined(CINCH_CODEC_CPU_LISTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODEC_CPU_LISTS_INL_H_
#undef CINCH_CODEC_CPU_LISTS_INL_H_
#else
#define CINCH_CODEC_CPU_LISTS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "codec/cpu/compress_tables.h"
#include "codec/cpu/vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codec::cpu {
namespace HWY_NAMESPACE {

using MaskBytes = hn::Mask<Lanes<uint8_t>>;

/// The first `count` lanes, or all when there are fewer.
HWY_INLINE MaskBytes FirstLanes(uint32_t count) {
  return hn::FirstN(kD8, count < kVectorBytes ? count : kVectorBytes);
}

/// Writes the lanes of `v` that `mask` picks to `to`, in order, and returns their number. May write
/// a whole vector.
HWY_INLINE uint32_t CompressTo(VecBytes v, MaskBytes mask, uint8_t* to) {
#if HWY_TARGET == HWY_AVX3_DL
  // Not CompressStore: compressing into memory is microcoded on Zen.
  const VecBytes packed{_mm512_maskz_compress_epi8(mask.raw, v.raw)};
  hn::StoreU(packed, kD8, to);
  return static_cast<uint32_t>(hwy::PopCount(static_cast<uint64_t>(mask.raw)));
#elif HWY_TARGET == HWY_EMU128
  alignas(16) uint8_t lanes[kVectorBytes];
  uint8_t bits[8] = {};
  hn::Store(v, kD8, lanes);
  hn::StoreMaskBits(kD8, mask, bits);
  uint32_t count = 0;
  for (uint32_t i = 0; i < kVectorBytes; ++i) {
    to[count] = lanes[i];
    count += (bits[i / 8] >> (i % 8)) & 1U;
  }
  return count;
#else
  const hn::CappedTag<uint8_t, 8> d;
  alignas(64) uint8_t lanes[kVectorBytes];
  uint8_t bits[8] = {};
  hn::Store(v, kD8, lanes);
  hn::StoreMaskBits(kD8, mask, bits);
  uint32_t count = 0;
  for (uint32_t i = 0; i < kVectorBytes / 8; ++i) {
    const auto order = hn::LoadU(d, kCompressTables.compress[bits[i]]);
    hn::StoreU(hn::TableLookupBytes(hn::Load(d, lanes + 8 * i), order), d, to + count);
    count += static_cast<uint32_t>(hwy::PopCount(uint64_t{bits[i]}));
  }
  return count;
#endif
}

/// How many of the 2-bit codes in `size_bytes` bytes are 3. Reads whole vectors.
inline uint32_t CountFullCrumbs(const uint8_t* bytes, uint32_t size_bytes) {
#if HWY_TARGET == HWY_AVX3_DL
  const __m512i low_bits = _mm512_set1_epi8(0x55);
  __m512i counts = _mm512_setzero_si512();
  for (uint32_t i = 0; i < size_bytes; i += kVectorBytes) {
    const __m512i codes = _mm512_maskz_loadu_epi8(FirstLanes(size_bytes - i).raw, bytes + i);
    const __m512i full = _mm512_ternarylogic_epi64(codes, _mm512_srli_epi64(codes, 1), low_bits,
                                                   0x80);  // the AND of all three
    counts = _mm512_add_epi64(counts, _mm512_popcnt_epi64(full));
  }
  return static_cast<uint32_t>(_mm512_reduce_add_epi64(counts));
#else
  uint32_t total = 0;
  for (uint32_t i = 0; i < size_bytes; i += 8) {
    uint64_t codes;
    std::memcpy(&codes, bytes + i, 8);
    if (size_bytes - i < 8) codes &= (uint64_t{1} << (8 * (size_bytes - i))) - 1;
    total += static_cast<uint32_t>(hwy::PopCount(codes & (codes >> 1) & 0x5555555555555555));
  }
  return total;
#endif
}

#if HWY_TARGET != HWY_AVX3_DL
/// out[j] = next entry of `list` where bit j is set, for j below `count`; other bytes are
/// unspecified. Reads up to 8 bytes past the list and writes up to 8 past the end. Returns the next
/// entry.
inline const uint8_t* ExpandList(const uint8_t* bits, uint32_t count, const uint8_t* list,
                                 uint8_t* out) {
#if HWY_TARGET == HWY_EMU128
  for (uint32_t j = 0; j < count; ++j) {
    out[j] = *list;
    list += (bits[j / 8] >> (j % 8)) & 1U;
  }
#else
  const hn::CappedTag<uint8_t, 8> d;
  for (uint32_t j = 0; j < count; j += 8) {
    const uint8_t mask = bits[j / 8];
    const auto order = hn::LoadU(d, kCompressTables.expand[mask]);
    hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, list), order), d, out + j);
    list += hwy::PopCount(uint64_t{mask});
  }
#endif
  return list;
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace cinch::codec::cpu
HWY_AFTER_NAMESPACE();

#endif
