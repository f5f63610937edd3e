// SPDX-License-Identifier: Apache-2.0
/// @file schedule.cuh
/// Which thread block does what: blocks of all items, in order, to whoever is free.
#pragma once

#include <cstdint>

#include "codec/gpu/kernels/batch.cuh"
#include "codec/gpu/kernels/look_back.cuh"
#include "codec/gpu/kernels/plan.cuh"
#include "codec/gpu/warp/memory.cuh"

namespace cinch::codec::gpu {

inline constexpr uint32_t kNoItem = 0xFFFFFFFF;

/// A block of an item, or an item without blocks.
struct Unit {
  uint32_t item;  ///< kNoItem when all are taken.
  uint32_t block;
  uint32_t first_unit;  ///< Of the item: where its block states are.
};

/// Units that a thread block knows of: the one at hand and up to three to come.
inline constexpr uint32_t kRing = 4;

/// A thread block's view of the batch, in shared memory.
struct Schedule {
  Unit units[kRing];  ///< By turn.
  PlanItem items[kRing];
  uint32_t epoch;
  uint64_t total_units;
  int32_t batch_status;
  uint32_t first_unit[32 + 1];
  PlanItem plan[kInlineItems];
};

/// By one warp: plans a batch of up to kInlineItems items, an item a lane.
template <bool kCompress>
__device__ __forceinline__ void WarpPlanInline(const BatchParameters& batch, Schedule* schedule) {
  const uint32_t lane = threadIdx.x % 32;
  uint32_t units = 0;
  if (lane < batch.item_count) {
    const cinch_cuda_item item = batch.ItemAt(lane);
    const cinch_base base = batch.BaseAt(lane);
    const PlanItem plan =
        kCompress ? PlanCompression(item, batch.checksum, base) : PlanDecompression(item, base);
    schedule->plan[lane] = plan;
    units = plan.units();
  }
  // A few items of 2^21 blocks at most: the sum stays below 2^32.
  uint32_t end = units;
  for (uint32_t distance = 1; distance < 32; distance *= 2) {
    const uint32_t below = __shfl_up_sync(0xFFFFFFFF, end, distance);
    if (lane >= distance) end += below;
  }
  schedule->first_unit[lane + 1] = end;
  if (lane == 0) schedule->first_unit[0] = 0;
  if (lane == 31) schedule->total_units = end;
  __syncwarp();
}

/// What a launch reads of the scratch memory's header.
struct ScratchWords {
  uint64_t magic;
  uint64_t max_items;
  uint64_t max_units;
  uint64_t total_units;
  uint32_t epoch;

  /// The loads are on their way before what comes next in the program is waited for.
  __device__ __forceinline__ explicit ScratchWords(const ScratchHeader& header)
      : magic(LoadRelaxed(&header.magic)),
        max_items(LoadRelaxed(&header.max_items)),
        max_units(LoadRelaxed(&header.max_units)),
        total_units(LoadRelaxed(&header.total_units)),
        epoch(LoadRelaxed(&header.epoch)) {}
};

/// Whether the batch can run at all, for one thread. Compression, and whoever publishes progress,
/// needs a state for every block.
template <bool kCompress>
__device__ __forceinline__ int32_t CheckBatch(const BatchParameters& batch,
                                              const ScratchWords& header, uint64_t total_units) {
  const Scratch& scratch = batch.scratch;
  if (header.magic != kScratchMagic || header.max_items != scratch.max_items ||
      header.max_units != scratch.max_units) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  const bool needs_states = kCompress || batch.progress != nullptr;
  if (total_units > (needs_states ? scratch.max_units : uint64_t{0xFFFFFFFF})) {
    return CINCH_ERROR_TOO_LARGE;
  }
  return CINCH_OK;
}

/// The last item of [begin, end) whose first unit is at most `ticket`, by one warp: 32 probes at a
/// time. That of `begin` is.
__device__ __forceinline__ uint32_t WarpFindItem(const uint32_t* first_unit, uint32_t begin,
                                                 uint32_t end, uint32_t ticket) {
  while (end - begin > 1) {
    const uint32_t step = (end - begin + 31) / 32;
    const uint32_t probe = begin + step * (threadIdx.x % 32);
    const bool below = probe < end && first_unit[probe] <= ticket;
    const uint32_t last = 31 - __clz(static_cast<int>(__ballot_sync(0xFFFFFFFF, below)));
    begin += step * last;
    end = Minimum(end, begin + step);
  }
  return begin;
}

/// The same, but with a look first at where the item would be if all had the same size.
__device__ __forceinline__ uint32_t WarpGuessItem(const uint32_t* first_unit, uint32_t item_count,
                                                  uint64_t total_units, uint32_t ticket) {
  // Not quite the quotient, but without a call, around which registers would have to be kept.
  const float items_per_unit =
      __fdividef(static_cast<float>(item_count), static_cast<float>(total_units));
  const auto guess = static_cast<uint32_t>(static_cast<float>(ticket) * items_per_unit);
  const uint32_t begin = guess < 16 ? 0 : guess - 16;
  const uint32_t probe = begin + threadIdx.x % 32;
  const bool below = probe < item_count && first_unit[probe] <= ticket;
  const uint32_t found = __ballot_sync(0xFFFFFFFF, below);
  const bool is_last = found != 0xFFFFFFFF || begin + 32 >= item_count;
  if ((found & 1) != 0 && is_last) return begin + 31 - __clz(static_cast<int>(found));
  return WarpFindItem(first_unit, 0, item_count, ticket);
}

/// By lane 0 of the warp that takes units: the next ticket. Not used at once, it costs no time.
__device__ __forceinline__ uint32_t TakeTicket(const BatchParameters& batch) {
  return atomicAdd(&batch.scratch.header->next_unit, 1);
}

/// By one warp: finds the unit of lane 0's ticket and writes it down for turn `turn`.
__device__ __forceinline__ void WarpResolve(const BatchParameters& batch, uint32_t turn,
                                            uint32_t ticket, Schedule* schedule) {
  const uint32_t lane = threadIdx.x % 32;
  ticket = __shfl_sync(0xFFFFFFFF, ticket, 0);
  Unit unit{kNoItem, 0, 0};
  if (ticket < schedule->total_units) {
    const bool planned = batch.planned != 0;
    const uint32_t* first_unit = planned ? batch.scratch.first_unit : schedule->first_unit;
    unit.item = WarpGuessItem(first_unit, batch.item_count, schedule->total_units, ticket);
    unit.first_unit = first_unit[unit.item];
    unit.block = ticket - unit.first_unit;
    const PlanItem* item = (planned ? batch.scratch.plan : schedule->plan) + unit.item;
    if (lane < sizeof(PlanItem) / 4) {
      reinterpret_cast<uint32_t*>(&schedule->items[turn % kRing])[lane] =
          reinterpret_cast<const uint32_t*>(item)[lane];
    }
  }
  if (lane == 0) schedule->units[turn % kRing] = unit;
  __syncwarp();
}

/// By one warp: plans the batch, or finds its plan, and checks whether it can run. When it cannot,
/// its items get their results.
template <bool kCompress>
__device__ __forceinline__ bool WarpStartSchedule(const BatchParameters& batch,
                                                  Schedule* schedule) {
  const uint32_t lane = threadIdx.x % 32;
  const ScratchWords header(*batch.scratch.header);
  if (batch.planned == 0) {
    WarpPlanInline<kCompress>(batch, schedule);
  } else if (lane == 0) {
    schedule->total_units = header.total_units;
  }
  __syncwarp();
  if (lane == 0) {
    schedule->batch_status = CheckBatch<kCompress>(batch, header, schedule->total_units);
    schedule->epoch = header.epoch;
  }
  __syncwarp();
  if (schedule->batch_status == CINCH_OK) return true;
  for (uint32_t i = blockIdx.x * 32 + lane; i < batch.item_count; i += gridDim.x * 32) {
    batch.results[i] = {0, static_cast<cinch_status>(schedule->batch_status), 0};
  }
  return false;
}

/// By all threads: the same, visible to the thread block.
template <bool kCompress>
__device__ __forceinline__ bool SyncStartSchedule(const BatchParameters& batch,
                                                  Schedule* schedule) {
  if (threadIdx.x < 32) WarpStartSchedule<kCompress>(batch, schedule);
  __syncthreads();
  return schedule->batch_status == CINCH_OK;
}

/// By all threads, at the end: the last thread block to leave makes the scratch memory ready for
/// the next launch.
__device__ __forceinline__ void SyncEndSchedule(const BatchParameters& batch) {
  __shared__ bool clears_states;
  ScratchHeader* header = batch.scratch.header;
  __syncthreads();
  if (threadIdx.x == 0) {
    clears_states = false;
    if (atomicAdd(&header->exited_ctas, 1) == gridDim.x - 1) {
      header->exited_ctas = 0;
      header->next_unit = 0;
      const uint32_t next_epoch = header->epoch + 1;
      // When epochs start over, states of old launches must not look new.
      clears_states = next_epoch >> kEpochBits != 0;
      header->epoch = clears_states ? 1 : next_epoch;
    }
  }
  __syncthreads();
  if (!clears_states) return;
  for (uint64_t i = threadIdx.x; i < batch.scratch.max_units; i += blockDim.x) {
    batch.scratch.block_states[i] = 0;
  }
}

}  // namespace cinch::codec::gpu
