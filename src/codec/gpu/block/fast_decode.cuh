// SPDX-License-Identifier: Apache-2.0
/// @file fast_decode.cuh
/// The decoder for the blocks that most bytes are in: whole numbers of 32 bytes with no more
/// escapes than usual; and stored and constant blocks of such lengths. 16 warps, device only; the
/// verdicts are those of decode_block.cuh. fast_decode_plan.cuh has the checks that come first.
///
/// While all warps count their elements' escapes, each also counts those of its chunk of the lists
/// of levels 1 to 3, so that one barrier tells every warp its place in every list. Two more
/// separate the lists from each other and the elements.
#pragma once

#include <cstdint>

#include "codec/gpu/block/fast_decode_elements.cuh"
#include "codec/gpu/block/fast_decode_lists.cuh"
#include "codec/gpu/block/fast_decode_plan.cuh"
#include "codec/gpu/warp/lanes.cuh"
#include "codec/gpu/warp/phases.cuh"
#include "codec/gpu/warp/pipeline.cuh"
#include "codec/gpu/warp/team.cuh"
#include "format/block_hash.h"

namespace cinch::codec::gpu {

inline constexpr uint32_t kDecoderBarrier = 1;
/// The first threads of a thread block that has more: a team with a barrier of its own.
class DecoderTeam : public CtaTeam<FastDecode::kThreads> {
 public:
  __device__ __forceinline__ void Sync() const { SyncPart<kDecoderBarrier>(threads()); }
  __device__ __forceinline__ bool SyncAny(bool value) const {
    return SyncPartAny<kDecoderBarrier>(threads(), value);
  }
};

/// The lists, in shared memory; the same memory serves block after block.
struct FastLists {
  alignas(16) uint8_t level0[FastDecode::kList0Bytes];
  alignas(16) uint8_t level1[FastDecode::kList1Bytes];
  alignas(16) uint8_t level2[FastDecode::kList2Bytes];
};

/// What all blocks share.
struct FastShared {
  uint32_t merge_selectors[256];
  uint32_t keep_selectors[256];
  uint32_t dtypes[kFastDtypes];          ///< FastDtype's words.
  uint32_t escapes[FastDecode::kWarps];  ///< By warp: of level 0, and from bit 16 of its chunk.
};

/// A block on the fast path, as every thread of the team sees it.
struct FastTask {
  const DecodePlan* plan;
  uint32_t payload;  ///< Shared address.
  uint8_t* output;
  bool checksum;
  uint64_t* hash;  ///< The warp's share of the hash's sum.
};

/// All lanes: stores the sum of the lanes' shares of the hash.
__device__ __forceinline__ void WarpStoreHash(const FastTask& task, uint64_t share) {
  const uint64_t low = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(share) & 0xFFFFFF);
  const uint64_t middle =
      __reduce_add_sync(kAllLanes, static_cast<uint32_t>(share >> 24) & 0xFFFFFF);
  const uint64_t high = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(share >> 48));
  if (threadIdx.x % 32 == 0) *task.hash = low + (middle << 24) + (high << 48);
}

/// Of this lane.
__device__ __forceinline__ uint32_t FirstUnit(const FastFields& fields) {
  return threadIdx.x / 32 * fields.groups * 32 + threadIdx.x % 32;
}

/// What the hash of section 6 adds to the words of the lane's first unit.
struct HashKeys {
  uint32_t even;
  uint32_t odd;

  __device__ __forceinline__ explicit HashKeys(uint32_t unit)
      : even(format::kHashEvenKeyFactor * (2 * unit + 1)),
        odd(format::kHashOddKeyFactor * (2 * unit + 1)) {}
  /// The terms of the words of the unit that follows the first one by `units`.
  __device__ __forceinline__ uint64_t Terms(uint4 words, uint32_t units) const {
    const uint32_t even_step = format::kHashEvenKeyFactor;
    const uint32_t odd_step = format::kHashOddKeyFactor;
    const uint32_t x = words.x + even + even_step * (2 * units);
    const uint32_t y = words.y + odd + odd_step * (2 * units);
    const uint32_t z = words.z + even + even_step * (2 * units + 1);
    const uint32_t w = words.w + odd + odd_step * (2 * units + 1);
    return uint64_t{x} * y + uint64_t{z} * w;
  }
};

/// Stores `make(k, unit)`, the words of each of the lane's units, and the warp's share of the hash.
/// For whole blocks.
template <bool kChecksum, typename Make>
__device__ __forceinline__ void WarpStoreWhole(const FastTask& task, const FastFields& fields,
                                               const Make& make) {
  const uint32_t first_unit = FirstUnit(fields);
  const HashKeys keys(first_unit);
  uint8_t* output = task.output + FastDecode::kUnitBytes * first_unit;
  uint64_t hash = 0;
#pragma unroll
  for (uint32_t k = 0; k < FastDecode::kGroups; ++k) {
    const uint4 words = make(k, first_unit + 32 * k);
    StoreStreamLoose(output + 32 * FastDecode::kUnitBytes * k, words);
    if constexpr (kChecksum) hash += keys.Terms(words, 32 * k);
  }
  if constexpr (kChecksum) WarpStoreHash(task, hash);
}

/// Stores a unit at any address. Not inlined: it is long, and rare.
inline __device__ __noinline__ void StoreUnaligned(uint8_t* output, uint4 words) {
  const uint32_t word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    if (IsAligned(output, 4)) {
      StoreAligned<uint32_t>(output + 4 * i, word[i]);
    } else if (IsAligned(output, 2)) {
      StoreAligned<uint16_t>(output + 4 * i, static_cast<uint16_t>(word[i]));
      StoreAligned<uint16_t>(output + 4 * i + 2, static_cast<uint16_t>(word[i] >> 16));
    } else {
      for (uint32_t k = 0; k < 4; ++k) {
        output[4 * i + k] = static_cast<uint8_t>(word[i] >> (8 * k));
      }
    }
  }
}

/// The same for blocks of any number of units, to any address.
template <typename Make>
__device__ __forceinline__ void WarpStoreUnits(const FastTask& task, const FastFields& fields,
                                               const Make& make) {
  const bool aligned = IsAligned(task.output, FastDecode::kUnitBytes);
  if (aligned && fields.units == FastDecode::kGroups * FastDecode::kThreads) {
    return task.checksum ? WarpStoreWhole<true>(task, fields, make)
                         : WarpStoreWhole<false>(task, fields, make);
  }
  const uint32_t first_unit = FirstUnit(fields);
  const HashKeys keys(first_unit);
  uint64_t hash = 0;
#pragma unroll
  for (uint32_t k = 0; k < FastDecode::kGroups; ++k) {
    if (k >= fields.groups) break;
    const uint32_t unit = first_unit + 32 * k;
    const uint4 words = make(k, unit);
    if (unit < fields.units) {
      uint8_t* to = task.output + FastDecode::kUnitBytes * unit;
      aligned ? StoreStreamLoose(to, words) : StoreUnaligned(to, words);
      hash += keys.Terms(words, 32 * k);
    }
  }
  if (task.checksum) WarpStoreHash(task, hash);
}

/// A warp's places in the lists, and whether the counts are what the block says of them.
struct FastPlaces {
  bool valid;
  uint32_t elements;  ///< In level 0's list.
  uint32_t chunk;     ///< In the list that its chunk's escapes are in.
};

/// By all warps, behind the barrier that follows their counts.
__device__ __forceinline__ FastPlaces WarpFindPlaces(const DecodePlan& plan, const FastChunk& chunk,
                                                     const uint32_t* escapes, uint32_t warp) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t own = lane < FastDecode::kWarps ? escapes[lane] : 0;
  const auto sum = [&](uint32_t end) { return __reduce_add_sync(kAllLanes, lane < end ? own : 0); };
  const uint32_t before = sum(warp);
  const uint32_t all = sum(32);
  const uint32_t first = sum(plan.chunks.end[0]) >> 16;
  const uint32_t second = sum(plan.chunks.end[1]) >> 16;
  FastPlaces places;
  places.valid = (all & 0xFFFF) == plan.listed[0] && first == plan.listed[1] &&
                 second - first == plan.listed[2] && (all >> 16) - second == plan.listed[3];
  places.elements = before & 0xFFFF;
  places.chunk = (before >> 16) - (chunk.level <= 1 ? 0 : chunk.level == 2 ? first : second);
  return places;
}

/// Fills in `load(unit)` for the lane's units, and 0 for units that are not there.
template <typename Load>
__device__ __forceinline__ void LoadUnits(const FastFields& fields, const Load& load,
                                          uint32_t (&codes)[FastDecode::kGroups]) {
  const uint32_t first_unit = FirstUnit(fields);
  if (fields.units == FastDecode::kGroups * FastDecode::kThreads) {
#pragma unroll
    for (uint32_t k = 0; k < FastDecode::kGroups; ++k) codes[k] = load(first_unit + 32 * k);
    return;
  }
#pragma unroll
  for (uint32_t k = 0; k < FastDecode::kGroups; ++k) {
    const uint32_t unit = first_unit + 32 * k;
    codes[k] = k < fields.groups && unit < fields.units ? load(unit) : 0;
  }
}

/// The level-0 codes of the lane's units, 2 bits each, 3 for escape.
template <uint32_t kElements, bool kWide>
__device__ __forceinline__ void LoadAllCodes(const FastFields& fields, uint32_t payload,
                                             uint32_t (&codes)[FastDecode::kGroups]) {
  const uint32_t plane = payload + fields.codes;
  if constexpr (kWide) {
    LoadUnits(
        fields, [&](uint32_t unit) { return LoadWideCodes<kElements>(fields, payload, unit); },
        codes);
  } else if (fields.level0_bits == 2) {
    LoadUnits(
        fields, [&](uint32_t unit) { return LoadCrumbs<kElements>(plane, unit); }, codes);
  } else if (fields.level0_bits == 1) {
    LoadUnits(
        fields, [&](uint32_t unit) { return CodesOfBits(LoadBits<kElements>(plane, unit)); },
        codes);
  } else {
    LoadUnits(
        fields, [](uint32_t) { return 0U; }, codes);
  }
}

template <FastFormat kFormat>
__device__ __forceinline__ uint4 RotateBack(uint4 words, uint32_t rotation) {
  constexpr bool kNeverRotated = kFormat == FastFormat::kWordOf8 ||
                                 kFormat == FastFormat::kLongOf8 || kFormat == FastFormat::kByteOf8;
  if constexpr (!kNeverRotated) {
    words.x = ShiftRightWrapped(words.x, words.x, rotation);
    words.y = ShiftRightWrapped(words.y, words.y, rotation);
    words.z = ShiftRightWrapped(words.z, words.z, rotation);
    words.w = ShiftRightWrapped(words.w, words.w, rotation);
  }
  return words;
}

/// Decodes a cascade block with a valid plan. False, for all threads, when the lists are not what
/// the block says. By all threads of the team, who need not have left the block before.
template <FastFormat kFormat, bool kWide>
__device__ __forceinline__ bool SyncDecodeFast(const FastTask& task, FastShared* shared,
                                               FastLists* lists) {
  constexpr uint32_t kElements = ElementsOfUnit(kFormat);
  const DecodePlan& plan = *task.plan;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0);
  const uint32_t merge = SharedAddress(shared->merge_selectors);
  const uint32_t list0 = SharedAddress(lists->level0);
  const uint32_t list1 = SharedAddress(lists->level1);
  const uint32_t list2 = SharedAddress(lists->level2);
  uint32_t codes[FastDecode::kGroups];
  LoadAllCodes<kElements, kWide>(FastFields(plan.fields), task.payload, codes);
  FastChunk chunk = FindChunk(plan, task.payload, warp);
  const GroupOffsets offsets = WarpPlaceEscapes<kElements>(codes, &chunk);
  const uint32_t raws = task.payload + plan.lists[3];
  const bool one_chunk = plan.chunks.end[2] - plan.chunks.end[1] <= 1;
  if (one_chunk && chunk.level == 3) ExpandChunk(plan, chunk, merge, raws, plan.raw_shift, list2);
  if (lane == 0) shared->escapes[warp] = offsets.total | (chunk.total << 16);
  DecoderTeam().Sync();
  const FastPlaces places = WarpFindPlaces(plan, chunk, shared->escapes, warp);
  if (!places.valid) {
    // Nobody may count the next block's escapes while others look at this one's.
    DecoderTeam().Sync();
    return false;
  }
  if (!one_chunk) {
    if (chunk.level == 3) {
      ExpandChunk(plan, chunk, merge, raws + places.chunk, plan.raw_shift, list2);
    }
    DecoderTeam().Sync();
  }
  if (chunk.level == 2) ExpandChunk(plan, chunk, merge, list2 + places.chunk, 0, list1);
  DecoderTeam().Sync();
  if (chunk.level == 1) ExpandChunk(plan, chunk, merge, list1 + places.chunk, 0, list0);
  DecoderTeam().Sync();
  const FastTables tables{kWide ? SharedAddress(shared->keep_selectors) : merge, plan.books[0][0],
                          plan.books[0][1]};
  // A copy: what is in shared memory would be read again for every unit.
  const FastFields fields = plan.fields;
  WarpStoreUnits(task, fields, [&](uint32_t k, uint32_t unit) {
    uint32_t symbols[QuadsOf(kElements)];
    FindSymbols<kElements, kWide>(fields, tables, task.payload, unit, codes[k],
                                  list0 + places.elements + offsets.at[k], symbols);
    return RotateBack<kFormat>(JoinUnit<kFormat>::Words(fields, task.payload, unit, symbols),
                               fields.rotation);
  });
  return true;
}

/// A stored block, whose reserved bytes have been checked.
__device__ __forceinline__ void WarpCopyStored(const FastTask& task) {
  const FastFields fields = task.plan->fields;
  WarpStoreUnits(task, fields, [&](uint32_t, uint32_t unit) {
    return ReadShared<uint4>(task.payload + format::kStoredDataOffset + 16 * unit);
  });
}

/// A constant block.
__device__ __forceinline__ void WarpFillConstant(const FastTask& task) {
  const FastFields fields = task.plan->fields;
  const uint2 pattern = ReadShared<uint2>(task.payload + sizeof(format::BlockHeader));
  WarpStoreUnits(task, fields, [&](uint32_t, uint32_t) {
    return make_uint4(pattern.x, pattern.y, pattern.x, pattern.y);
  });
}

}  // namespace cinch::codec::gpu
