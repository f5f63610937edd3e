// SPDX-License-Identifier: Apache-2.0
/// @file fast_split.cuh
/// 16 bytes of a block, which a lane takes at once, split into residues and symbols, for the dtypes
/// that have a fast path. Device only; octet.cuh is the same for every dtype and length.
#pragma once

#include <cstdint>

#include "cinch/codec.h"
#include "codec/gpu/warp/lanes.cuh"
#include "codec/gpu/warp/pipeline.cuh"
#include "codec/gpu/warp/portable.cuh"

namespace cinch::codec::gpu {

/// What dtypes look like to a fast path.
enum class FastKind : uint32_t { kBf16, kFp16, kFp32, kFp8E4, kFp8E5, kNone };

CINCH_PORTABLE FastKind FastKindOf(uint32_t dtype) {
  switch (dtype) {
    case CINCH_DTYPE_BF16:
      return FastKind::kBf16;
    case CINCH_DTYPE_FP16:
      return FastKind::kFp16;
    case CINCH_DTYPE_FP32:
      return FastKind::kFp32;
    case CINCH_DTYPE_FP8_E4M3FN:
    case CINCH_DTYPE_FP8_E4M3FNUZ:
      return FastKind::kFp8E4;
    case CINCH_DTYPE_FP8_E5M2:
    case CINCH_DTYPE_FP8_E5M2FNUZ:
      return FastKind::kFp8E5;
    default:
      return FastKind::kNone;
  }
}

template <FastKind kKind>
struct FastTraits {
  static constexpr uint32_t kElementBytes =
      kKind == FastKind::kFp32 ? 4 : (kKind == FastKind::kBf16 || kKind == FastKind::kFp16 ? 2 : 1);
  static constexpr uint32_t kSymbolBits =
      kKind == FastKind::kFp8E4 ? 4
                                : (kKind == FastKind::kFp16 || kKind == FastKind::kFp8E5 ? 5 : 8);
  static constexpr uint32_t kResidueBits = 8 * kElementBytes - kSymbolBits;
  /// Groups of four elements in 16 bytes.
  static constexpr uint32_t kGroups = 4 / kElementBytes;
};

/// The low two bits of four bytes, gathered in the top byte.
__device__ __forceinline__ uint32_t CrumbsOnTop(uint32_t bytes) {
  return (bytes & 0x03030303) * 0x01041040;
}
/// The lowest bit of four bytes, gathered in the top four bits.
__device__ __forceinline__ uint32_t BitsOnTop(uint32_t bytes) {
  return (bytes & 0x01010101) * 0x10204080;
}
/// The top byte of each of kGroups words to a plane of crumbs, for 16-byte unit `unit`.
template <uint32_t kGroups>
__device__ __forceinline__ void StoreCrumbs(uint32_t plane, uint32_t unit,
                                            const uint32_t (&top)[kGroups], bool there) {
  if constexpr (kGroups == 1) {
    if (there) StoreShared8(plane + unit, top[0] >> 24);
  } else if constexpr (kGroups == 2) {
    if (there) StoreShared16(plane + 2 * unit, Permute(top[0], top[1], 0x0073));
  } else {
    const uint32_t low = Permute(top[0], top[1], 0x0073);
    const uint32_t high = Permute(top[2], top[3], 0x0073);
    if (there) StoreShared32(plane + 4 * unit, Permute(low, high, 0x5410));
  }
}
/// The top four bits of each of kGroups words to a plane of bits. All lanes.
template <uint32_t kGroups>
__device__ __forceinline__ void StoreBits(uint32_t plane, uint32_t unit,
                                          const uint32_t (&top)[kGroups], bool there) {
  if constexpr (kGroups == 1) {
    const uint32_t own = there ? top[0] >> 28 : 0;
    const uint32_t next = __shfl_down_sync(kAllLanes, own, 1);
    if (there && unit % 2 == 0) StoreShared8(plane + unit / 2, own | (next << 4));
  } else if constexpr (kGroups == 2) {
    if (there) StoreShared8(plane + unit, (top[0] >> 28) | ((top[1] >> 24) & 0xF0));
  } else {
    const uint32_t low = (top[0] >> 28) | ((top[1] >> 24) & 0xF0);
    const uint32_t high = (top[2] >> 28) | ((top[3] >> 24) & 0xF0);
    if (there) StoreShared16(plane + 2 * unit, low | (high << 8));
  }
}
/// Four nibbles in the low halves of four bytes, as bytes 0 and 2.
__device__ __forceinline__ uint32_t PackNibbles(uint32_t bytes) {
  bytes &= 0x0F0F0F0F;
  return bytes | (bytes >> 4);
}

/// The same as SplitUnit for dtypes whose words are rotated, after that.
template <FastKind kKind>
__device__ __forceinline__ void SplitRotated(const uint32_t (&rotated)[4], uint32_t residues,
                                             uint32_t unit, uint32_t elements, bool there,
                                             uint32_t (&symbols)[FastTraits<kKind>::kGroups]) {
  if constexpr (kKind == FastKind::kBf16 || kKind == FastKind::kFp16) {
    if (there) {
      StoreShared64(residues + 8 * unit, Permute(rotated[0], rotated[1], 0x6420),
                    Permute(rotated[2], rotated[3], 0x6420));
    }
    symbols[0] = Permute(rotated[0], rotated[1], 0x7531);
    symbols[1] = Permute(rotated[2], rotated[3], 0x7531);
    if constexpr (kKind == FastKind::kFp16) {
      const uint32_t crumbs[2] = {CrumbsOnTop(symbols[0]), CrumbsOnTop(symbols[1])};
      const uint32_t bits[2] = {BitsOnTop(symbols[0] >> 2), BitsOnTop(symbols[1] >> 2)};
      StoreCrumbs<2>(residues + elements, unit, crumbs, there);
      StoreBits<2>(residues + elements + elements / 4, unit, bits, there);
      symbols[0] = (symbols[0] >> 3) & 0x1F1F1F1F;
      symbols[1] = (symbols[1] >> 3) & 0x1F1F1F1F;
    }
  } else if constexpr (kKind == FastKind::kFp8E4) {
    if (there) {
      StoreShared64(residues + 8 * unit,
                    Permute(PackNibbles(rotated[0]), PackNibbles(rotated[1]), 0x6420),
                    Permute(PackNibbles(rotated[2]), PackNibbles(rotated[3]), 0x6420));
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) symbols[i] = (rotated[i] >> 4) & 0x0F0F0F0F;
  } else {
    uint32_t crumbs[4];
    uint32_t bits[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      crumbs[i] = CrumbsOnTop(rotated[i]);
      bits[i] = BitsOnTop(rotated[i] >> 2);
      symbols[i] = (rotated[i] >> 3) & 0x1F1F1F1F;
    }
    StoreCrumbs<4>(residues, unit, crumbs, there);
    StoreBits<4>(residues + elements / 4, unit, bits, there);
  }
}

/// The symbols of four fp32 elements, whose residues are stored if they are `there`.
__device__ __forceinline__ uint32_t SplitFp32(const uint32_t (&word)[4], uint32_t plane,
                                              uint32_t elements, bool there) {
  const uint32_t low01 = Permute(word[0], word[1], 0x5140);
  const uint32_t low23 = Permute(word[2], word[3], 0x5140);
  const uint32_t high01 = Permute(word[0], word[1], 0x7362);
  const uint32_t high23 = Permute(word[2], word[3], 0x7362);
  const uint32_t third = Permute(high01, high23, 0x5410);
  const uint32_t fourth = Permute(high01, high23, 0x7632);
  if (there) {
    StoreShared32(plane, Permute(low01, low23, 0x5410));
    StoreShared32(plane + elements, Permute(low01, low23, 0x7632));
    StoreShared32(plane + 2 * elements, (third & 0x7F7F7F7F) | (fourth & 0x80808080));
  }
  return ((fourth & 0x7F7F7F7F) << 1) | ((third >> 7) & 0x01010101);
}

/// All lanes: stores the residues of 16-byte unit `unit` of a block of `elements` elements to the
/// planes from `residues` on, if it is `there`, and returns its symbols, four a word.
template <FastKind kKind>
__device__ __forceinline__ void SplitUnit(const uint32_t (&word)[4], uint32_t residues,
                                          uint32_t unit, uint32_t elements, bool there,
                                          uint32_t (&symbols)[FastTraits<kKind>::kGroups]) {
  if constexpr (kKind == FastKind::kFp32) {
    symbols[0] = SplitFp32(word, residues + 4 * unit, elements, there);
  } else {
    uint32_t rotated[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) rotated[i] = RotateLeftOne(word[i]);
    SplitRotated<kKind>(rotated, residues, unit, elements, there, symbols);
  }
}

/// A word all of whose elements have the symbol `symbol`.
template <FastKind kKind>
__device__ __forceinline__ uint32_t WordOfSymbol(uint32_t symbol) {
  if constexpr (kKind == FastKind::kFp32) return symbol << 23;
  constexpr uint32_t kShift = 8 - FastTraits<kKind>::kSymbolBits;
  const uint32_t step = FastTraits<kKind>::kElementBytes == 2 ? 0x01000100 : 0x01010101;
  return RotateRightOne((symbol << kShift) * step);
}

}  // namespace cinch::codec::gpu
