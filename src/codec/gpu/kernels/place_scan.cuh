// SPDX-License-Identifier: Apache-2.0
/// @file place_scan.cuh
/// Sizes to places by one warp for the whole launch: it goes over the units' states in order and
/// turns each size into the sum of all sizes up to it. Where many thread blocks run this is less
/// work, and sooner done, than a look-back in each of them (look_back.cuh).
#pragma once

#include <cstdint>

#include "codec/gpu/kernels/batch.cuh"
#include "codec/gpu/kernels/look_back.cuh"
#include "codec/gpu/kernels/schedule.cuh"
#include "codec/gpu/warp/lanes.cuh"
#include "codec/gpu/warp/memory.cuh"

namespace cinch::codec::gpu {

/// States that a lane takes at once.
inline constexpr uint32_t kScanStates = 4;

/// By one warp: until all units of the batch have their sums (mod 2^32), or one has not come for
/// too long. Units are those of stage kOwn; their states become kPrefix.
__device__ __forceinline__ void WarpScanPlaces(uint64_t* states, uint64_t total_units,
                                               uint32_t epoch) {
  const uint32_t lane = threadIdx.x % 32;
  uint32_t before = 0;
  uint64_t deadline = NanosecondsNow() + kMaxWaitNanoseconds;
  for (uint64_t base = 0; base < total_units;) {
    const uint64_t first = base + kScanStates * lane;
    uint64_t word[kScanStates];
#pragma unroll
    for (uint32_t i = 0; i < kScanStates; ++i) {
      word[i] = first + i < total_units ? LoadRelaxed(states + first + i) : 0;
    }
    uint32_t known = 0;  // leading states of the lane that have come
    uint32_t units = 0;
#pragma unroll
    for (uint32_t i = 0; i < kScanStates; ++i) {
      if (known == i && StageOf(word[i], epoch) == BlockStage::kOwn) {
        ++known;
        units += static_cast<uint32_t>(word[i]);
      }
    }
    const uint32_t open = __ballot_sync(kAllLanes, known < kScanStates);
    const uint32_t first_open = open != 0 ? __ffs(static_cast<int>(open)) - 1 : 32;
    const uint32_t inclusive = ScanInclusive(lane <= first_open ? units : 0);
    uint32_t sum = before + inclusive - units;
    if (lane <= first_open) {
#pragma unroll
      for (uint32_t i = 0; i < kScanStates; ++i) {
        if (i >= known) continue;
        sum += static_cast<uint32_t>(word[i]);
        StoreRelaxed(states + first + i, StateWord(epoch, BlockStage::kPrefix, sum));
      }
    }
    const uint32_t partial = open != 0 ? __shfl_sync(kAllLanes, known, first_open & 31) : 0;
    const uint32_t advanced = kScanStates * first_open + partial;
    before += __shfl_sync(kAllLanes, inclusive, 31);
    base += advanced;
    const uint64_t now = NanosecondsNow();
    if (advanced != 0) {
      deadline = now + kMaxWaitNanoseconds;
    } else if (__any_sync(kAllLanes, now > deadline)) {
      return;  // whoever waits for a place gives up by itself
    }
  }
}

/// What a warp that asks for places knows.
struct PlaceFinder {
  bool scans;   ///< Places come from WarpScanPlaces rather than from look-back.
  bool failed;  ///< A wait ran out: no further one is worth it.
};

/// All lanes: waits for a unit's sum. False when it does not come.
__device__ __forceinline__ bool WarpAwaitSum(const uint64_t* state, uint32_t epoch, uint32_t* sum) {
  uint64_t deadline = 0;
  while (true) {
    const uint64_t word = LoadRelaxed(state);
    *sum = static_cast<uint32_t>(word);
    if (__all_sync(kAllLanes, StageOf(word, epoch) == BlockStage::kPrefix)) return true;
    const uint64_t now = NanosecondsNow();
    if (deadline == 0) deadline = now + kMaxWaitNanoseconds;
    if (__any_sync(kAllLanes, now > deadline)) return false;
  }
}

/// All lanes: the place of a unit of `own_units` units, whose size is published, in its item's
/// payload; the same in all lanes. False when a wait ran out, now or before.
__device__ __forceinline__ bool WarpFindPlace(const BatchParameters& batch, const Unit& unit,
                                              uint32_t blocks, uint32_t own_units, uint32_t epoch,
                                              PlaceFinder* finder, uint32_t* place_units) {
  *place_units = 0;
  if (blocks == 1 && batch.progress == nullptr) return true;
  uint64_t* states = batch.scratch.block_states;
  bool found = false;
  if (finder->failed) {
    found = false;
  } else if (!finder->scans) {
    found = WarpPlace(states + unit.first_unit, unit.block, own_units, epoch, place_units);
  } else {
    uint32_t end = 0;
    uint32_t item_begin = 0;
    found = WarpAwaitSum(states + unit.first_unit + unit.block, epoch, &end);
    if (found && unit.first_unit != 0) {
      found = WarpAwaitSum(states + unit.first_unit - 1, epoch, &item_begin);
    }
    *place_units = end - own_units - item_begin;
  }
  finder->failed = !found;
  return found;
}

}  // namespace cinch::codec::gpu
