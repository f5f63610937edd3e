// SPDX-License-Identifier: Apache-2.0
/// @file fast_encode.cuh
/// The cascade of a block whose plan is made (docs/format.md, section 5), for dtypes with a fast
/// path and lengths that 32 divides. Device only; the bytes are those of encode_block.cuh.
///
/// Chunks of 512 bytes are dealt out to warps, a few to each, one after another. A warp lists what
/// escapes in its chunks and codes its own list at level 1: all it needs to know of the others is
/// how many escapes come before its own. What the warps' lists leave is coded by one warp.
///
/// Two symbols at a time are moved into a window and clamped to a code; four codes, a byte, index a
/// table of byte selectors with which one permute moves those of four symbols that escape to the
/// front.
#pragma once

#include <cstdint>

#include "codec/gpu/block/fast_plan.cuh"
#include "codec/gpu/block/fast_split.cuh"
#include "codec/gpu/warp/lanes.cuh"
#include "codec/gpu/warp/pipeline.cuh"
#include "format/block_hash.h"

namespace cinch::codec::gpu {

/// Where the block's bytes are in a buffer: behind the head that a stored payload would have.
inline constexpr uint32_t kSourceOffset = format::kStoredDataOffset;
inline constexpr uint32_t kChunkBytes = 512;
inline constexpr uint32_t kChunkUnits = kChunkBytes / 16;
/// Chunks that a warp has room for in registers.
inline constexpr uint32_t kWarpChunks = 5;
/// A list stands this far into its segment: what is before it is read, too.
inline constexpr uint32_t kListOffset = 4;
/// Room beyond a list's capacity for reads of whole words.
inline constexpr uint32_t kListSlack = 20;

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

/// A warp's chunks of a block.
struct ChunkShare {
  uint32_t first_unit;  ///< 16-byte units before the warp's first.
  uint32_t chunks;      ///< 0 to kWarpChunks.
  uint32_t units;       ///< Of the block.
};
__device__ __forceinline__ ChunkShare ShareOfWarp(uint32_t length_bytes, uint32_t warp,
                                                  uint32_t warps) {
  const uint32_t units = length_bytes / 16;
  const uint32_t chunks = (units + kChunkUnits - 1) / kChunkUnits;
  const uint32_t each = (chunks + warps - 1) / warps;
  const uint32_t before = each * warp;
  return {kChunkUnits * before, before < chunks ? min(each, chunks - before) : 0, units};
}

/// A lane's 16 bytes of each of its warp's chunks.
struct FastTile {
  uint32_t word[kWarpChunks][4];
};
/// All lanes: reads the warp's share of the block in `buffer`. Units that are not there come out
/// as something.
__device__ __forceinline__ void TakeTile(uint32_t buffer, const ChunkShare& share, FastTile* tile) {
  const uint32_t from = buffer + kSourceOffset + 16 * (share.first_unit + threadIdx.x % 32);
#pragma unroll
  for (uint32_t k = 0; k < kWarpChunks; ++k) {
    if (k < share.chunks) {
      const uint4 words = LoadShared128(from + kChunkBytes * k);
      tile->word[k][0] = words.x;
      tile->word[k][1] = words.y;
      tile->word[k][2] = words.z;
      tile->word[k][3] = words.w;
    }
  }
}

/// All lanes: their sum, in all lanes. In three parts, so that 32 of them do not overflow a word.
__device__ __forceinline__ uint64_t WarpSum64(uint64_t value) {
  const uint64_t low = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(value) & 0xFFFFFF);
  const uint64_t middle =
      __reduce_add_sync(kAllLanes, static_cast<uint32_t>(value >> 24) & 0xFFFFFF);
  const uint64_t high = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(value >> 48));
  return low + (middle << 24) + (high << 48);
}
/// All lanes: the warp's part of the sum of section 6, in all lanes.
__device__ __forceinline__ uint64_t HashTile(const FastTile& tile, const ChunkShare& share) {
  const uint32_t first_unit = share.first_unit + threadIdx.x % 32;
  const uint32_t even_key = format::kHashEvenKeyFactor * (2 * first_unit + 1);
  const uint32_t odd_key = format::kHashOddKeyFactor * (2 * first_unit + 1);
  uint64_t sum = 0;
#pragma unroll
  for (uint32_t k = 0; k < kWarpChunks; ++k) {
    if (k >= share.chunks) continue;
    constexpr uint32_t kEven = format::kHashEvenKeyFactor;
    constexpr uint32_t kOdd = format::kHashOddKeyFactor;
    const uint32_t pair = 2 * kChunkUnits * k;
    const uint32_t even0 = tile.word[k][0] + even_key + kEven * pair;
    const uint32_t odd0 = tile.word[k][1] + odd_key + kOdd * pair;
    const uint32_t even1 = tile.word[k][2] + even_key + kEven * (pair + 1);
    const uint32_t odd1 = tile.word[k][3] + odd_key + kOdd * (pair + 1);
    // Only a last chunk has units that are not there.
    const bool whole = share.first_unit + kChunkUnits * (k + 1) <= share.units;
    if (whole || first_unit + kChunkUnits * k < share.units) {
      sum += uint64_t{even0} * odd0 + uint64_t{even1} * odd1;
    }
  }
  return WarpSum64(sum);
}

/// Eight symbols' escapes, compacted; of four, only `low` is used.
struct FastEscapes {
  uint32_t low;
  uint32_t high;
  uint32_t count;  ///< In the top byte.
};
/// Stores them; `list` is the place of the first.
template <uint32_t kSymbols>
__device__ __forceinline__ void StoreEscapes(const FastEscapes& escapes, uint32_t list) {
  const uint32_t count = escapes.count >> 24;
  if (count >= 1) StoreShared8<0>(list, escapes.low);
  if (count >= 2) StoreShared8<1>(list, escapes.low >> 8);
  if constexpr (kSymbols == 4) {
    if (count >= 3) StoreShared8<2>(list, escapes.low >> 16);
    if (count >= 4) StoreShared8<3>(list, escapes.low >> 24);
  } else {
    if (count >= 3) StoreShared8<2>(list, escapes.low >> 16);
    if (count >= 4) StoreShared8<3>(list, escapes.low >> 24);
    if (count >= 5) StoreShared8<4>(list, escapes.high);
    if (count >= 6) {
      StoreShared8<5>(list, escapes.high >> 8);
      if (count >= 7) StoreShared8<6>(list, escapes.high >> 16);
      if (count >= 8) StoreShared8<7>(list, escapes.high >> 24);
    }
  }
}

/// What a warp needs for level 0 of a block.
struct Level0Job {
  uint32_t buffer;
  uint32_t codes;  ///< Where the level-0 codes are.
  uint32_t elements;
  uint32_t table;     ///< Of CompactSelector.
  uint32_t minus;     ///< The window's negative start, in both halves.
  uint32_t list;      ///< Of the warp.
  uint32_t capacity;  ///< Of the list.
};

/// All lanes: one chunk of level 0.
template <FastKind kKind, uint32_t kBits>
__device__ __forceinline__ void CodeChunk(
    const Level0Job& job, const uint32_t (&word)[4], uint32_t unit, bool there,
    FastEscapes (&escapes)[(FastTraits<kKind>::kGroups + 1) / 2]) {
  constexpr uint32_t kGroups = FastTraits<kKind>::kGroups;
  constexpr uint32_t kWidth = 0x00010001 * ((1U << kBits) - 1);
  uint32_t symbols[kGroups];
  SplitUnit<kKind>(word, job.buffer + format::kResidueOffset, unit, job.elements, there, symbols);
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

/// All lanes: level 0 of chunks kFirst to kFirst + kCount - 1 of the warp; what escapes is listed
/// behind the `listed` that are. Returns how many are then, which may be more than there was room
/// for: then nothing more was stored.
template <FastKind kKind, uint32_t kBits, uint32_t kFirst, uint32_t kCount>
__device__ __forceinline__ uint32_t CodeChunks(const Level0Job& job, const ChunkShare& share,
                                               const FastTile& tile, uint32_t listed) {
  constexpr uint32_t kParts = (FastTraits<kKind>::kGroups + 1) / 2;
  constexpr uint32_t kField = kParts == 2 ? 16 : 8;  // bits in which a warp's sums fit
  static_assert(kCount * kField <= 32);
  FastEscapes escapes[kCount][kParts];
  uint32_t own = 0;
#pragma unroll
  for (uint32_t k = 0; k < kCount; ++k) {
    uint32_t count = 0;
    if (kFirst + k < share.chunks) {
      const uint32_t unit = share.first_unit + kChunkUnits * (kFirst + k) + threadIdx.x % 32;
      CodeChunk<kKind, kBits>(job, tile.word[kFirst + k], unit, unit < share.units, escapes[k]);
#pragma unroll
      for (uint32_t part = 0; part < kParts; ++part) count += escapes[k][part].count >> 24;
    } else {
#pragma unroll
      for (uint32_t part = 0; part < kParts; ++part) escapes[k][part] = {0, 0, 0};
    }
    own |= count << (kField * k);
  }
  // A field holds a lane's exclusive sum; the sum of all lanes may not fit one of 8 bits.
  const uint32_t exclusive = ScanInclusive(own) - own;
  const uint32_t last = __shfl_sync(kAllLanes, exclusive, 31);
  const uint32_t last_own = __shfl_sync(kAllLanes, own, 31);
  constexpr uint32_t kFieldMask = (1U << kField) - 1;
  uint32_t before[kCount];
#pragma unroll
  for (uint32_t k = 0; k < kCount; ++k) {
    before[k] = listed + ((exclusive >> (kField * k)) & kFieldMask);
    listed += ((last >> (kField * k)) & kFieldMask) + ((last_own >> (kField * k)) & kFieldMask);
  }
  if (listed > job.capacity) return listed;
#pragma unroll
  for (uint32_t k = 0; k < kCount; ++k) {
    StoreEscapes<kParts == 1 && FastTraits<kKind>::kGroups == 1 ? 4 : 8>(escapes[k][0],
                                                                         job.list + before[k]);
    if constexpr (kParts == 2) {
      StoreEscapes<8>(escapes[k][1], job.list + before[k] + (escapes[k][0].count >> 24));
    }
  }
  return listed;
}

/// All lanes: level 0 of the warp's share. Returns the length of its list, as CodeChunks does.
template <FastKind kKind, uint32_t kBits>
__device__ __forceinline__ uint32_t CodeLevel0As(const Level0Job& job, const ChunkShare& share,
                                                 const FastTile& tile) {
  static_assert(kWarpChunks == 5);
  if constexpr (FastTraits<kKind>::kGroups == 4) {
    uint32_t listed = CodeChunks<kKind, kBits, 0, 2>(job, share, tile, 0);
    listed = CodeChunks<kKind, kBits, 2, 2>(job, share, tile, listed);
    return CodeChunks<kKind, kBits, 4, 1>(job, share, tile, listed);
  } else {
    const uint32_t listed = CodeChunks<kKind, kBits, 0, 4>(job, share, tile, 0);
    return CodeChunks<kKind, kBits, 4, 1>(job, share, tile, listed);
  }
}

template <FastKind kKind>
__device__ __forceinline__ uint32_t CodeLevel0Of(const FastPlan& plan, const Level0Job& job,
                                                 const ChunkShare& share, FastTile* tile) {
  if (share.units % kChunkUnits != 0) {
    // Units that are not there have codes, but no escapes.
    const uint32_t filler = WordOfSymbol<kKind>(plan.window_start[0]);
#pragma unroll
    for (uint32_t k = 0; k < kWarpChunks; ++k) {
      if (share.first_unit + kChunkUnits * k + threadIdx.x % 32 < share.units) continue;
#pragma unroll
      for (uint32_t& word : tile->word[k]) word = filler;
    }
  }
  switch (plan.level0_bits) {
    case 1:
      return CodeLevel0As<kKind, 1>(job, share, *tile);
    case 2:
      return CodeLevel0As<kKind, 2>(job, share, *tile);
    default:
      return CodeLevel0As<kKind, 3>(job, share, *tile);
  }
}

/// All lanes: level 0 of the warp's share of the block in `buffer`; see CodeChunks.
__device__ __forceinline__ uint32_t CodeLevel0(const FastPlan& plan, uint32_t buffer,
                                               uint32_t table, uint32_t list, uint32_t capacity,
                                               const ChunkShare& share, FastTile* tile) {
  const Level0Job job{buffer,  buffer + plan.code_offset, plan.elements,
                      table,   plan.windows.minus[0],     list,
                      capacity};
  switch (plan.kind) {
    case FastKind::kBf16:
      return CodeLevel0Of<FastKind::kBf16>(plan, job, share, tile);
    case FastKind::kFp16:
      return CodeLevel0Of<FastKind::kFp16>(plan, job, share, tile);
    case FastKind::kFp32:
      return CodeLevel0Of<FastKind::kFp32>(plan, job, share, tile);
    case FastKind::kFp8E4:
      return CodeLevel0Of<FastKind::kFp8E4>(plan, job, share, tile);
    default:
      return CodeLevel0Of<FastKind::kFp8E5>(plan, job, share, tile);
  }
}

/// The codes of four symbols at a level, in the top byte.
template <uint32_t kLevel>
__device__ __forceinline__ uint32_t CodesAtLevel(uint32_t symbols, const PairWindows& windows) {
  uint32_t first = Permute(symbols, 0, 0x4140);
  uint32_t second = Permute(symbols, 0, 0x4342);
#pragma unroll
  for (uint32_t level = 0; level < kLevel; ++level) {
    const uint32_t minus_width = level == 0 ? windows.minus_width : 0xFFFDFFFD;
    first = Collapse(first, windows.start[level], minus_width);
    second = Collapse(second, windows.start[level], minus_width);
  }
  return CrumbsOfPairs(__viaddmin_u16x2(first, windows.minus[kLevel], 0x00030003),
                       __viaddmin_u16x2(second, windows.minus[kLevel], 0x00030003));
}

/// Entries of a list that a warp takes at once, kWords words of four symbols a lane.
template <uint32_t kWords>
inline constexpr uint32_t kListPass = 4 * kWords * 32;
/// What suits the usual lengths: 330 of a worker at level 1; 800 and 110 of a block at levels 2
/// and 3.
inline constexpr uint32_t kLevel1Words = 3;
inline constexpr uint32_t kLevel2Words = 7;
inline constexpr uint32_t kLevel3Words = 1;

/// All lanes: codes up to kListPass<kWords> entries at a level and lists what escapes at `to`.
/// `left`: entries from the lane's first on, may be negative; what is behind the list up to a
/// multiple of 4 must be padding. The codes go to `codes`, but the first byte to
/// `first_codes`. Returns the number of escapes; lists none when there are
/// more than `room`.
template <uint32_t kLevel, uint32_t kWords>
__device__ __forceinline__ uint32_t CodeListPass(const uint32_t (&symbols)[kWords], int left,
                                                 uint32_t codes, uint32_t first_codes,
                                                 uint32_t table, const PairWindows& windows,
                                                 uint32_t to, uint32_t room) {
  FastEscapes escapes[kWords];
  uint32_t own = 0;
#pragma unroll
  for (uint32_t g = 0; g < kWords; ++g) {
    uint32_t top = CodesAtLevel<kLevel>(symbols[g], windows);
    if (left <= static_cast<int>(4 * g)) {
      top = 0;
    } else {
      StoreShared8(g == 0 ? first_codes : codes + g, top >> 24);
    }
    const uint32_t selector = LoadShared32(table + (top >> 22));
    escapes[g] = {Permute(symbols[g], 0, selector), 0, selector};
    own += selector >> 24;
  }
  const uint32_t inclusive = ScanInclusive(own);
  const uint32_t total = __shfl_sync(kAllLanes, inclusive, 31);
  if (total > room) return total;
  uint32_t at = to + inclusive - own;
#pragma unroll
  for (uint32_t g = 0; g < kWords; ++g) {
    StoreEscapes<4>(escapes[g], at);
    at += escapes[g].count >> 24;
  }
  return total;
}

/// A warp's part of the block's list of level 0.
struct WarpList {
  uint32_t segment;  ///< Where it is, kListOffset bytes before the list.
  uint32_t listed;
  uint32_t before;  ///< Entries of the warps before.
};

/// All lanes: codes the warp's list at level 1 to `codes`, where the block's are, and lists what
/// escapes at `to`. The byte of codes that it shares with the warps before goes to `*shared_codes`
/// instead. Returns the number of escapes, more than `room` when they had none.
__device__ __forceinline__ uint32_t CodeLevel1(const FastPlan& plan, const WarpList& list,
                                               uint32_t codes, uint32_t shared_codes,
                                               uint32_t table, uint32_t to, uint32_t room) {
  const uint32_t lane = threadIdx.x % 32;
  if (lane < 4) {
    const uint32_t padding = plan.padding[1];
    StoreShared8(list.segment + lane, padding);
    StoreShared8(list.segment + kListOffset + list.listed + lane, padding);
  }
  __syncwarp();
  // Entries are read as they stand in the bytes of codes: from a multiple of 4 on.
  const uint32_t ahead = list.before % 4;
  const uint32_t entries = ahead + list.listed;
  const uint32_t from = list.segment + kListOffset - ahead;
  uint32_t escapes = 0;
#pragma unroll 1
  for (uint32_t first = 0; first < entries; first += kListPass<kLevel1Words>) {
    const uint32_t at = first + 4 * kLevel1Words * lane;
    const uint32_t aligned = (from + at) & ~3U;
    uint32_t word[kLevel1Words + 1];
    word[0] = LoadShared32<0>(aligned);
    word[1] = LoadShared32<4>(aligned);
    word[2] = LoadShared32<8>(aligned);
    word[3] = LoadShared32<12>(aligned);
    uint32_t symbols[kLevel1Words];
#pragma unroll
    for (uint32_t g = 0; g < kLevel1Words; ++g) {
      symbols[g] = ShiftRightWrapped(word[g], word[g + 1], 8 * (from & 3));
    }
    const uint32_t own_codes = codes + list.before / 4 + at / 4;
    const bool shares = at == 0 && ahead != 0;
    escapes += CodeListPass<1>(symbols, static_cast<int>(entries) - static_cast<int>(at), own_codes,
                               shares ? shared_codes : own_codes, table, plan.windows, to + escapes,
                               room < escapes ? 0 : room - escapes);
  }
  return escapes;
}

/// All lanes: codes a list of `listed` entries at level 2 or 3 in place. Returns the number of
/// escapes, which are the list then.
template <uint32_t kLevel, uint32_t kWords>
__device__ __forceinline__ uint32_t WarpCodeLevel(const FastPlan& plan, uint32_t list,
                                                  uint32_t listed, uint32_t codes, uint32_t table) {
  const uint32_t lane = threadIdx.x % 32;
  if (lane < 4) StoreShared8(list + listed + lane, plan.padding[kLevel]);
  __syncwarp();
  uint32_t escapes = 0;
#pragma unroll 1
  for (uint32_t first = 0; first < listed; first += kListPass<kWords>) {
    const uint32_t at = first + 4 * kWords * lane;
    uint32_t symbols[kWords];
#pragma unroll
    for (uint32_t g = 0; g < kWords; ++g) symbols[g] = LoadShared32(list + at + 4 * g);
    __syncwarp();
    escapes += CodeListPass<kLevel>(symbols, static_cast<int>(listed) - static_cast<int>(at),
                                    codes + at / 4, codes + at / 4, table, plan.windows,
                                    list + escapes, ~0U);
    __syncwarp();
  }
  return escapes;
}

}  // namespace cinch::codec::gpu
