// SPDX-License-Identifier: Apache-2.0
/// @file tile.cuh
/// The window code: 1024 bf16 elements by one warp, without a barrier.
///
/// A tile is 2048 bytes; lane l has words 4l to 4l + 3 of each 128, word n = 4k + i being word i of
/// group k. Every word is rotated left by one, which makes bytes 1 and 3 exponents, the symbols,
/// and bytes 0 and 2 the rest, the residues. A symbol has a code of 3 bits: its distance from the
/// start of a window, or 7 for an escape, whose symbol is listed. A coded tile is
///
///   residues, 1024 bytes: word q of a lane's eight joins those of words 2q and 2q + 1
///   codes, 3 planes of 32 words: bits 3g to 3g + 2 of each half of a lane's word j are the code of
///     the same half of word 3g + j; bit 15 of each half of word j is bit j of word 15's code
///
/// and the escapes are listed in the order of tile, lane, half, word. It costs 3 bits an exponent
/// and 8 an escape, 0.70 of the input for usual data against 0.667 of the frame format's code, and
/// a third of the instructions. Device only.
#pragma once

#include <cstdint>

#include "codec/gpu/warp/lanes.cuh"
#include "codec/gpu/warp/pipeline.cuh"
#include "collectives/fused/memory.cuh"
#include "collectives/fused/protocol.h"

namespace cinch::fused {

using codec::gpu::kAllLanes;
using codec::gpu::LoadShared128;
using codec::gpu::LoadShared8;
using codec::gpu::Permute;
using codec::gpu::ScanInclusive;
using codec::gpu::SharedAddress;
using codec::gpu::StoreShared128;
using codec::gpu::StoreShared32;
using codec::gpu::StoreShared8;

inline constexpr uint32_t kTileWords = 16;  ///< Of a lane.

struct Tile {
  uint32_t word[kTileWords];
};

__device__ __forceinline__ uint4 GroupOf(const Tile& tile, uint32_t k) {
  return make_uint4(tile.word[4 * k], tile.word[4 * k + 1], tile.word[4 * k + 2],
                    tile.word[4 * k + 3]);
}
__device__ __forceinline__ void SetGroup(Tile* tile, uint32_t k, uint4 words) {
  tile->word[4 * k] = words.x;
  tile->word[4 * k + 1] = words.y;
  tile->word[4 * k + 2] = words.z;
  tile->word[4 * k + 3] = words.w;
}
__device__ __forceinline__ uint32_t LaneId() { return threadIdx.x % 32; }

/// `bytes` is 16-byte aligned and global.
__device__ __forceinline__ void LoadTile(const uint8_t* bytes, Tile* tile) {
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) SetGroup(tile, k, LoadOnce(bytes + 512 * k + 16 * LaneId()));
}
__device__ __forceinline__ void StoreTile(const Tile& tile, uint8_t* bytes) {
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) StoreOnce(bytes + 512 * k + 16 * LaneId(), GroupOf(tile, k));
}
/// The same in shared memory.
__device__ __forceinline__ void StoreTileShared(const Tile& tile, uint32_t shared) {
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) {
    StoreShared128(shared + 512 * k + 16 * LaneId(), GroupOf(tile, k));
  }
}
__device__ __forceinline__ void LoadTileShared(uint32_t shared, Tile* tile) {
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k)
    SetGroup(tile, k, LoadShared128(shared + 512 * k + 16 * LaneId()));
}

/// Where the symbol of a half of a word is in a tile of rotated words: `bit` is the word's number,
/// plus 16 for the upper half.
__device__ __forceinline__ uint32_t SymbolPlace(uint32_t shared, uint32_t bit) {
  const uint32_t word = bit & 15;
  return shared + 16 * LaneId() + ((word >> 2) << 9) + ((word & 3) << 2) + ((bit >> 4) << 1) + 1;
}

/// A bit for each escape of the lane, as SymbolPlace numbers them, from its words of codes.
__device__ __forceinline__ uint32_t EscapeMask(const uint32_t (&codes)[3]) {
  uint32_t mask = codes[0] & codes[1] & codes[2] & 0x80008000U;
#pragma unroll
  for (uint32_t j = 0; j < 3; ++j) {
    const uint32_t sevens = codes[j] & (codes[j] >> 1) & (codes[j] >> 2) & 0x12491249U;
    mask |= sevens << j;
  }
  return mask;
}

/// The lane's place among the tile's escapes.
struct EscapePlace {
  uint32_t mask;
  uint32_t before;
  uint32_t total;  ///< Of the warp.
};
__device__ __forceinline__ EscapePlace PlaceEscapes(const uint32_t (&codes)[3]) {
  EscapePlace place;
  place.mask = EscapeMask(codes);
  const uint32_t own = static_cast<uint32_t>(__popc(place.mask));
  const uint32_t inclusive = ScanInclusive(own);
  place.before = inclusive - own;
  place.total = __shfl_sync(kAllLanes, inclusive, 31);
  return place;
}

/// Two symbols of a rotated word, a half each.
__device__ __forceinline__ uint32_t SymbolsOf(uint32_t rotated) {
  return Permute(rotated, 0, 0x4341);
}
__device__ __forceinline__ uint32_t RotateLeft(uint32_t word) {
  return __funnelshift_l(word, word, 1);
}
__device__ __forceinline__ uint32_t RotateRight(uint32_t word) {
  return __funnelshift_r(word, word, 1);
}

/// All lanes: the best window for a sample of the tile, 4 elements a lane. `histogram` is 1 KiB of
/// the warp's shared memory.
__device__ __forceinline__ uint32_t ChooseWindow(const Tile& tile, uint32_t histogram) {
  const uint32_t lane = LaneId();
  StoreShared128(histogram + 16 * lane, make_uint4(0, 0, 0, 0));
  StoreShared128(histogram + 512 + 16 * lane, make_uint4(0, 0, 0, 0));
  __syncwarp();
#pragma unroll
  for (uint32_t n = 0; n < kTileWords; n += 5) {
    const uint32_t symbol = (tile.word[n] >> 7) & 0xFF;
    asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(histogram + 4 * symbol) : "memory");
  }
  __syncwarp();
  uint32_t bin[8 + kWindowSymbols - 1];
  const uint4 low = LoadShared128(histogram + 32 * lane);
  const uint4 high = LoadShared128(histogram + 32 * lane + 16);
  bin[0] = low.x, bin[1] = low.y, bin[2] = low.z, bin[3] = low.w;
  bin[4] = high.x, bin[5] = high.y, bin[6] = high.z, bin[7] = high.w;
#pragma unroll
  for (uint32_t i = 8; i < 8 + kWindowSymbols - 1; ++i) {
    bin[i] = __shfl_down_sync(kAllLanes, bin[i - 8], 1);
  }
  uint32_t sum = 0;
#pragma unroll
  for (uint32_t i = 0; i < kWindowSymbols; ++i) sum += bin[i];
  uint32_t best = 0;
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i) {
    const uint32_t start = 8 * lane + i;
    const uint32_t key = start <= kMaxWindowStart ? (sum << 8) | (255 - start) : 0;
    best = best > key ? best : key;
    if (i < 7) sum += bin[i + kWindowSymbols] - bin[i];
  }
  __syncwarp();
  return 255 - (__reduce_max_sync(kAllLanes, best) & 0xFF);
}

/// A lane's part of a coded tile.
struct CodedTile {
  uint4 residues[2];
  uint32_t codes[3];
};

/// Where a warp codes; shared addresses.
struct EncodePlaces {
  uint32_t rotated;  ///< 2 KiB to work in.
  uint32_t escapes;  ///< The unit's escapes; room for kMaxEscapes.
};

/// All lanes: codes a tile, whose unit has `escapes` escapes so far, and returns how many it has
/// then. What is more than `limit` is counted, not listed. `store` gets the lane's part.
template <typename Store>
__device__ __forceinline__ uint32_t WarpEncodeTile(Tile tile, uint32_t window_start,
                                                   const EncodePlaces& places, uint32_t escapes,
                                                   uint32_t limit, Store store) {
#pragma unroll
  for (uint32_t n = 0; n < kTileWords; ++n) tile.word[n] = RotateLeft(tile.word[n]);
  StoreTileShared(tile, places.rotated);
  const uint32_t minus = ((0U - window_start) & 0xFFFF) * 0x00010001U;
  CodedTile coded{};
#pragma unroll
  for (uint32_t n = 0; n < kTileWords - 1; ++n) {
    const uint32_t code = __viaddmin_u16x2(SymbolsOf(tile.word[n]), minus, 0x00070007U);
    coded.codes[n % 3] += code << (3 * (n / 3));
  }
  const uint32_t last = __viaddmin_u16x2(SymbolsOf(tile.word[15]), minus, 0x00070007U);
#pragma unroll
  for (uint32_t j = 0; j < 3; ++j) coded.codes[j] |= (last << (15 - j)) & 0x80008000U;
#pragma unroll
  for (uint32_t h = 0; h < 2; ++h) {
    const uint32_t* word = tile.word + 8 * h;
    coded.residues[h] =
        make_uint4(Permute(word[0], word[1], 0x6420), Permute(word[2], word[3], 0x6420),
                   Permute(word[4], word[5], 0x6420), Permute(word[6], word[7], 0x6420));
  }
  store(coded);
  const EscapePlace place = PlaceEscapes(coded.codes);
  const uint32_t after = escapes + place.total;
  if (after <= limit) {
    uint32_t to = places.escapes + escapes + place.before;
    for (uint32_t mask = place.mask; mask != 0; mask &= mask - 1) {
      const uint32_t bit = static_cast<uint32_t>(__ffs(static_cast<int>(mask))) - 1;
      StoreShared8(to++, LoadShared8(SymbolPlace(places.rotated, bit)));
    }
  }
  return after;
}

__device__ __forceinline__ void StoreCodedTileShared(const CodedTile& coded, uint32_t shared) {
  const uint32_t lane = LaneId();
#pragma unroll
  for (uint32_t h = 0; h < 2; ++h) StoreShared128(shared + 512 * h + 16 * lane, coded.residues[h]);
#pragma unroll
  for (uint32_t j = 0; j < 3; ++j) {
    StoreShared32(shared + 1024 + 128 * j + 4 * lane, coded.codes[j]);
  }
}
/// `bytes` is 16-byte aligned and global.
__device__ __forceinline__ void StoreCodedTile(const CodedTile& coded, uint8_t* bytes) {
  const uint32_t lane = LaneId();
#pragma unroll
  for (uint32_t h = 0; h < 2; ++h) StoreOnce(bytes + 512 * h + 16 * lane, coded.residues[h]);
#pragma unroll
  for (uint32_t j = 0; j < 3; ++j) StoreOnce32(bytes + 1024 + 128 * j + 4 * lane, coded.codes[j]);
}
/// `bytes` is 16-byte aligned and global.
__device__ __forceinline__ void LoadCodedTile(const uint8_t* bytes, CodedTile* coded) {
  const uint32_t lane = LaneId();
#pragma unroll
  for (uint32_t j = 0; j < 3; ++j) coded->codes[j] = LoadOnce32(bytes + 1024 + 128 * j + 4 * lane);
#pragma unroll
  for (uint32_t h = 0; h < 2; ++h) coded->residues[h] = LoadOnce(bytes + 512 * h + 16 * lane);
}

/// All lanes: decodes a tile whose escapes are at `escapes` (shared; the lane's own part of at most
/// 32 bytes from place.before on is read, whatever the codes say). `rotated` is 2 KiB to work in.
__device__ __forceinline__ void WarpDecodeTile(const CodedTile& coded, const EscapePlace& place,
                                               uint32_t window_start, uint32_t escapes,
                                               uint32_t rotated, Tile* tile) {
  const uint32_t start = window_start * 0x01000100U;
  const uint32_t residues[8] = {coded.residues[0].x, coded.residues[0].y, coded.residues[0].z,
                                coded.residues[0].w, coded.residues[1].x, coded.residues[1].y,
                                coded.residues[1].z, coded.residues[1].w};
#pragma unroll
  for (uint32_t n = 0; n < kTileWords; ++n) {
    uint32_t code;
    if (n < 15) {
      code = (coded.codes[n % 3] >> (3 * (n / 3))) & 0x00070007U;
    } else {
      code = ((coded.codes[0] >> 15) & 0x00010001U) | ((coded.codes[1] >> 14) & 0x00020002U) |
             ((coded.codes[2] >> 13) & 0x00040004U);
    }
    // Residue, code, residue, code.
    tile->word[n] = Permute(residues[n / 2], code, n % 2 == 0 ? 0x6140 : 0x6342) + start;
  }
  if (place.total != 0) {
    StoreTileShared(*tile, rotated);
    uint32_t from = escapes + place.before;
    for (uint32_t mask = place.mask; mask != 0; mask &= mask - 1) {
      const uint32_t bit = static_cast<uint32_t>(__ffs(static_cast<int>(mask))) - 1;
      StoreShared8(SymbolPlace(rotated, bit), LoadShared8(from++));
    }
    LoadTileShared(rotated, tile);
  }
#pragma unroll
  for (uint32_t n = 0; n < kTileWords; ++n) tile->word[n] = RotateRight(tile->word[n]);
}

}  // namespace cinch::fused
