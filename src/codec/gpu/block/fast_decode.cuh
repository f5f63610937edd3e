// SPDX-License-Identifier: Apache-2.0
/// @file fast_decode.cuh
/// The decoder for the blocks that most bytes are in: whole bf16 cascade blocks with 2-bit codes at
/// level 0, no zero planes and no more escapes than usual, to a 16-byte aligned output. 16 warps; a
/// warp takes 1024 elements, a lane 8 of each 256. Device only; the verdicts are those of
/// decode_block.cuh.
///
/// Four codes, a byte, index a table of byte selectors: one permute then picks each of four symbols
/// from the level's window or from the list of escapes. While level 0's escapes are counted by all
/// warps, twelve of them count level 1's, three level 2's and one level 3's, so that one barrier
/// tells every warp its place in every list.
#pragma once

#include <cstdint>

#include "codec/gpu/block/workspace.cuh"
#include "codec/gpu/warp/lanes.cuh"
#include "format/block_hash.h"
#include "format/layout.h"

namespace cinch::codec::gpu {

struct FastDecode {
  static constexpr uint32_t kWarps = 16;
  static constexpr uint32_t kElements = format::kBlockBytes / 2;
  static constexpr uint32_t kWarpElements = kElements / kWarps;
  static constexpr uint32_t kCodeOffset = format::kResidueOffset + kElements;
  static constexpr uint32_t kCodedOffset = kCodeOffset + kElements / 4;
  static constexpr uint32_t kTag = 0x00020202;  // Cascade, bf16, level0_bits 2, no zero planes.
  // A warp expands 512 entries: warps 0 to 11 those of level 1, 12 to 14 of level 2, 15 of level 3.
  static constexpr uint32_t kLevel2Warp = 12;
  static constexpr uint32_t kLevel3Warp = 15;
  static constexpr uint32_t kWarpEntries = 512;
};

/// A selector for each byte of codes: bits 0 to 15 pick symbol (0 to 2) or next escape (4 and up)
/// for each of its four entries; byte 2 is 8 times, byte 3 once the number of escapes.
__device__ __forceinline__ uint32_t MergeSelector(uint32_t codes) {
  uint32_t selector = 0;
  uint32_t escapes = 0;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t code = (codes >> (2 * i)) & 3;
    selector |= (code == 3 ? 4 + escapes++ : code) << (4 * i);
  }
  return selector | (escapes << 19) | (escapes << 24);
}

/// The first words of a cascade block.
struct FastHead {
  uint32_t window_starts;
  uint32_t listed[3];  ///< Escapes of levels 0 to 2: entries of levels 1 to 3.
  uint32_t raws;
  uint32_t reserved;

  __device__ __forceinline__ explicit FastHead(uint32_t payload) {
    window_starts = LoadShared32<8>(payload);
    const uint32_t first = LoadShared32<12>(payload);
    const uint32_t second = LoadShared32<16>(payload);
    reserved = LoadShared32<20>(payload);
    listed[0] = first & 0xFFFF;
    listed[1] = first >> 16;
    listed[2] = second & 0xFFFF;
    raws = second >> 16;
  }
  __device__ __forceinline__ bool IsUsual() const {
    return listed[0] <= FastDecode::kLevel2Warp * FastDecode::kWarpEntries &&
           listed[1] <= 3 * FastDecode::kWarpEntries && listed[2] <= FastDecode::kWarpEntries;
  }
  __device__ __forceinline__ uint32_t EndBytes() const {
    return FastDecode::kCodedOffset + (listed[0] + 3) / 4 + (listed[1] + 3) / 4 +
           (listed[2] + 3) / 4 + raws;
  }
  /// All that needs no list.
  __device__ __forceinline__ bool IsValid(uint32_t payload_bytes) const {
    const uint32_t starts = window_starts;
    return reserved == 0 && (EndBytes() + 15) / 16 * 16 == payload_bytes &&
           (starts & 0xFF) <= 253 && ((starts >> 8) & 0xFF) <= 250 &&
           ((starts >> 16) & 0xFF) <= 247 && (starts >> 24) <= 244;
  }
  /// The three symbols that a level's codes name, a byte each.
  template <uint32_t kLevel>
  __device__ __forceinline__ uint32_t Book() const {
    uint32_t book = 0;
#pragma unroll
    for (uint32_t code = 0; code < 3; ++code) {
      uint32_t symbol = ((window_starts >> (8 * kLevel)) & 0xFF) + code;
#pragma unroll
      for (uint32_t level = kLevel; level-- > 0;) {
        if (symbol >= ((window_starts >> (8 * level)) & 0xFF)) symbol += 3;
      }
      book |= symbol << (8 * code);
    }
    return book;
  }
};

/// A warp's 512 entries of one level: the selectors of the lane's 16, and their escapes' place in
/// the warp.
struct FastChunk {
  uint32_t selector[4];
  uint32_t place;
  uint32_t total;
};

/// All lanes. `left`: the level's code bytes from the lane's first on; may be negative.
__device__ __forceinline__ FastChunk CountChunk(uint32_t codes, uint32_t table, int left) {
  uint32_t bytes[4] = {0, 0, 0, 0};
  if (left > 0) bytes[0] = LoadShared8<0>(codes);
  if (left > 1) bytes[1] = LoadShared8<1>(codes);
  if (left > 2) bytes[2] = LoadShared8<2>(codes);
  if (left > 3) bytes[3] = LoadShared8<3>(codes);
  FastChunk chunk;
  uint32_t own = 0;
#pragma unroll
  for (uint32_t g = 0; g < 4; ++g) {
    chunk.selector[g] = LoadShared32(table + 4 * bytes[g]);
    own += chunk.selector[g] >> 24;
  }
  const uint32_t inclusive = ScanInclusive(own);
  chunk.place = inclusive - own;
  chunk.total = __shfl_sync(kAllLanes, inclusive, 31);
  return chunk;
}

/// Writes the lane's 16 symbols to `to`; `from` is the place of the warp's first escape's symbol.
__device__ __forceinline__ void ExpandChunk(const FastChunk& chunk, uint32_t book, uint32_t from,
                                            uint32_t to) {
  from += chunk.place;
#pragma unroll
  for (uint32_t g = 0; g < 4; ++g) {
    StoreShared32(to + 4 * g, Permute(book, LoadSharedUnaligned32(from), chunk.selector[g]));
    from += chunk.selector[g] >> 24;
  }
}

/// The terms of section 6 for four words, the first of which is word `first_word`, an even one.
__device__ __forceinline__ uint64_t HashVector(uint4 words, uint32_t first_word) {
  return format::HashPair(first_word / 2, words.x, words.y) +
         format::HashPair(first_word / 2 + 1, words.z, words.w);
}

/// The lane's level-0 codes: selectors of the two halves of each group of 8, and where the groups'
/// escapes are in the warp's part of the list.
struct FastElements {
  uint32_t low[4];
  uint32_t high[4];
  GroupOffsets offsets;
};

/// All lanes; `codes` is the lane's first byte of codes.
__device__ __forceinline__ FastElements CountElements(uint32_t codes, uint32_t table) {
  FastElements elements;
  uint32_t sum[4];
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) {
    elements.low[k] = LoadShared32(table + 4 * LoadShared8<0>(codes + 64 * k));
    elements.high[k] = LoadShared32(table + 4 * LoadShared8<1>(codes + 64 * k));
    sum[k] = elements.low[k] + elements.high[k];
  }
  elements.offsets =
      ScanGroups(Permute(Permute(sum[0], sum[1], 0x0073), Permute(sum[2], sum[3], 0x0073), 0x5410));
  return elements;
}

/// Joins and stores the lane's elements; returns its share of the hash's sum. `list` is the place
/// of the warp's first escape's symbol, `residues` of the lane's first residue.
__device__ __forceinline__ uint64_t JoinElements(const FastElements& elements, uint32_t book,
                                                 uint32_t list, uint32_t residues,
                                                 uint32_t first_word, bool checksum,
                                                 uint8_t* output) {
  uint64_t hash = 0;
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) {
    const uint32_t at = list + elements.offsets.at[k];
    const uint32_t aligned = at & ~3U;
    const uint32_t middle = LoadShared32<4>(aligned);
    const uint32_t first = ShiftRightWrapped(LoadShared32<0>(aligned), middle, 8 * at);
    const uint32_t second = ShiftRightWrapped(middle, LoadShared32<8>(aligned), 8 * at);
    const uint32_t rest = ShiftRightClamped(first, second, Permute(elements.low[k], 0, 0x4442));
    const uint32_t low = Permute(book, first, elements.low[k]);
    const uint32_t high = Permute(book, rest, elements.high[k]);
    const uint2 residue = LoadShared64(residues + 256 * k);
    uint4 words = make_uint4(Permute(residue.x, low, 0x5140), Permute(residue.x, low, 0x7362),
                             Permute(residue.y, high, 0x5140), Permute(residue.y, high, 0x7362));
    words.x = RotateRightOne(words.x);
    words.y = RotateRightOne(words.y);
    words.z = RotateRightOne(words.z);
    words.w = RotateRightOne(words.w);
    if (checksum) hash += HashVector(words, first_word + 128 * k);
    StoreStream(output + 512 * k, words);
  }
  return hash;
}

/// One warp: whether this lane sees a reserved bit behind a level's codes or the payload's end.
__device__ __forceinline__ bool SeesReservedBits(const FastHead& head, uint32_t payload,
                                                 uint32_t payload_bytes) {
  const uint32_t lane = threadIdx.x % 32;
  if (lane >= 16) {
    const uint32_t at = head.EndBytes() + lane - 16;
    return at < payload_bytes && LoadShared8(payload + at) != 0;
  }
  uint32_t codes = payload + FastDecode::kCodedOffset;
  bool seen = false;
#pragma unroll
  for (uint32_t level = 0; level < 3; ++level) {
    const uint32_t entries = head.listed[level];
    if (lane == level && entries % 4 != 0) {
      seen = (LoadShared8(codes + entries / 4) >> (2 * (entries % 4))) != 0;
    }
    codes += (entries + 3) / 4;
  }
  return seen;
}

/// All lanes: adds the warp's shares of the hash's sum to that of the team.
__device__ __forceinline__ void WarpAddHash(uint64_t share, uint64_t* sum) {
  const uint64_t low = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(share) & 0xFFFFFF);
  const uint64_t middle =
      __reduce_add_sync(kAllLanes, static_cast<uint32_t>(share >> 24) & 0xFFFFFF);
  const uint64_t high = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(share >> 48));
  if (threadIdx.x % 32 == 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(sum),
              static_cast<unsigned long long>(low + (middle << 24) + (high << 48)));
  }
}

/// A warp's part of one of the levels 1 to 3.
struct FastLevelPart {
  uint32_t level;
  uint32_t first_warp;  ///< Of the level.
  uint32_t codes;       ///< Of the level.
  uint32_t byte;        ///< Of its codes, the lane's first.
  uint32_t entries;     ///< Of the level.
  bool busy;

  __device__ __forceinline__ FastLevelPart(const FastHead& head, uint32_t payload, uint32_t warp) {
    level = warp < FastDecode::kLevel2Warp ? 1 : warp < FastDecode::kLevel3Warp ? 2 : 3;
    first_warp = level == 1 ? 0 : level == 2 ? FastDecode::kLevel2Warp : FastDecode::kLevel3Warp;
    codes = payload + FastDecode::kCodedOffset;
    if (level > 1) codes += (head.listed[0] + 3) / 4;
    if (level > 2) codes += (head.listed[1] + 3) / 4;
    entries = level == 1 ? head.listed[0] : level == 2 ? head.listed[1] : head.listed[2];
    byte = FastDecode::kWarpEntries / 4 * (warp - first_warp) + 4 * (threadIdx.x % 32);
    busy = FastDecode::kWarpEntries * (warp - first_warp) < entries;
  }
  __device__ __forceinline__ FastChunk Count(uint32_t table) const {
    return CountChunk(codes + byte, table,
                      static_cast<int>((entries + 3) / 4) - static_cast<int>(byte));
  }
};

/// Decodes a block of 16 warps whose head is usual and valid from shared memory at `payload` to
/// `output`. False, for all threads, when the lists are not what the head says. The hash's sum is
/// added to workspace->hash_sum, which is 0 before and complete after the next barrier. `table` has
/// the selectors. By all threads, who have left the block before.
__device__ __forceinline__ bool SyncFastDecode(const FastHead& head, uint32_t payload,
                                               uint32_t payload_bytes, uint32_t table,
                                               bool checksum, uint8_t* output,
                                               DecodeWorkspace* workspace) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0);
  const uint32_t list0 = SharedAddress(workspace->list);
  const uint32_t list1 = SharedAddress(workspace->original);
  const uint32_t list2 = list1 + 4096;
  const FastElements elements = CountElements(
      payload + FastDecode::kCodeOffset + warp * (FastDecode::kWarpElements / 4) + 2 * lane, table);
  const FastLevelPart part(head, payload, warp);
  FastChunk chunk{};
  if (part.busy) chunk = part.Count(table);
  if (part.level == 3) {
    const uint32_t raws = part.codes + (part.entries + 3) / 4;
    if (part.busy) ExpandChunk(chunk, head.Book<3>(), raws, list2 + 4 * part.byte);
    // A number of escapes that cannot be.
    if (__any_sync(kAllLanes, SeesReservedBits(head, payload, payload_bytes)))
      chunk.total = 0x10000;
  }
  if (lane == 0) {
    workspace->escapes[0][warp] = elements.offsets.total;
    workspace->escapes[1][warp] = chunk.total;
  }
  __syncthreads();
  const uint32_t count0 = lane < FastDecode::kWarps ? workspace->escapes[0][lane] : 0;
  const uint32_t count = lane < FastDecode::kWarps ? workspace->escapes[1][lane] : 0;
  const auto sum = [&](uint32_t value, uint32_t from, uint32_t to) {
    return __reduce_add_sync(kAllLanes, lane >= from && lane < to ? value : 0);
  };
  const uint32_t before0 = sum(count0, 0, warp);
  const uint32_t before = sum(count, part.first_warp, warp);
  if (sum(count0, 0, 16) != head.listed[0] ||
      sum(count, 0, FastDecode::kLevel2Warp) != head.listed[1] ||
      sum(count, FastDecode::kLevel2Warp, FastDecode::kLevel3Warp) != head.listed[2] ||
      sum(count, FastDecode::kLevel3Warp, 16) != head.raws) {
    return false;
  }
  if (part.level == 2 && part.busy) {
    ExpandChunk(chunk, head.Book<2>(), list2 + before, list1 + 4 * part.byte);
  }
  __syncthreads();
  if (part.level == 1 && part.busy) {
    ExpandChunk(chunk, head.Book<1>(), list1 + before, list0 + 4 * part.byte);
  }
  __syncthreads();
  const uint32_t residues =
      payload + format::kResidueOffset + warp * FastDecode::kWarpElements + 8 * lane;
  const uint64_t hash =
      JoinElements(elements, head.Book<0>(), list0 + before0, residues, warp * 512 + lane * 4,
                   checksum, output + warp * 2048 + lane * 16);
  if (checksum) WarpAddHash(hash, &workspace->hash_sum);
  return true;
}

}  // namespace cinch::codec::gpu
