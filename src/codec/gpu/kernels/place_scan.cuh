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
/// Looks in vain between two looks at the clock.
inline constexpr uint32_t kScanPolls = 256;

/// By one warp: until all units of the batch have their sums (mod 2^32), or one has not come for
/// too long. Units are those of stage kOwn; their states become kPrefix.
__device__ __forceinline__ void WarpScanPlaces(uint64_t* states, uint64_t total_units,
                                               uint32_t epoch) {
  const uint32_t lane = threadIdx.x % 32;
  uint32_t before = 0;
  uint32_t polls = 0;
  uint64_t deadline = 0;
  // Aligned for loads of pairs: what is behind `base` may have its sum already.
  for (uint64_t base = 0; base < total_units;) {
    __syncwarp();  // sums that other lanes stored are seen
    const uint64_t first = base + kScanStates * lane;
    uint64_t word[kScanStates] = {0, 0, 0, 0};
    if (first + kScanStates <= total_units) {
      LoadRelaxedPair(states + first, &word[0], &word[1]);
      LoadRelaxedPair(states + first + 2, &word[2], &word[3]);
    } else {
#pragma unroll
      for (uint32_t i = 0; i < kScanStates; ++i) {
        if (first + i < total_units) word[i] = LoadRelaxed(states + first + i);
      }
    }
    uint32_t known = 0;  // leading states of the lane that have come
    uint32_t done = 0;   // and of these, those whose sum is stored
    uint32_t units = 0;
#pragma unroll
    for (uint32_t i = 0; i < kScanStates; ++i) {
      const BlockStage stage = StageOf(word[i], epoch);
      if (known == i && (stage == BlockStage::kOwn || stage == BlockStage::kPrefix)) {
        ++known;
        if (stage == BlockStage::kPrefix) {
          ++done;
        } else {
          units += static_cast<uint32_t>(word[i]);
        }
      }
    }
    const uint32_t open = __ballot_sync(kAllLanes, known < kScanStates);
    const uint32_t first_open = open != 0 ? __ffs(static_cast<int>(open)) - 1 : 32;
    const uint32_t inclusive = ScanInclusive(lane <= first_open ? units : 0);
    if (lane <= first_open) {
      uint32_t sum = before + inclusive - units;
#pragma unroll
      for (uint32_t i = 0; i < kScanStates; ++i) {
        if (i < done || i >= known) continue;
        sum += static_cast<uint32_t>(word[i]);
        StoreRelaxed(states + first + i, StateWord(epoch, BlockStage::kPrefix, sum));
      }
    }
    const uint32_t partial = open != 0 ? __shfl_sync(kAllLanes, known, first_open & 31) : 0;
    if (base + kScanStates * first_open + partial >= total_units) return;
    before += __shfl_sync(kAllLanes, inclusive, 31);
    base += kScanStates * first_open;
    if (first_open != 0) {
      polls = 0;
      deadline = 0;
    } else if (++polls % kScanPolls == 0) {
      const uint64_t now = __shfl_sync(kAllLanes, NanosecondsNow(), 0);
      if (deadline == 0) deadline = now + kMaxWaitNanoseconds;
      if (now > deadline) return;  // whoever waits for a place gives up by itself
    }
  }
}

/// What a warp that asks for places knows.
struct PlaceFinder {
  bool scans;   ///< Places come from WarpScanPlaces rather than from look-back.
  bool failed;  ///< A wait ran out: no further one is worth it.
};

/// All lanes, of which two or more may have other states: waits for all of the states' sums.
/// False when one does not come.
__device__ __forceinline__ bool WarpAwaitSums(const uint64_t* state, uint32_t epoch,
                                              uint32_t* sum) {
  uint64_t deadline = 0;
  for (uint32_t polls = 1;; ++polls) {
    const uint64_t word = LoadRelaxed(state);
    *sum = static_cast<uint32_t>(word);
    if (__all_sync(kAllLanes, StageOf(word, epoch) == BlockStage::kPrefix)) return true;
    if (polls % kScanPolls != 0) continue;
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
    // The sum up to the unit in lane 0, that up to the item before in the others.
    const uint64_t* state = states + unit.first_unit + unit.block;
    if (threadIdx.x % 32 != 0 && unit.first_unit != 0) state = states + unit.first_unit - 1;
    uint32_t sum = 0;
    found = WarpAwaitSums(state, epoch, &sum);
    const uint32_t end = __shfl_sync(kAllLanes, sum, 0);
    const uint32_t item_begin = unit.first_unit != 0 ? __shfl_sync(kAllLanes, sum, 1) : 0;
    *place_units = end - own_units - item_begin;
  }
  finder->failed = !found;
  return found;
}

}  // namespace cinch::codec::gpu
