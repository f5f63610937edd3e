// SPDX-License-Identifier: Apache-2.0
/// @file look_back.cuh
/// Where a block's payload goes: the sizes of all blocks before it in its item, found by looking
/// back at what their thread blocks have published (decoupled look-back: Merrill and Garland,
/// 2016).
///
/// Blocks are taken in ascending order by running thread blocks, each of which publishes its own
/// block's size before it waits for others, so a wait ends when the predecessors have been coded.
#pragma once

#include <cstdint>

#include "codec/gpu/warp/memory.cuh"

namespace cinch::codec::gpu {

/// A block's state word: the launch's epoch (28 bits), whether the block's output is complete (bit
/// 35), a stage (bits 32 to 34), and units of 16 bytes.
enum class BlockStage : uint32_t {
  kNone = 0,
  kOwn = 1,     ///< The units are the block's own.
  kPrefix = 2,  ///< The units are those of the item up to and with this block.
  kFailed = 3,  ///< A wait ran out; nobody need wait any longer.
};
inline constexpr uint32_t kEpochBits = 28;
inline constexpr uint32_t kStageShift = 32;
inline constexpr uint32_t kCompleteShift = 35;
inline constexpr uint32_t kEpochShift = 36;

/// A predecessor that has not published by then never will: its device is lost or its memory
/// overwritten.
inline constexpr uint64_t kMaxWaitNanoseconds = 20'000'000'000;

__device__ __forceinline__ uint64_t StateWord(uint32_t epoch, BlockStage stage, uint32_t units) {
  return (uint64_t{epoch} << kEpochShift) |
         (uint64_t{static_cast<uint32_t>(stage)} << kStageShift) | units;
}
/// The stage of a state word; kNone when it is of an older launch.
__device__ __forceinline__ BlockStage StageOf(uint64_t word, uint32_t epoch) {
  if ((word >> kEpochShift) != epoch) return BlockStage::kNone;
  return static_cast<BlockStage>((word >> kStageShift) & 7);
}

/// What a warp's look at 32 predecessors gave.
struct LookedBack {
  bool failed;
  bool reached_prefix;
  uint32_t units;
};

/// Waits for the 32 blocks that end with `last` (fewer at the item's start).
__device__ __forceinline__ LookedBack WarpLookAt(const uint64_t* states, int64_t last,
                                                 uint32_t epoch, uint64_t deadline) {
  constexpr uint32_t kAll = 0xFFFFFFFF;
  const int64_t block = last - static_cast<int64_t>(threadIdx.x % 32);
  while (true) {
    const uint64_t word =
        block >= 0 ? LoadRelaxed(states + block) : StateWord(epoch, BlockStage::kPrefix, 0);
    const BlockStage stage = StageOf(word, epoch);
    if (__any_sync(kAll, stage == BlockStage::kFailed)) return {true, false, 0};
    const uint32_t prefixes = __ballot_sync(kAll, stage == BlockStage::kPrefix);
    // The lanes down to the nearest prefix.
    const uint32_t needed = prefixes == 0 ? kAll : prefixes ^ (prefixes - 1);
    const uint32_t known = __ballot_sync(kAll, stage != BlockStage::kNone);
    if ((known & needed) == needed) {
      const bool counts = ((needed >> (threadIdx.x % 32)) & 1) != 0;
      return {false, prefixes != 0,
              __reduce_add_sync(kAll, counts ? static_cast<uint32_t>(word) : 0)};
    }
    if (__any_sync(kAll, NanosecondsNow() > deadline)) return {true, false, 0};
    __nanosleep(20);
  }
}

/// By one warp: publishes the size of `block` of the item whose states start at `states`, and finds
/// its place, in units from the payload's start, in all lanes. False when a wait ran out.
__device__ __forceinline__ bool WarpPlace(uint64_t* states, uint32_t block, uint32_t own_units,
                                          uint32_t epoch, uint32_t* place_units) {
  const bool first_lane = threadIdx.x % 32 == 0;
  *place_units = 0;
  if (block == 0) {
    if (first_lane) StoreRelaxed(states, StateWord(epoch, BlockStage::kPrefix, own_units));
    return true;
  }
  if (first_lane) StoreRelaxed(states + block, StateWord(epoch, BlockStage::kOwn, own_units));
  const uint64_t deadline = NanosecondsNow() + kMaxWaitNanoseconds;
  uint32_t before = 0;
  for (int64_t last = int64_t{block} - 1;; last -= 32) {
    const LookedBack looked = WarpLookAt(states, last, epoch, deadline);
    if (looked.failed) {
      if (first_lane) StoreRelaxed(states + block, StateWord(epoch, BlockStage::kFailed, 0));
      return false;
    }
    before += looked.units;
    if (looked.reached_prefix) break;
  }
  if (first_lane) {
    StoreRelaxed(states + block, StateWord(epoch, BlockStage::kPrefix, before + own_units));
  }
  *place_units = before;
  return true;
}

}  // namespace cinch::codec::gpu
