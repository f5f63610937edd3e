// SPDX-License-Identifier: Apache-2.0
// Planes of 1, 2 and 4 bits (docs/format.md, section 5.1): values of one byte each to and from
// packed bits.
#if defined(CINCH_CODEC_CPU_PLANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODEC_CPU_PLANES_INL_H_
#undef CINCH_CODEC_CPU_PLANES_INL_H_
#else
#define CINCH_CODEC_CPU_PLANES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "codec/cpu/chunk.h"
#include "codec/cpu/vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codec::cpu {
namespace HWY_NAMESPACE {

/// In each even byte: a | b << kBits for the pair of bytes a, b, of kBits bits each.
template <int kBits>
HWY_INLINE VecBytes FoldPairs(VecBytes v) {
  const auto pairs = hn::BitCast(Lanes<uint16_t>(), v);
  return hn::BitCast(kD8, hn::Or(pairs, hn::ShiftRight<8 - kBits>(pairs)));
}

/// Two vectors to one whose bytes have twice as many bits.
template <int kBits>
HWY_INLINE VecBytes PackPairs(VecBytes lower, VecBytes upper) {
  return hn::ConcatEven(kD8, FoldPairs<kBits>(upper), FoldPairs<kBits>(lower));
}

/// A vector of 2-bit codes to kVectorBytes / 4 bytes.
HWY_INLINE void StoreCrumbs(VecBytes codes, uint8_t* to) {
  const Lanes<uint32_t> d32;
  auto x = hn::BitCast(d32, codes);
  x = hn::Or(x, hn::ShiftRight<6>(x));   // codes 0 and 1 in bits 0-3, codes 2 and 3 in 16-19
  x = hn::Or(x, hn::ShiftRight<12>(x));  // all in bits 0-7
#if HWY_TARGET == HWY_AVX3_DL
  // Highway 1.0.3 has a bug here: its TruncateTo permutes 32-bit lanes by indices of bytes.
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(x.raw));
#else
  const hn::Rebind<uint8_t, Lanes<uint32_t>> d_packed;
  hn::StoreU(hn::TruncateTo(d_packed, x), d_packed, to);
#endif
}

/// The inverse of StoreCrumbs.
HWY_INLINE VecBytes LoadCrumbs(const uint8_t* from) {
#if HWY_TARGET == HWY_AVX3_DL
  // Each 16 bits to a 64-bit lane, and from there 8 bits from every second bit on to each byte.
  const __m512i words =
      _mm512_cvtepu16_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  const __m512i shifts = _mm512_set1_epi64(0x0E0C0A0806040200);
  const VecBytes codes{_mm512_multishift_epi64_epi8(shifts, words)};
  return hn::And(codes, hn::Set(kD8, 3));
#else
  const Lanes<uint32_t> d32;
  const hn::Rebind<uint8_t, Lanes<uint32_t>> d_packed;
  auto x = hn::PromoteTo(d32, hn::LoadU(d_packed, from));
  x = hn::Or(x, hn::ShiftLeft<12>(x));
  x = hn::And(hn::Or(x, hn::ShiftLeft<6>(x)), hn::Set(d32, 0x03030303));
  return hn::BitCast(kD8, x);
#endif
}

/// A full chunk's plane of kWidth bits: bits kShift up of each value.
template <uint32_t kWidth, uint32_t kShift>
inline void PackPlane(const uint8_t* values, uint8_t* plane) {
  if constexpr (kWidth == 1) {
    const VecBytes bit = hn::Set(kD8, static_cast<uint8_t>(1U << kShift));
    for (uint32_t j = 0; j < kChunk; j += kVectorBytes) {
      hn::StoreMaskBits(kD8, hn::TestBit(hn::Load(kD8, values + j), bit), plane + j / 8);
    }
  } else {
    static_assert(kShift == 0);
    const VecBytes mask = hn::Set(kD8, static_cast<uint8_t>((1U << kWidth) - 1));
    constexpr uint32_t kStep = 8 / kWidth * kVectorBytes;
    for (uint32_t j = 0; j < kChunk; j += kStep) {
      VecBytes v[8 / kWidth];
      for (uint32_t i = 0; i < 8 / kWidth; ++i) {
        v[i] = hn::And(hn::Load(kD8, values + j + i * kVectorBytes), mask);
      }
      VecBytes packed = PackPairs<kWidth>(v[0], v[1]);
      if constexpr (kWidth == 2) packed = PackPairs<4>(packed, PackPairs<2>(v[2], v[3]));
      hn::StoreU(packed, kD8, plane + j * kWidth / 8);
    }
  }
}

/// The inverse of PackPlane: ORs into the values when kShift is not 0.
template <uint32_t kWidth, uint32_t kShift>
inline void UnpackPlane(const uint8_t* plane, uint8_t* values) {
  for (uint32_t j = 0; j < kChunk; j += kVectorBytes) {
    VecBytes v;
    if constexpr (kWidth == 1) {
      const VecBytes bit = hn::Set(kD8, static_cast<uint8_t>(1U << kShift));
      v = hn::IfThenElseZero(hn::LoadMaskBits(kD8, plane + j / 8), bit);
      if constexpr (kShift != 0) v = hn::Or(v, hn::Load(kD8, values + j));
    } else if constexpr (kWidth == 2) {
      v = LoadCrumbs(plane + j / 4);
    } else {
      const Lanes<uint16_t> d16;
      const hn::Rebind<uint8_t, Lanes<uint16_t>> d_packed;
      auto x = hn::PromoteTo(d16, hn::LoadU(d_packed, plane + j / 2));
      x = hn::And(hn::Or(x, hn::ShiftLeft<4>(x)), hn::Set(d16, 0x0F0F));
      v = hn::BitCast(kD8, x);
    }
    hn::Store(v, kD8, values + j);
  }
}

/// Packs the plane of a chunk of `count` values, those behind them being 0.
template <uint32_t kWidth, uint32_t kShift>
inline void PackPlaneOf(const uint8_t* values, uint32_t count, uint8_t* plane) {
  if (count == kChunk) {
    PackPlane<kWidth, kShift>(values, plane);
    return;
  }
  uint8_t whole[kWidth * kChunk / 8];
  PackPlane<kWidth, kShift>(values, whole);
  std::memcpy(plane, whole, (kWidth * count + 7) / 8);
}

/// Copies the plane of a chunk of `count` values, fewer than kChunk, and clears those behind them.
/// False when a reserved bit is set.
template <uint32_t kWidth>
[[nodiscard]] inline bool CopyPartialPlane(const uint8_t* plane, uint32_t count, uint8_t* whole) {
  const uint32_t plane_bytes = (kWidth * count + 7) / 8;
  std::memcpy(whole, plane, plane_bytes);
  std::memset(whole + plane_bytes, 0, kWidth * kChunk / 8 - plane_bytes);
  const uint32_t last_bits = kWidth * count % 8;
  return last_bits == 0 || whole[plane_bytes - 1] >> last_bits == 0;
}

/// Unpacks the plane of a chunk of `count` values and clears those behind them. False when a
/// reserved bit is set.
template <uint32_t kWidth, uint32_t kShift>
[[nodiscard]] inline bool UnpackPlaneOf(const uint8_t* plane, uint32_t count, uint8_t* values) {
  if (count == kChunk) {
    UnpackPlane<kWidth, kShift>(plane, values);
    return true;
  }
  uint8_t whole[kWidth * kChunk / 8];
  if (!CopyPartialPlane<kWidth>(plane, count, whole)) return false;
  UnpackPlane<kWidth, kShift>(whole, values);
  return true;
}

/// The planes of a block's field of 1 to 4 bits: level-0 codes, or the residue's bits that fill no
/// byte plane.
template <typename Byte>
struct SmallField {
  uint32_t bits;
  Byte* low;   ///< Nibbles of 4 bits, crumbs of 2 or 3; nothing of 1.
  Byte* high;  ///< The plane of single bits: the one bit of 1, bit 2 of 3.

  /// The field whose planes begin at `planes`, of `elements` elements.
  static SmallField At(uint32_t bits, Byte* planes, uint32_t elements) {
    return {bits, planes, planes + format::FieldBytes(bits & 6, elements)};
  }
  /// The same from element `first` on, a multiple of 8.
  SmallField From(uint32_t first) const {
    return {bits, low + (bits & 6) * first / 8, high + (bits & 1) * first / 8};
  }
};

/// Packs `count` values of a chunk, those behind them being 0, to where `field` begins.
inline void PackSmallField(const uint8_t* values, uint32_t count,
                           const SmallField<uint8_t>& field) {
  switch (field.bits) {
    case 1:
      PackPlaneOf<1, 0>(values, count, field.high);
      break;
    case 4:
      PackPlaneOf<4, 0>(values, count, field.low);
      break;
    case 3:
      PackPlaneOf<1, 2>(values, count, field.high);
      [[fallthrough]];
    default:
      PackPlaneOf<2, 0>(values, count, field.low);
  }
}

/// Unpacks what the residue has of such bits, 3 or 4 of them.
[[nodiscard]] inline bool UnpackLowBits(const SmallField<const uint8_t>& field, uint32_t count,
                                        uint8_t* values) {
  if (field.bits == 4) return UnpackPlaneOf<4, 0>(field.low, count, values);
  return UnpackPlaneOf<2, 0>(field.low, count, values) &&
         UnpackPlaneOf<1, 2>(field.high, count, values);
}

}  // namespace HWY_NAMESPACE
}  // namespace cinch::codec::cpu
HWY_AFTER_NAMESPACE();

#endif
