// SPDX-License-Identifier: Apache-2.0
/// @file fast_encode.cuh
/// The encoder for whole bf16 blocks at 16-byte aligned addresses whose best codes are the 2-bit
/// ones, or which are stored. 16 warps; a warp takes 1024 elements, a lane 8 of each 256. Device
/// only; the bytes are those of encode_block.cuh, which gets what is declined here.
///
/// Two symbols at a time are moved into a window and clamped to a code; four codes, a byte, index a
/// table of byte selectors with which one permute moves those of four symbols that escape to the
/// front.
#pragma once

#include <cstdint>

#include "codec/gpu/block/encode_block.cuh"
#include "codec/gpu/block/fast_decode.cuh"
#include "codec/gpu/block/workspace.cuh"
#include "codec/gpu/warp/lanes.cuh"

namespace cinch::codec::gpu {

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

/// A lane's 32 elements: words 4 lane to 4 lane + 3 of each 128 of the warp's.
struct FastTile {
  uint32_t word[4][4];
};

/// `source` is the lane's first byte.
__device__ __forceinline__ void LoadTile(const uint8_t* source, FastTile* tile) {
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) {
    const uint4 words = LoadStream(source + 512 * k);
    tile->word[k][0] = words.x;
    tile->word[k][1] = words.y;
    tile->word[k][2] = words.z;
    tile->word[k][3] = words.w;
  }
}

/// All lanes of one warp: section 7.2, steps 2 and 3, for level0_bits kBits, with lane i on symbol
/// i of the range.
template <uint32_t kBits>
__device__ __forceinline__ void ChooseFastWindows(const uint32_t* counts, FastShape* shape) {
  const uint32_t lane = threadIdx.x % 32;
  const uint4 low = reinterpret_cast<const uint4*>(counts)[2 * lane];
  const uint4 high = reinterpret_cast<const uint4*>(counts)[2 * lane + 1];
  const uint32_t eight = low.x + low.y + low.z + low.w + high.x + high.y + high.z + high.w;
  // Symbol 0 has no say in where the range is.
  const uint32_t weight = lane == 0 ? eight - low.x : eight;
  const uint32_t sixteen = weight + __shfl_down_sync(kAllLanes, weight, 1);
  const uint32_t range = sixteen + __shfl_down_sync(kAllLanes, sixteen, 2);
  const uint32_t key = __reduce_max_sync(kAllLanes, lane <= 28 ? (range << 5) | (31 - lane) : 0);
  const uint32_t base = 8 * (31 - (key & 31));
  uint32_t escapes = __reduce_add_sync(kAllLanes, eight);
  uint32_t cost_bits = kBits * escapes;
  uint32_t count = counts[base + lane];
  uint32_t symbol = base + lane;
  uint32_t left = 32;
#pragma unroll
  for (uint32_t level = 0; level < format::kLevels; ++level) {
    const uint32_t width = level == 0 ? (1U << kBits) - 1 : 3;
    uint32_t sum = count;
#pragma unroll
    for (uint32_t i = 1; i < width; ++i) sum += __shfl_down_sync(kAllLanes, count, i);
    const uint32_t best =
        __reduce_max_sync(kAllLanes, lane + width <= left ? (sum << 5) | (31 - lane) : 0);
    const uint32_t start = 31 - (best & 31);
    escapes -= best >> 5;
    cost_bits += (level < 3 ? 2 : 8) * escapes;
    if (lane == start) {
      shape->start[level] = base + start;
      shape->first_symbol[level] = symbol;
    }
    const uint32_t from = (lane >= start ? lane + width : lane) & 31;
    count = __shfl_sync(kAllLanes, count, from);
    symbol = __shfl_sync(kAllLanes, symbol, from);
    left -= width;
    if (lane >= left) count = 0;
  }
  if (lane == 0) shape->cost_bits = cost_bits;
}

/// Two symbols, one a half, after the window of three that starts at `start` (in both halves) is
/// taken out of the alphabet.
__device__ __forceinline__ uint32_t Collapse(uint32_t symbols, uint32_t start) {
  return __vminu2(symbols, __viaddmax_u16x2(symbols, 0xFFFDFFFD, start));
}

/// The codes of two pairs of symbols that were collapsed, in the top byte. `minus` is the window's
/// negative start.
__device__ __forceinline__ uint32_t CodesOfPairs(uint32_t first, uint32_t second, uint32_t minus) {
  return __viaddmin_u16x2(first, minus, 0x00030003) * 0x01000400 +
         __viaddmin_u16x2(second, minus, 0x00030003) * 0x10004000;
}
__device__ __forceinline__ uint32_t BothHalves(uint32_t value) {
  return (value & 0xFFFF) * 0x00010001;
}

/// What a lane's elements escape, compacted by groups of 8.
struct FastEscapes {
  uint32_t low[4];
  uint32_t high[4];
  uint32_t count[4];  ///< In the top byte.
  GroupOffsets offsets;
};

/// All lanes: level 0. `symbols` are of four elements a word; `plane` is the lane's first byte of
/// codes.
__device__ __forceinline__ void CodeElements(const uint32_t (&symbols)[4][2], uint32_t plane,
                                             uint32_t table, uint32_t start, FastEscapes* escapes) {
  const uint32_t minus = BothHalves(0 - start);
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) {
    uint32_t codes[2];
    uint32_t selector[2];
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      codes[i] =
          CodesOfPairs(Permute(symbols[k][i], 0, 0x4140), Permute(symbols[k][i], 0, 0x4342), minus);
      selector[i] = LoadShared32(table + (codes[i] >> 22));
    }
    StoreShared16(plane + 64 * k, Permute(codes[0], codes[1], 0x0073));
    const uint32_t first = Permute(symbols[k][0], 0, selector[0]);
    const uint32_t second = Permute(symbols[k][1], 0, selector[1]);
    const uint32_t shift = Permute(selector[0], 0, 0x4442);
    escapes->low[k] = first | ShiftLeftClamped(0, second, shift);
    escapes->high[k] = ShiftLeftClamped(second, 0, shift);
    escapes->count[k] = selector[0] + selector[1];
  }
  escapes->offsets =
      ScanGroups(Permute(Permute(escapes->count[0], escapes->count[1], 0x0073),
                         Permute(escapes->count[2], escapes->count[3], 0x0073), 0x5410));
}

/// Stores the lane's escapes; `list` is the place of the warp's first.
__device__ __forceinline__ void ListEscapes(const FastEscapes& escapes, uint32_t list) {
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) {
    const uint32_t to = list + escapes.offsets.at[k];
    const uint32_t count = escapes.count[k] >> 24;
    if (count >= 1) StoreShared8<0>(to, escapes.low[k]);
    if (count >= 2) StoreShared8<1>(to, escapes.low[k] >> 8);
    if (count >= 3) StoreShared8<2>(to, escapes.low[k] >> 16);
    if (count >= 4) StoreShared8<3>(to, escapes.low[k] >> 24);
    if (count >= 5) StoreShared8<4>(to, escapes.high[k]);
    if (count >= 6) {
      StoreShared8<5>(to, escapes.high[k] >> 8);
      if (count >= 7) StoreShared8<6>(to, escapes.high[k] >> 16);
      if (count >= 8) StoreShared8<7>(to, escapes.high[k] >> 24);
    }
  }
}

/// A warp's 128 kGroups entries of a list at one level, 4 kGroups a lane.
template <uint32_t kGroups>
struct ListPart {
  uint32_t symbols[kGroups];
  uint32_t selector[kGroups];
  uint32_t place;  ///< Of the lane's escapes in the warp.
  uint32_t total;  ///< Of the warp.
};

/// All lanes. `left`: entries from the lane's first on, may be negative; entries behind the list up
/// to a multiple of 4 have code 0. `from`, `to`: the lane's first entry and byte of codes.
template <uint32_t kLevel, uint32_t kGroups>
__device__ __forceinline__ void CodePart(uint32_t from, uint32_t to, int left, uint32_t table,
                                         const FastShape& shape, ListPart<kGroups>* part) {
  const uint32_t minus = BothHalves(0 - shape.start[kLevel]);
  uint32_t own = 0;
#pragma unroll
  for (uint32_t g = 0; g < kGroups; ++g) part->symbols[g] = LoadShared32(from + 4 * g);
#pragma unroll
  for (uint32_t g = 0; g < kGroups; ++g) {
    uint32_t first = Permute(part->symbols[g], 0, 0x4140);
    uint32_t second = Permute(part->symbols[g], 0, 0x4342);
#pragma unroll
    for (uint32_t level = 0; level < kLevel; ++level) {
      first = Collapse(first, BothHalves(shape.start[level]));
      second = Collapse(second, BothHalves(shape.start[level]));
    }
    uint32_t codes = CodesOfPairs(first, second, minus);
    if (left <= static_cast<int>(4 * g)) {
      codes = 0;
    } else {
      StoreShared8(to + g, codes >> 24);
    }
    part->selector[g] = LoadShared32(table + (codes >> 22));
    own += part->selector[g] >> 24;
  }
  const uint32_t inclusive = ScanInclusive(own);
  part->place = inclusive - own;
  part->total = __shfl_sync(kAllLanes, inclusive, 31);
}

/// Stores the lane's escapes; `to` is the place of the warp's first.
template <uint32_t kGroups>
__device__ __forceinline__ void ListPartEscapes(const ListPart<kGroups>& part, uint32_t to) {
  to += part.place;
#pragma unroll
  for (uint32_t g = 0; g < kGroups; ++g) {
    const uint32_t symbols = Permute(part.symbols[g], 0, part.selector[g]);
    const uint32_t count = part.selector[g] >> 24;
    if (count >= 1) StoreShared8<0>(to, symbols);
    if (count >= 2) StoreShared8<1>(to, symbols >> 8);
    if (count >= 3) {
      StoreShared8<2>(to, symbols >> 16);
      if (count >= 4) StoreShared8<3>(to, symbols >> 24);
    }
    to += count;
  }
}

/// The escapes of the warps before this one, and of all.
struct WarpPrefix {
  uint32_t before;
  uint32_t total;
};
__device__ __forceinline__ WarpPrefix PrefixOf(const uint32_t* counts) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t count = lane < FastDecode::kWarps ? counts[lane] : 0;
  return {__reduce_add_sync(kAllLanes, lane < threadIdx.x / 32 ? count : 0),
          __reduce_add_sync(kAllLanes, count)};
}

/// By all threads: codes the list of `listed` entries at level 1 in place. Returns the number of
/// escapes, which are the list then, after the next barrier.
__device__ __forceinline__ uint32_t SyncCodeLevel1(uint32_t list, uint32_t listed, uint32_t codes,
                                                   uint32_t table, const FastShape& shape,
                                                   uint32_t* counts) {
  constexpr uint32_t kGroups = 3;
  constexpr uint32_t kPass = 128 * kGroups * FastDecode::kWarps;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t warp = threadIdx.x / 32;
  uint32_t escapes = 0;
#pragma unroll 1
  for (uint32_t first = 0; first < listed; first += kPass) {
    const uint32_t begin = first + 128 * kGroups * warp;
    const uint32_t at = begin + 4 * kGroups * lane;
    ListPart<kGroups> part;
    part.total = 0;
    if (begin < listed) {
      CodePart<1>(list + at, codes + at / 4, static_cast<int>(listed) - static_cast<int>(at), table,
                  shape, &part);
    }
    if (lane == 0) counts[warp] = part.total;
    __syncthreads();
    const WarpPrefix prefix = PrefixOf(counts);
    if (begin < listed) ListPartEscapes(part, list + escapes + prefix.before);
    escapes += prefix.total;
    if (first + kPass < listed) __syncthreads();
  }
  if (threadIdx.x < 4) StoreShared8(list + escapes + threadIdx.x, shape.first_symbol[2]);
  return escapes;
}

/// By one warp: the same for level 2 or 3, ready for the warp.
template <uint32_t kLevel>
__device__ __forceinline__ uint32_t WarpCodeLevel(uint32_t list, uint32_t listed, uint32_t codes,
                                                  uint32_t table, const FastShape& shape) {
  constexpr uint32_t kGroups = 3;
  const uint32_t lane = threadIdx.x % 32;
  uint32_t escapes = 0;
#pragma unroll 1
  for (uint32_t first = 0; first < listed; first += 128 * kGroups) {
    const uint32_t at = first + 4 * kGroups * lane;
    ListPart<kGroups> part;
    CodePart<kLevel>(list + at, codes + at / 4, static_cast<int>(listed) - static_cast<int>(at),
                     table, shape, &part);
    __syncwarp();
    ListPartEscapes(part, list + escapes);
    escapes += part.total;
    __syncwarp();
  }
  if (kLevel < 3 && lane < 4)
    StoreShared8(list + escapes + lane, shape.first_symbol[kLevel < 3 ? kLevel + 1 : 3]);
  __syncwarp();
  return escapes;
}

}  // namespace cinch::codec::gpu
