// SPDX-License-Identifier: Apache-2.0
// Vectors of bytes, and what Highway 1.0.3 lacks for them: interleaving of whole vectors.
#if defined(CINCH_CODEC_CPU_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODEC_CPU_VECTORS_INL_H_
#undef CINCH_CODEC_CPU_VECTORS_INL_H_
#else
#define CINCH_CODEC_CPU_VECTORS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codec::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Lanes = hn::ScalableTag<T>;
inline constexpr Lanes<uint8_t> kD8{};
using VecBytes = hn::Vec<Lanes<uint8_t>>;
inline constexpr uint32_t kVectorBytes = hn::MaxLanes(kD8);

#if HWY_TARGET == HWY_AVX3_DL
/// Which lanes of two vectors make up the two zipped ones; those of the second count from the
/// number of lanes on.
template <typename T>
struct ZipOrder {
  static constexpr uint32_t kLanes = kVectorBytes / sizeof(T);
  alignas(64) T first[kLanes];
  alignas(64) T second[kLanes];

  constexpr ZipOrder() : first(), second() {
    for (uint32_t i = 0; i < kLanes; ++i) {
      first[i] = static_cast<T>(i / 2 + i % 2 * kLanes);
      second[i] = static_cast<T>(first[i] + kLanes / 2);
    }
  }
};
template <typename T>
inline constexpr ZipOrder<T> kZipOrder;
#endif

/// a0 b0 a1 b1 ... of two vectors of T, in two vectors.
template <typename T>
HWY_INLINE void Zip(VecBytes a, VecBytes b, VecBytes* first, VecBytes* second) {
  const Lanes<T> d;
#if HWY_TARGET == HWY_AVX3_DL
  const auto low = hn::Load(d, kZipOrder<T>.first);
  const auto high = hn::Load(d, kZipOrder<T>.second);
  if constexpr (sizeof(T) == 1) {
    first->raw = _mm512_permutex2var_epi8(a.raw, low.raw, b.raw);
    second->raw = _mm512_permutex2var_epi8(a.raw, high.raw, b.raw);
  } else if constexpr (sizeof(T) == 2) {
    first->raw = _mm512_permutex2var_epi16(a.raw, low.raw, b.raw);
    second->raw = _mm512_permutex2var_epi16(a.raw, high.raw, b.raw);
  } else {
    first->raw = _mm512_permutex2var_epi32(a.raw, low.raw, b.raw);
    second->raw = _mm512_permutex2var_epi32(a.raw, high.raw, b.raw);
  }
#else
  // Highway interleaves within 128-bit blocks; there are one or two of them.
  static_assert(kVectorBytes <= 32);
  const VecBytes lower =
      hn::BitCast(kD8, hn::InterleaveLower(d, hn::BitCast(d, a), hn::BitCast(d, b)));
  const VecBytes upper =
      hn::BitCast(kD8, hn::InterleaveUpper(d, hn::BitCast(d, a), hn::BitCast(d, b)));
  if constexpr (kVectorBytes == 16) {
    *first = lower;
    *second = upper;
  } else {
    *first = hn::ConcatLowerLower(kD8, upper, lower);
    *second = hn::ConcatUpperUpper(kD8, upper, lower);
  }
#endif
}

/// Vectors of consecutive elements of kBytes bytes -> for each byte of the element a vector.
template <uint32_t kBytes>
HWY_INLINE void Deinterleave(const VecBytes* words, VecBytes* streams) {
  if constexpr (kBytes == 1) {
    streams[0] = words[0];
  } else {
    constexpr uint32_t kHalf = kBytes / 2;
    const Lanes<hwy::UnsignedFromSize<kHalf>> d;
    VecBytes low[kHalf];
    VecBytes high[kHalf];
    for (uint32_t i = 0; i < kHalf; ++i) {
      const auto lower = hn::BitCast(d, words[2 * i]);
      const auto upper = hn::BitCast(d, words[2 * i + 1]);
      low[i] = hn::BitCast(kD8, hn::ConcatEven(d, upper, lower));
      high[i] = hn::BitCast(kD8, hn::ConcatOdd(d, upper, lower));
    }
    Deinterleave<kHalf>(low, streams);
    Deinterleave<kHalf>(high, streams + kHalf);
  }
}

/// The inverse of Deinterleave.
template <uint32_t kBytes>
HWY_INLINE void Interleave(const VecBytes* streams, VecBytes* words) {
  if constexpr (kBytes == 1) {
    words[0] = streams[0];
  } else {
    constexpr uint32_t kHalf = kBytes / 2;
    VecBytes low[kHalf];
    VecBytes high[kHalf];
    Interleave<kHalf>(streams, low);
    Interleave<kHalf>(streams + kHalf, high);
    for (uint32_t i = 0; i < kHalf; ++i) {
      Zip<hwy::UnsignedFromSize<kHalf>>(low[i], high[i], &words[2 * i], &words[2 * i + 1]);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cinch::codec::cpu
HWY_AFTER_NAMESPACE();

#endif
