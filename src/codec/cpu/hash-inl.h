// SPDX-License-Identifier: Apache-2.0
// BlockHash (docs/format.md, section 6) by SIMD.
#if defined(CINCH_CODEC_CPU_HASH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODEC_CPU_HASH_INL_H_
#undef CINCH_CODEC_CPU_HASH_INL_H_
#else
#define CINCH_CODEC_CPU_HASH_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "format/block_hash.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codec::cpu {
namespace HWY_NAMESPACE {

/// The terms of the whole pairs of words from `first_byte` on that do not fill a vector.
inline uint64_t HashEnd(const uint8_t* bytes, uint32_t length_bytes, uint32_t first_byte) {
  uint64_t sum = 0;
  for (uint32_t at = first_byte; at < length_bytes; at += 8) {
    uint32_t words[2] = {0, 0};
    const uint32_t left = length_bytes - at;
    std::memcpy(words, bytes + at, left < 8 ? left : 8);
    sum += format::HashPair(at / 8, words[0], words[1]);
  }
  return sum;
}

inline uint64_t HashBlock(const uint8_t* bytes, uint32_t length_bytes, uint64_t index) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<uint8_t> d8;
  const hn::ScalableTag<uint32_t> d32;
  const hn::ScalableTag<uint64_t> d64;
  constexpr uint32_t kStep = hn::MaxLanes(d8);
  const auto factors = hn::BitCast(d32, hn::Set(d64, uint64_t{format::kHashOddKeyFactor} << 32 |
                                                         uint64_t{format::kHashEvenKeyFactor}));
  // Lanes 1 1 2 2 3 3 ... times the factors.
  auto keys = hn::Mul(hn::ShiftRight<1>(hn::Iota(d32, 2)), factors);
  const auto next_keys = hn::Mul(hn::Set(d32, kStep / 8), factors);
  auto sum = hn::Zero(d64);
  uint32_t at = 0;
  for (; at + kStep <= length_bytes; at += kStep) {
    const auto words = hn::Add(hn::BitCast(d32, hn::LoadU(d8, bytes + at)), keys);
    const auto odd_words = hn::BitCast(d32, hn::ShiftRight<32>(hn::BitCast(d64, words)));
    sum = hn::Add(sum, hn::MulEven(words, odd_words));
    keys = hn::Add(keys, next_keys);
  }
  // By hand: the sum wraps around, which the compilers' own reductions do with signed numbers.
  alignas(64) uint64_t lanes[kStep / 8];
  hn::Store(sum, d64, lanes);
  uint64_t total = HashEnd(bytes, length_bytes, at);
  for (const uint64_t lane : lanes) total += lane;
  return format::FinishHash(total, length_bytes, index);
}

}  // namespace HWY_NAMESPACE
}  // namespace cinch::codec::cpu
HWY_AFTER_NAMESPACE();

#endif
