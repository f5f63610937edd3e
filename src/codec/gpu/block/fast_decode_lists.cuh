// SPDX-License-Identifier: Apache-2.0
/// @file fast_decode_lists.cuh
/// The lists of levels 1 to 3 on the fast path, a chunk a warp. Device only.
///
/// Four codes, a byte, index a table of byte selectors: one permute then picks each of four symbols
/// from the level's window or from the list of escapes.
#pragma once

#include <cstdint>

#include "codec/gpu/block/fast_decode_plan.cuh"
#include "codec/gpu/warp/lanes.cuh"

namespace cinch::codec::gpu {

/// A selector for each byte of codes: bits 0 to 15 pick symbol (0 to 2) or next escape (4 and up)
/// for each of its four entries; the upper half is 8 times the number of escapes.
__device__ __forceinline__ uint32_t MergeSelector(uint32_t codes) {
  uint32_t selector = 0;
  uint32_t escapes = 0;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t code = (codes >> (2 * i)) & 3;
    selector |= (code == 3 ? 4 + escapes++ : code) << (4 * i);
  }
  return selector | (escapes << 19);
}
/// The same for symbols that have been picked already: entry i is the i-th of them.
__device__ __forceinline__ uint32_t KeepSelector(uint32_t codes) {
  uint32_t selector = 0;
  uint32_t escapes = 0;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const bool is_escape = ((codes >> (2 * i)) & 3) == 3;
    selector |= (is_escape ? 4 + escapes++ : i) << (4 * i);
  }
  return selector | (escapes << 19);
}

/// The selector of byte `byte` of a word of codes.
__device__ __forceinline__ uint32_t SelectorOf(uint32_t table, uint32_t codes, uint32_t byte) {
  const uint32_t index = byte == 0 ? codes << 2 : codes >> (8 * byte - 2);
  return ReadShared<uint32_t>(table + (index & 0x3FC));
}

__device__ __forceinline__ uint32_t CountEscapes(uint32_t codes) {
  return CountOnes(codes & (codes >> 1) & 0x55555555);
}

/// The codes of the first `entries` entries of a word, which may be any number.
__device__ __forceinline__ uint32_t MaskCodes(uint32_t codes, int entries) {
  const uint32_t bits = entries <= 0 ? 0 : static_cast<uint32_t>(entries) * 2;
  return bits >= 32 ? codes : codes & ((1U << bits) - 1);
}

/// A warp's chunk of one level: the lane's codes, and their escapes' place in the warp.
struct FastChunk {
  uint32_t level;  ///< 1 to 3; 0 for a warp that has no chunk.
  uint32_t first;  ///< The lane's first entry.
  uint32_t codes[2];
  uint32_t place;
  uint32_t total;
};

/// The chunk of warp `warp`; `place` is how many escapes the lane has until PlaceChunk is called.
__device__ __forceinline__ FastChunk FindChunk(const DecodePlan& plan, uint32_t payload,
                                               uint32_t warp) {
  FastChunk chunk{};
  const FastChunks& chunks = plan.chunks;
  if (warp >= chunks.end[2]) return chunk;
  chunk.level = warp < chunks.end[0] ? 1 : warp < chunks.end[1] ? 2 : 3;
  const uint32_t begin = chunk.level == 1 ? 0 : chunks.end[chunk.level - 2];
  const uint32_t entries = plan.listed[chunk.level - 1];
  const bool twice = chunks.shift != FastDecode::kChunkShift;
  const uint32_t codes = payload + plan.lists[chunk.level - 1];
  chunk.first = ((warp - begin) << chunks.shift) + ((threadIdx.x % 32) << (chunks.shift - 5));
  const int left = static_cast<int>(entries) - static_cast<int>(chunk.first);
  chunk.codes[0] = MaskCodes(ReadSharedUnaligned(codes + chunk.first / 4), left);
  if (twice) {
    chunk.codes[1] = MaskCodes(ReadSharedUnaligned(codes + chunk.first / 4 + 4), left - 16);
  }
  chunk.place = CountEscapes(chunk.codes[0]) + CountEscapes(chunk.codes[1]);
  return chunk;
}
/// All lanes: `end` is the sum of the lanes' escapes up to this lane.
__device__ __forceinline__ void PlaceChunk(uint32_t end, FastChunk* chunk) {
  chunk->place = end - chunk->place;
  chunk->total = __shfl_sync(kAllLanes, end, 31);
}

/// Writes the symbols of 16 entries to `to`, taking those of escapes, to be shifted up by `shift`,
/// from `from` on; returns where the next ones are.
__device__ __forceinline__ uint32_t ExpandCodes(uint32_t codes, uint32_t table, uint32_t book,
                                                uint32_t from, uint32_t shift, uint32_t to) {
  uint32_t selector[4];
  uint32_t symbols[4];
#pragma unroll
  for (uint32_t g = 0; g < 4; ++g) selector[g] = SelectorOf(table, codes, g);
#pragma unroll
  for (uint32_t g = 0; g < 4; ++g) {
    // Raw symbols have been checked: none reaches into its neighbour.
    symbols[g] = Permute(book, ReadSharedUnaligned(from) << shift, selector[g]);
    from += selector[g] >> 19;
  }
  WriteShared(to, make_uint4(symbols[0], symbols[1], symbols[2], symbols[3]));
  return from;
}

/// Writes the lane's symbols to the list at `to`; `from` is where the warp's escapes' symbols are.
__device__ __forceinline__ void ExpandChunk(const DecodePlan& plan, const FastChunk& chunk,
                                            uint32_t table, uint32_t from, uint32_t shift,
                                            uint32_t to) {
  const uint32_t book = plan.books[chunk.level][0];
  from = ExpandCodes(chunk.codes[0], table, book, from + chunk.place, shift, to + chunk.first);
  if (plan.chunks.shift != FastDecode::kChunkShift) {
    ExpandCodes(chunk.codes[1], table, book, from, shift, to + chunk.first + 16);
  }
}

}  // namespace cinch::codec::gpu
