// SPDX-License-Identifier: Apache-2.0
// Chunks of elements to symbols and residue planes, and back (docs/format.md, section 3).
#if defined(CINCH_CODEC_CPU_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODEC_CPU_ELEMENTS_INL_H_
#undef CINCH_CODEC_CPU_ELEMENTS_INL_H_
#else
#define CINCH_CODEC_CPU_ELEMENTS_INL_H_
#endif

#include <cstdint>

#include "codec/cpu/chunk.h"
#include "codec/cpu/element.h"
#include "codec/cpu/vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codec::cpu {
namespace HWY_NAMESPACE {

/// Brings the elements in a vector into split order: symbol << R | residue.
template <uint32_t kDtype>
HWY_INLINE VecBytes ToSplitOrder(VecBytes v) {
  using E = Element<kDtype>;
  if constexpr (E::kRotated) {
    const Lanes<uint32_t> d;
    return hn::BitCast(kD8, hn::RotateRight<31>(hn::BitCast(d, v)));
  } else if constexpr (E::kMovesSign) {
    using T = hwy::UnsignedFromSize<E::kBytes>;
    const Lanes<T> d;
    const auto x = hn::BitCast(d, v);
    constexpr T kMantissa = (T{1} << (E::kResidueBits - 1)) - 1;
    constexpr T kSign = T{1} << (E::kResidueBits - 1);
    constexpr T kSymbol = T{0xFF} << E::kResidueBits;
    return hn::BitCast(kD8, hn::Or3(hn::And(x, hn::Set(d, kMantissa)),
                                    hn::And(hn::ShiftRight<8>(x), hn::Set(d, kSign)),
                                    hn::And(hn::Add(x, x), hn::Set(d, kSymbol))));
  } else {
    return v;
  }
}

/// The inverse of ToSplitOrder.
template <uint32_t kDtype>
HWY_INLINE VecBytes FromSplitOrder(VecBytes v) {
  using E = Element<kDtype>;
  if constexpr (E::kRotated) {
    const Lanes<uint32_t> d;
    return hn::BitCast(kD8, hn::RotateRight<1>(hn::BitCast(d, v)));
  } else if constexpr (E::kMovesSign) {
    using T = hwy::UnsignedFromSize<E::kBytes>;
    const Lanes<T> d;
    const auto x = hn::BitCast(d, v);
    constexpr T kMantissa = (T{1} << (E::kResidueBits - 1)) - 1;
    constexpr T kSign = T{1} << (8 * E::kBytes - 1);
    constexpr T kSymbol = T{0xFF} << (E::kResidueBits - 1);
    return hn::BitCast(kD8, hn::Or3(hn::And(x, hn::Set(d, kMantissa)),
                                    hn::And(hn::ShiftLeft<8>(x), hn::Set(d, kSign)),
                                    hn::And(hn::ShiftRight<1>(x), hn::Set(d, kSymbol))));
  } else {
    return v;
  }
}

/// Splits the 1024 elements at `bytes`. A plane's pointer may be the same as another's when its
/// contents are not wanted.
template <uint32_t kDtype>
void SplitElements(const uint8_t* bytes, const PlanePointers& planes, SplitChunk* chunk) {
  using E = Element<kDtype>;
  for (uint32_t j = 0; j < kChunk; j += kVectorBytes) {
    VecBytes words[E::kBytes];
    for (uint32_t i = 0; i < E::kBytes; ++i) {
      words[i] =
          ToSplitOrder<kDtype>(hn::LoadU(kD8, bytes + size_t{j} * E::kBytes + i * kVectorBytes));
    }
    VecBytes streams[E::kBytes];
    Deinterleave<E::kBytes>(words, streams);
    for (uint32_t plane = 0; plane < E::kPlanes; ++plane) {
      hn::StoreU(streams[plane], kD8, planes.at[plane] + j);
    }
    const VecBytes top = streams[E::kBytes - 1];
    if constexpr (E::kLowBits == 0) {
      hn::Store(top, kD8, chunk->symbols.at + j);
    } else {
      constexpr uint8_t kLowMask = (1U << E::kLowBits) - 1;
      hn::Store(hn::ShiftRight<E::kLowBits>(top), kD8, chunk->symbols.at + j);
      hn::Store(hn::And(top, hn::Set(kD8, kLowMask)), kD8, chunk->low_bits.at + j);
    }
  }
}

/// The inverse of SplitElements: writes exactly 1024 elements to `bytes`.
template <uint32_t kDtype>
void JoinElements(const SplitChunk& chunk, const ConstPlanePointers& planes, uint8_t* bytes) {
  using E = Element<kDtype>;
  for (uint32_t j = 0; j < kChunk; j += kVectorBytes) {
    VecBytes streams[E::kBytes];
    for (uint32_t plane = 0; plane < E::kPlanes; ++plane) {
      streams[plane] = hn::LoadU(kD8, planes.at[plane] + j);
    }
    VecBytes top = hn::Load(kD8, chunk.symbols.at + j);
    if constexpr (E::kLowBits != 0) {
      top = hn::Or(hn::ShiftLeft<E::kLowBits>(top), hn::Load(kD8, chunk.low_bits.at + j));
    }
    streams[E::kBytes - 1] = top;
    VecBytes words[E::kBytes];
    Interleave<E::kBytes>(streams, words);
    for (uint32_t i = 0; i < E::kBytes; ++i) {
      hn::StoreU(FromSplitOrder<kDtype>(words[i]), kD8,
                 bytes + size_t{j} * E::kBytes + i * kVectorBytes);
    }
  }
}

/// The OR and the AND of elements in split order.
struct ElementBits {
  uint64_t any = 0;
  uint64_t all = ~uint64_t{0};
};

/// The bits of all elements of a block.
template <uint32_t kDtype>
ElementBits ScanElements(const uint8_t* bytes, uint32_t length_bytes) {
  using E = Element<kDtype>;
  using T = hwy::UnsignedFromSize<E::kBytes>;
  VecBytes any = hn::Zero(kD8);
  VecBytes all = hn::Not(any);
  uint32_t at = 0;
  for (; at + kVectorBytes <= length_bytes; at += kVectorBytes) {
    const VecBytes words = ToSplitOrder<kDtype>(hn::LoadU(kD8, bytes + at));
    any = hn::Or(any, words);
    all = hn::And(all, words);
  }
  alignas(64) T any_lanes[kVectorBytes / sizeof(T)];
  alignas(64) T all_lanes[kVectorBytes / sizeof(T)];
  hn::Store(hn::BitCast(Lanes<T>(), any), Lanes<T>(), any_lanes);
  hn::Store(hn::BitCast(Lanes<T>(), all), Lanes<T>(), all_lanes);
  ElementBits bits;
  for (const T lane : any_lanes) bits.any |= lane;
  for (const T lane : all_lanes) bits.all &= lane;
  const uint32_t word_elements = WordElements(E::kBytes, length_bytes);
  for (uint32_t j = at / E::kBytes; j < length_bytes / E::kBytes; ++j) {
    const uint64_t element = LoadSplitOrder<kDtype>(bytes, j, word_elements);
    bits.any |= element;
    bits.all &= element;
  }
  return bits;
}

/// What of the codec depends on the dtype beyond its traits.
struct ElementFunctions {
  void (*split)(const uint8_t* bytes, const PlanePointers& planes, SplitChunk* chunk);
  void (*join)(const SplitChunk& chunk, const ConstPlanePointers& planes, uint8_t* bytes);
  ElementBits (*scan)(const uint8_t* bytes, uint32_t length_bytes);
};

template <uint32_t kDtype>
struct ElementFunctionsOf {
  static constexpr ElementFunctions kValue = {SplitElements<kDtype>, JoinElements<kDtype>,
                                              ScanElements<kDtype>};
};

inline ElementFunctions FunctionsOf(uint32_t dtype) {
  return SelectByDtype<ElementFunctionsOf, ElementFunctions>(dtype);
}

}  // namespace HWY_NAMESPACE
}  // namespace cinch::codec::cpu
HWY_AFTER_NAMESPACE();

#endif
