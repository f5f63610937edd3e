// SPDX-License-Identifier: Apache-2.0
// Fields of fewer than 8 bits in planes (docs/format.md, section 5.1) for full tiles: a full tile's
// planes are whole vectors. partial_tile.h has the rest.
#if defined(CINCH_CODEC_CPU_FIELDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODEC_CPU_FIELDS_INL_H_
#undef CINCH_CODEC_CPU_FIELDS_INL_H_
#else
#define CINCH_CODEC_CPU_FIELDS_INL_H_
#endif

#include <cstdint>

#include "codec/cpu/partial_tile.h"
#include "codec/cpu/tile.h"
#include "codec/cpu/vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codec::cpu {
namespace HWY_NAMESPACE {

inline constexpr uint32_t kHalfTile = kTile / 2;
inline constexpr uint32_t kQuarterTile = kTile / 4;

inline void PackNibbles(const uint8_t* values, uint8_t* plane) {
  for (uint32_t i = 0; i < kHalfTile; i += kVectorBytes) {
    const VecBytes low = hn::Load(kD8, values + i);
    const VecBytes high = hn::Load(kD8, values + kHalfTile + i);
    hn::StoreU(hn::Or(low, hn::ShiftLeft<4>(high)), kD8, plane + i);
  }
}

/// The low two bits of each value.
inline void PackCrumbs(const uint8_t* values, uint8_t* plane) {
  const VecBytes mask = hn::Set(kD8, 3);
  for (uint32_t i = 0; i < kQuarterTile; i += kVectorBytes) {
    const VecBytes q0 = hn::And(hn::Load(kD8, values + i), mask);
    const VecBytes q1 = hn::And(hn::Load(kD8, values + kQuarterTile + i), mask);
    const VecBytes q2 = hn::And(hn::Load(kD8, values + 2 * kQuarterTile + i), mask);
    const VecBytes q3 = hn::Load(kD8, values + 3 * kQuarterTile + i);
    const VecBytes low = hn::Or(q0, hn::ShiftLeft<2>(q1));
    const VecBytes high = hn::Or(hn::ShiftLeft<4>(q2), hn::ShiftLeft<6>(q3));
    hn::StoreU(hn::Or(low, high), kD8, plane + i);
  }
}

/// Bit kBit of each value.
template <uint8_t kBit>
inline void PackBits(const uint8_t* values, uint8_t* plane) {
  const VecBytes bit = hn::Set(kD8, static_cast<uint8_t>(1U << kBit));
  for (uint32_t j = 0; j < kTile; j += kVectorBytes) {
    hn::StoreMaskBits(kD8, hn::TestBit(hn::Load(kD8, values + j), bit), plane + j / 8);
  }
}

/// Writes the field of `bits` bits (1 to 4) of a tile's `count` values.
inline void PackField(const uint8_t* values, uint32_t count, uint32_t bits, uint8_t* planes) {
  if (count != kTile) {
    PackPartialField(values, count, bits, planes);
  } else if (bits == 4) {
    PackNibbles(values, planes);
  } else if (bits == 1) {
    PackBits<0>(values, planes);
  } else {
    PackCrumbs(values, planes);
    if (bits == 3) PackBits<2>(values, planes + kQuarterTile);
  }
}

inline void UnpackNibbles(const uint8_t* plane, uint8_t* values) {
  const VecBytes mask = hn::Set(kD8, 15);
  for (uint32_t i = 0; i < kHalfTile; i += kVectorBytes) {
    const VecBytes packed = hn::LoadU(kD8, plane + i);
    hn::Store(hn::And(packed, mask), kD8, values + i);
    hn::Store(hn::ShiftRight<4>(packed), kD8, values + kHalfTile + i);
  }
}

inline void UnpackCrumbs(const uint8_t* plane, uint8_t* values) {
  const VecBytes mask = hn::Set(kD8, 3);
  for (uint32_t i = 0; i < kQuarterTile; i += kVectorBytes) {
    const VecBytes packed = hn::LoadU(kD8, plane + i);
    hn::Store(hn::And(packed, mask), kD8, values + i);
    hn::Store(hn::And(hn::ShiftRight<2>(packed), mask), kD8, values + kQuarterTile + i);
    hn::Store(hn::And(hn::ShiftRight<4>(packed), mask), kD8, values + 2 * kQuarterTile + i);
    hn::Store(hn::ShiftRight<6>(packed), kD8, values + 3 * kQuarterTile + i);
  }
}

/// ORs a bit plane into bit kBit of the values, or sets them to it when kBit is 0.
template <uint8_t kBit>
inline void UnpackBits(const uint8_t* plane, uint8_t* values) {
  const VecBytes bit = hn::Set(kD8, static_cast<uint8_t>(1U << kBit));
  for (uint32_t j = 0; j < kTile; j += kVectorBytes) {
    VecBytes value = hn::IfThenElseZero(hn::LoadMaskBits(kD8, plane + j / 8), bit);
    if (kBit != 0) value = hn::Or(value, hn::Load(kD8, values + j));
    hn::Store(value, kD8, values + j);
  }
}

/// Reads what PackField wrote. False when a reserved bit is set.
[[nodiscard]] inline bool UnpackField(const uint8_t* planes, uint32_t count, uint32_t bits,
                                      uint8_t* values) {
  if (count != kTile) return UnpackPartialField(planes, count, bits, values);
  if (bits == 4) {
    UnpackNibbles(planes, values);
  } else if (bits == 1) {
    UnpackBits<0>(planes, values);
  } else {
    UnpackCrumbs(planes, values);
    if (bits == 3) UnpackBits<2>(planes + kQuarterTile, values);
  }
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace cinch::codec::cpu
HWY_AFTER_NAMESPACE();

#endif
