// SPDX-License-Identifier: Apache-2.0
/// @file fast_encode.cuh
/// The cascade of a block whose plan is made (docs/format.md, section 5), for dtypes with a fast
/// path and lengths that 32 divides. Device only; the bytes are those of encode_block.cuh.
///
/// A warp has a tile of four chunks of 512 bytes in registers and codes it at level 0. The other
/// levels' lists are those of the whole block, coded by whatever warps there are (fast_lists.cuh).
///
/// Two symbols at a time are moved into a window and clamped to a code; four codes, a byte, index a
/// table of byte selectors with which one permute moves those of four symbols that escape to the
/// front.
#pragma once

#include <cstdint>

#include "codec/gpu/block/fast_shape.cuh"
#include "codec/gpu/block/fast_split.cuh"
#include "codec/gpu/block/group_places.cuh"
#include "codec/gpu/warp/lanes.cuh"
#include "codec/gpu/warp/pipeline.cuh"
#include "format/block_hash.h"
#include "format/layout.h"

namespace cinch::codec::gpu {

/// What a warp takes of a block at a time, 16 bytes a lane.
inline constexpr uint32_t kChunkBytes = 512;
inline constexpr uint32_t kChunkUnits = kChunkBytes / 16;
/// Chunks of a warp's tile of the block.
inline constexpr uint32_t kTileChunks = 4;

/// A selector for each byte of codes: bits 0 to 15 pick the symbols that escape, then zeros; byte 2
/// is 8 times, byte 3 once their number.
__device__ __forceinline__ uint32_t CompactSelector(uint32_t codes) {
  uint32_t selector = 0;
  uint32_t escapes = 0;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    if (((codes >> (2 * i)) & 3) == 3) selector |= i << (4 * escapes++);
  }
  for (uint32_t i = escapes; i < 4; ++i) selector |= 4U << (4 * i);
  return selector | (escapes << 19) | (escapes << 24);
}

/// Two symbols, one a half, after a window is taken out of the alphabet; `start` and `minus_width`
/// in both halves.
__device__ __forceinline__ uint32_t Collapse(uint32_t symbols, uint32_t start,
                                             uint32_t minus_width) {
  return __vminu2(symbols, __viaddmax_u16x2(symbols, minus_width, start));
}
/// Four codes of 2 bits, two a word, in the top byte.
__device__ __forceinline__ uint32_t CrumbsOfPairs(uint32_t first, uint32_t second) {
  return first * 0x01000400 + second * 0x10004000;
}
/// Four codes of 1 bit, two a word, in the top four bits.
__device__ __forceinline__ uint32_t BitsOfPairs(uint32_t first, uint32_t second) {
  return first * 0x10002000 + second * 0x40008000;
}

/// Eight symbols' escapes, compacted; of four, only `low` is used.
struct FastEscapes {
  uint32_t low;
  uint32_t high;
  uint32_t count;  ///< In the top byte.
};
/// What a warp needs for level 0 of a block.
struct Level0Job {
  uint32_t stage;  ///< Where the payload is made.
  uint32_t codes;  ///< Where the level-0 codes are.
  uint32_t elements;
  uint32_t table;  ///< Of CompactSelector.
  uint32_t minus;  ///< The window's negative start, in both halves.
};

/// All lanes: one chunk of level 0.
template <FastKind kKind, uint32_t kBits>
__device__ __forceinline__ void CodeChunk(
    const Level0Job& job, const uint32_t (&word)[4], uint32_t unit, bool there,
    FastEscapes (&escapes)[(FastTraits<kKind>::kGroups + 1) / 2]) {
  constexpr uint32_t kGroups = FastTraits<kKind>::kGroups;
  constexpr uint32_t kWidth = 0x00010001 * ((1U << kBits) - 1);
  uint32_t symbols[kGroups];
  SplitUnit<kKind>(word, job.stage + format::kResidueOffset, unit, job.elements, there, symbols);
  uint32_t top[kGroups];
  uint32_t top_bits[kGroups];
  uint32_t selector[kGroups];
#pragma unroll
  for (uint32_t g = 0; g < kGroups; ++g) {
    const uint32_t first = __viaddmin_u16x2(Permute(symbols[g], 0, 0x4140), job.minus, kWidth);
    const uint32_t second = __viaddmin_u16x2(Permute(symbols[g], 0, 0x4342), job.minus, kWidth);
    uint32_t index = 0;  // four crumbs, 3 for what escapes
    if constexpr (kBits == 1) {
      index = first * (3 * 0x01000400U) + second * (3 * 0x10004000U);
      top_bits[g] = BitsOfPairs(first, second);
    } else if constexpr (kBits == 2) {
      index = CrumbsOfPairs(first, second);
      top[g] = index;
    } else {
      constexpr uint32_t kMinusFour = 0xFFFCFFFC;
      index = CrumbsOfPairs(__viaddmax_s16x2(first, kMinusFour, 0),
                            __viaddmax_s16x2(second, kMinusFour, 0));
      top[g] = CrumbsOfPairs(first & 0x00030003, second & 0x00030003);
      top_bits[g] = BitsOfPairs((first >> 2) & 0x00010001, (second >> 2) & 0x00010001);
    }
    selector[g] = LoadShared32(job.table + (index >> 22));
  }
  uint32_t codes = job.codes;
  if constexpr (kBits >= 2) {
    StoreCrumbs<kGroups>(codes, unit, top, there);
    codes += job.elements / 4;
  }
  if constexpr (kBits != 2) StoreBits<kGroups>(codes, unit, top_bits, there);
  if constexpr (kGroups == 1) {
    escapes[0] = {Permute(symbols[0], 0, selector[0]), 0, selector[0]};
  } else {
#pragma unroll
    for (uint32_t g = 0; g < kGroups; g += 2) {
      const uint32_t first = Permute(symbols[g], 0, selector[g]);
      const uint32_t second = Permute(symbols[g + 1], 0, selector[g + 1]);
      const uint32_t shift = Permute(selector[g], 0, 0x4442);
      escapes[g / 2] = {first | ShiftLeftClamped(0, second, shift),
                        ShiftLeftClamped(second, 0, shift), selector[g] + selector[g + 1]};
    }
  }
}

/// A lane's 16 bytes of each of its warp's chunks.
struct FastTile {
  uint32_t word[kTileChunks][4];
};
/// Where the lane's part of a tile is. Blocks are kWhole, or some parts are not there.
template <bool kWhole>
struct TilePlace {
  uint32_t first_unit;  ///< Of the lane.
  uint32_t units;       ///< Of the block, 16 bytes each.

  __device__ __forceinline__ bool Has(uint32_t k) const {
    return kWhole || first_unit + kChunkUnits * k < units;
  }
};
template <bool kWhole>
__device__ __forceinline__ TilePlace<kWhole> TilePlaceOf(uint32_t length_bytes) {
  const uint32_t thread = ThreadHere();
  return {kTileChunks * kChunkUnits * (thread / 32) + thread % 32, length_bytes / 16};
}

template <bool kWhole>
__device__ __forceinline__ void LoadTilePart(const uint8_t* bytes, uint32_t length_bytes,
                                             FastTile* tile) {
  const TilePlace<kWhole> place = TilePlaceOf<kWhole>(length_bytes);
  const uint8_t* from = bytes + 16 * place.first_unit;
#pragma unroll
  for (uint32_t k = 0; k < kTileChunks; ++k) {
    uint4 words = make_uint4(0, 0, 0, 0);
    if (place.Has(k)) words = LoadStream(from + kChunkBytes * k);
    tile->word[k][0] = words.x;
    tile->word[k][1] = words.y;
    tile->word[k][2] = words.z;
    tile->word[k][3] = words.w;
  }
}
__device__ __forceinline__ void LoadTile(const uint8_t* bytes, uint32_t length_bytes,
                                         FastTile* tile) {
  if (length_bytes == format::kBlockBytes) {
    LoadTilePart<true>(bytes, length_bytes, tile);
  } else {
    LoadTilePart<false>(bytes, length_bytes, tile);
  }
}

/// All lanes: the tile's terms of BlockHash, in lane 0.
template <bool kWhole>
__device__ __forceinline__ uint64_t WarpHash(const FastTile& tile, const TilePlace<kWhole>& place) {
  constexpr uint32_t kEven = format::kHashEvenKeyFactor;
  constexpr uint32_t kOdd = format::kHashOddKeyFactor;
  uint64_t sum = 0;
  const uint32_t even_key = Opaque(kEven * (2 * place.first_unit + 1));
  const uint32_t odd_key = Opaque(kOdd * (2 * place.first_unit + 1));
#pragma unroll
  for (uint32_t k = 0; k < kTileChunks; ++k) {
    const uint32_t pair = 2 * kChunkUnits * k;
    if (place.Has(k)) {
      const uint32_t(&word)[4] = tile.word[k];
      sum += uint64_t{word[0] + even_key + kEven * pair} * (word[1] + odd_key + kOdd * pair);
      sum += uint64_t{word[2] + even_key + kEven * (pair + 1)} *
             (word[3] + odd_key + kOdd * (pair + 1));
    }
  }
  // In three parts, so that 32 of them do not overflow a word.
  const uint64_t low = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(sum) & 0xFFFFFF);
  const uint64_t middle = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(sum >> 24) & 0xFFFFFF);
  const uint64_t high = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(sum >> 48));
  return low + (middle << 24) + (high << 48);
}

/// Counts the lane's sampled symbols (docs/format.md, section 7.1): where they stand before any
/// rotation. `*any` receives the OR of the samples' residues, or for dtypes of 8 bits, whose
/// residues have no byte planes, how many samples are zero.
template <FastKind kKind, bool kWhole>
__device__ __forceinline__ void CountTile(const FastTile& tile, const TilePlace<kWhole>& place,
                                          uint32_t counts, uint32_t* any) {
  using Traits = FastTraits<kKind>;
  constexpr uint32_t kMask = (1U << Traits::kSymbolBits) - 1;
  const uint32_t warp = ThreadHere() / 32;
  const uint32_t lane = ThreadHere() % 32;
  *any = 0;
  if constexpr (Traits::kElementBytes == 2) {
    const uint32_t shift = 16 * (warp % 2) + 15 - Traits::kSymbolBits;
#pragma unroll
    for (uint32_t k = 0; k < kTileChunks; ++k) {
      const uint32_t word = tile.word[k][k];
      if (place.Has(k)) {
        CountShared(counts + 4 * ((word >> shift) & kMask));
        *any |= word;
      }
    }
    // Bits of the low byte after the rotation.
    *any &= warp % 2 != 0 ? 0x007F8000 : 0x8000007F;
  } else if constexpr (Traits::kElementBytes == 4) {
#pragma unroll
    for (uint32_t k = 0; k < kTileChunks; ++k) {
      const uint32_t word =
          warp / 2 % 2 != 0 ? tile.word[k][2 * (k / 2) + 1] : tile.word[k][2 * (k / 2)];
      if (place.Has(k) && lane % 2 == warp % 2) {
        CountShared(counts + 4 * ((word >> 23) & kMask));
        *any |= word;
      }
    }
  } else {
#pragma unroll
    for (uint32_t k = 0; k < kTileChunks; ++k) {
      const uint32_t shift = 8 * (2 * (lane / 16) + k / 2) + 7 - Traits::kSymbolBits;
      if (place.Has(k)) {
        const uint32_t mask = 0xFFU << (8 * (2 * (lane / 16) + k / 2));
#pragma unroll
        for (uint32_t i = k % 2; i < 4; i += 2) {
          CountShared(counts + 4 * ((tile.word[k][i] >> shift) & kMask));
          if ((tile.word[k][i] & mask) == 0) ++*any;
        }
      }
    }
  }
}

/// The escapes of a lane's part of a tile and where they go in the warp's list.
template <FastKind kKind>
struct TileEscapes {
  static constexpr uint32_t kParts = (FastTraits<kKind>::kGroups + 1) / 2;
  FastEscapes part[kTileChunks][kParts];
  uint32_t at[kTileChunks];
  uint32_t total;  ///< Of the warp.
};

/// All lanes: level 0 of the warp's tile.
template <FastKind kKind, uint32_t kBits, bool kWhole>
__device__ __forceinline__ void CodeTileAs(const Level0Job& job, const TilePlace<kWhole>& place,
                                           const FastTile& tile, TileEscapes<kKind>* escapes) {
#pragma unroll
  for (uint32_t k = 0; k < kTileChunks; ++k) {
    CodeChunk<kKind, kBits>(job, tile.word[k], place.first_unit + kChunkUnits * k, place.Has(k),
                            escapes->part[k]);
  }
}

/// All lanes: where a lane's escapes go.
template <FastKind kKind>
__device__ __forceinline__ void PlaceEscapes(TileEscapes<kKind>* escapes) {
  const auto& part = escapes->part;
  if constexpr (TileEscapes<kKind>::kParts == 1) {
    const GroupOffsets offsets =
        ScanGroups(Permute(Permute(part[0][0].count, part[1][0].count, 0x0073),
                           Permute(part[2][0].count, part[3][0].count, 0x0073), 0x5410));
#pragma unroll
    for (uint32_t k = 0; k < kTileChunks; ++k) escapes->at[k] = offsets.at[k];
    escapes->total = offsets.total;
  } else {
    uint32_t total = 0;
#pragma unroll
    for (uint32_t k = 0; k < kTileChunks; k += 2) {
      const uint32_t first = (part[k][0].count + part[k][1].count) >> 24;
      const uint32_t second = (part[k + 1][0].count + part[k + 1][1].count) >> 24;
      const uint32_t own = first | (second << 16);
      const uint32_t inclusive = ScanInclusive(own);
      const uint32_t all = __shfl_sync(kAllLanes, inclusive, 31);
      escapes->at[k] = total + ((inclusive - own) & 0xFFFF);
      total += all & 0xFFFF;
      escapes->at[k + 1] = total + ((inclusive - own) >> 16);
      total += all >> 16;
    }
    escapes->total = total;
  }
}

/// Where the level-0 codes are in a payload.
template <FastKind kKind>
__device__ __forceinline__ uint32_t CodeOffset(uint32_t elements) {
  return format::kResidueOffset + format::FieldBytes(FastTraits<kKind>::kResidueBits, elements);
}

/// Level 0 of a block's tile, its shape being known. What is not there of blocks that are not
/// whole has codes, but no escapes.
template <FastKind kKind, bool kWhole>
__device__ __forceinline__ void CodeTilePart(const CodedShape& shape, uint32_t stage,
                                             uint32_t table, uint32_t length_bytes, FastTile* tile,
                                             TileEscapes<kKind>* escapes) {
  if constexpr (kWhole) length_bytes = format::kBlockBytes;
  const uint32_t elements = length_bytes / FastTraits<kKind>::kElementBytes;
  const Level0Job job{stage, stage + CodeOffset<kKind>(elements), elements, table,
                      shape.minus_pair[0]};
  const TilePlace<kWhole> place = TilePlaceOf<kWhole>(length_bytes);
  if constexpr (!kWhole) {
    const uint32_t filler = WordOfSymbol<kKind>(shape.window_start(0));
#pragma unroll
    for (uint32_t k = 0; k < kTileChunks; ++k) {
      if (place.Has(k)) continue;
#pragma unroll
      for (uint32_t& word : tile->word[k]) word = filler;
    }
  }
  switch (shape.level0_bits) {
    case 1:
      return CodeTileAs<kKind, 1>(job, place, *tile, escapes);
    case 2:
      return CodeTileAs<kKind, 2>(job, place, *tile, escapes);
    default:
      return CodeTileAs<kKind, 3>(job, place, *tile, escapes);
  }
}
template <FastKind kKind>
__device__ __forceinline__ void CodeTile(const CodedShape& shape, uint32_t stage, uint32_t table,
                                         uint32_t length_bytes, FastTile* tile,
                                         TileEscapes<kKind>* escapes) {
  if (length_bytes == format::kBlockBytes) {
    CodeTilePart<kKind, true>(shape, stage, table, length_bytes, tile, escapes);
  } else {
    CodeTilePart<kKind, false>(shape, stage, table, length_bytes, tile, escapes);
  }
  PlaceEscapes(escapes);
}

/// Stores up to 8 escapes at `list`, but leaves those after the fifth to StoreManyEscapes.
template <uint32_t kSymbols>
__device__ __forceinline__ void StoreFewEscapes(const FastEscapes& escapes, uint32_t list) {
  const uint32_t count = escapes.count >> 24;
  if (count >= 1) StoreShared8<0>(list, escapes.low);
  if (count >= 2) StoreShared8<1>(list, escapes.low >> 8);
  if (count >= 3) StoreShared8<2>(list, escapes.low >> 16);
  if (count >= 4) StoreShared8<3>(list, escapes.low >> 24);
  if constexpr (kSymbols == 8) {
    if (count >= 5) StoreShared8<4>(list, escapes.high);
  }
}
__device__ __forceinline__ void StoreManyEscapes(const FastEscapes& escapes, uint32_t list) {
  const uint32_t count = escapes.count >> 24;
  if (count >= 6) StoreShared8<5>(list, escapes.high >> 8);
  if (count >= 7) StoreShared8<6>(list, escapes.high >> 16);
  if (count >= 8) StoreShared8<7>(list, escapes.high >> 24);
}

/// The lane's escapes to the block's list; `list` is the place of the warp's first.
template <FastKind kKind>
__device__ __forceinline__ void ListEscapes(const TileEscapes<kKind>& escapes, uint32_t list) {
  constexpr uint32_t kSymbols = FastTraits<kKind>::kGroups == 1 ? 4 : 8;
  constexpr uint32_t kParts = TileEscapes<kKind>::kParts;
  uint32_t most = 0;
#pragma unroll
  for (uint32_t k = 0; k < kTileChunks; ++k) {
    uint32_t to = list + escapes.at[k];
#pragma unroll
    for (uint32_t i = 0; i < kParts; ++i) {
      StoreFewEscapes<kSymbols>(escapes.part[k][i], to);
      most = max(most, escapes.part[k][i].count);
      to += escapes.part[k][i].count >> 24;
    }
  }
  if constexpr (kSymbols == 8) {
    if (most < 6U << 24) return;
#pragma unroll
    for (uint32_t k = 0; k < kTileChunks; ++k) {
      uint32_t to = list + escapes.at[k];
#pragma unroll
      for (uint32_t i = 0; i < kParts; ++i) {
        StoreManyEscapes(escapes.part[k][i], to);
        to += escapes.part[k][i].count >> 24;
      }
    }
  }
}

}  // namespace cinch::codec::gpu
