// SPDX-License-Identifier: Apache-2.0
/// @file decode_pipeline.cuh
/// Payloads on their way to a thread block: while one is decoded, the next is copied to shared
/// memory, the index entries of the one after it are on their way, and its successor's ticket is
/// drawn. One warp, the last, looks after it.
#pragma once

#include <cstdint>

#include "codec/gpu/block/copy.cuh"
#include "codec/gpu/kernels/errors.cuh"
#include "codec/gpu/kernels/schedule.cuh"
#include "codec/gpu/tuning/tuning.cuh"
#include "codec/gpu/warp/bulk.cuh"
#include "codec/gpu/warp/lanes.cuh"
#include "codec/gpu/warp/team.cuh"

namespace cinch::codec::gpu {

inline constexpr uint32_t kSlots = 2;

struct DecodePipeline {
  alignas(128) uint8_t slots[kSlots][kDecodeSlotBytes + kVectorSlackBytes];
  uint64_t arrived[kSlots];       ///< Barriers.
  uint32_t loaded_bytes[kSlots];  ///< What is in a slot, or on its way there; 0 for nothing.
  uint32_t index_begin[kRing];    ///< Of each turn's block, as the index says it.
  uint32_t index_end[kRing];
};

/// What the index says of a block, and what is wrong with that.
struct IndexEntry {
  uint64_t begin_bytes;
  uint64_t end_bytes;
  bool valid;
};

/// Every block checks its own entry, so that all blocks together check the index as a decoder does
/// that goes through it first.
__device__ __forceinline__ IndexEntry CheckIndex(const PlanItem& item, uint32_t block,
                                                 uint32_t begin_units, uint32_t end_units) {
  IndexEntry entry{};
  entry.begin_bytes = uint64_t{begin_units} * format::kPayloadUnitBytes;
  entry.end_bytes = uint64_t{end_units} * format::kPayloadUnitBytes;
  const bool last = block == item.blocks - 1;
  entry.valid = entry.begin_bytes < entry.end_bytes && entry.end_bytes <= item.payload_bytes &&
                (!last || entry.end_bytes == item.payload_bytes);
  return entry;
}

__device__ __forceinline__ const uint8_t* PayloadOf(const PlanItem& item, const IndexEntry& entry) {
  return item.input + format::PayloadOffset(item.blocks) + entry.begin_bytes;
}

/// By one warp: starts copying the index entries of turn `turn`'s block.
__device__ __forceinline__ void WarpFetchIndex(const Schedule& schedule, uint32_t turn,
                                               DecodePipeline* pipeline) {
  const Unit& unit = schedule.units[turn % kRing];
  const PlanItem& item = schedule.items[turn % kRing];
  if (unit.item == kNoItem || item.blocks == 0) return;
  const uint8_t* end = item.input + sizeof(format::FrameHeader) + uint64_t{4} * unit.block;
  const uint32_t lane = threadIdx.x % 32;
  if (lane == 0) CopyWordAsync(SharedAddress(&pipeline->index_end[turn % kRing]), end);
  if (lane == 1 && unit.block == 0) pipeline->index_begin[turn % kRing] = 0;
  if (lane == 1 && unit.block != 0) {
    CopyWordAsync(SharedAddress(&pipeline->index_begin[turn % kRing]), end - 4);
  }
}

/// By lane 0: starts copying turn `turn`'s payload to its slot, which nobody reads any longer, if
/// it is sound, fits and will be looked at. The slot's barrier goes on a phase in any case.
__device__ __forceinline__ void FetchPayload(const Schedule& schedule, uint32_t turn,
                                             DecodePipeline* pipeline) {
  const Unit& unit = schedule.units[turn % kRing];
  const PlanItem& item = schedule.items[turn % kRing];
  const uint32_t slot = turn % kSlots;
  uint32_t bytes = 0;
  IndexEntry entry{};
  if (unit.item != kNoItem && item.blocks != 0 && item.status == CINCH_OK) {
    entry = CheckIndex(item, unit.block, pipeline->index_begin[turn % kRing],
                       pipeline->index_end[turn % kRing]);
    const uint64_t size = entry.end_bytes - entry.begin_bytes;
    if (entry.valid && size <= kDecodeSlotBytes) bytes = static_cast<uint32_t>(size);
  }
#if CINCH_HAS_BULK_COPY
  pipeline->loaded_bytes[slot] = bytes;
  const uint32_t barrier = SharedAddress(&pipeline->arrived[slot]);
  ExpectBytes(barrier, bytes);
  if (bytes != 0) {
    BulkLoad(SharedAddress(pipeline->slots[slot]), PayloadOf(item, entry), bytes, barrier);
  }
#else
  pipeline->loaded_bytes[slot] = bytes;
#endif
}

/// By the last warp, before the first turn: the first payload and what comes after it. Returns a
/// ticket in lane 0.
__device__ __forceinline__ uint32_t WarpStartPipeline(const BatchParameters& batch,
                                                      Schedule* schedule,
                                                      DecodePipeline* pipeline) {
  uint32_t ticket = 0;
  const bool first_lane = threadIdx.x % 32 == 0;
  for (uint32_t turn = 0; turn < 2; ++turn) {
    if (first_lane) ticket = TakeTicket(batch);
    WarpResolve(batch, turn, ticket, schedule);
    WarpFetchIndex(*schedule, turn, pipeline);
  }
#if CINCH_HAS_BULK_COPY
  if (first_lane) {
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      InitBulkBarrier(SharedAddress(&pipeline->arrived[slot]));
    }
  }
#endif
  WaitForWords();
  __syncwarp();
  if (first_lane) {
    FetchPayload(*schedule, 0, pipeline);
    ticket = TakeTicket(batch);
  }
  return ticket;
}

/// By the last warp, behind the barrier that starts turn `turn`.
__device__ __forceinline__ uint32_t WarpAdvancePipeline(const BatchParameters& batch, uint32_t turn,
                                                        uint32_t ticket, Schedule* schedule,
                                                        DecodePipeline* pipeline) {
  WaitForWords();
  __syncwarp();
  const bool first_lane = threadIdx.x % 32 == 0;
  if (first_lane) FetchPayload(*schedule, turn + 1, pipeline);
  WarpResolve(batch, turn + 2, ticket, schedule);
  WarpFetchIndex(*schedule, turn + 2, pipeline);
  if (first_lane) ticket = TakeTicket(batch);
  return ticket;
}

/// By all threads: waits for turn `turn`'s payload. Where it is in shared memory, or null.
__device__ __forceinline__ const uint8_t* SyncPayload(uint32_t turn, const IndexEntry& entry,
                                                      const PlanItem& item,
                                                      DecodePipeline* pipeline) {
  const uint32_t slot = turn % kSlots;
#if CINCH_HAS_BULK_COPY
  WaitForPhase(SharedAddress(&pipeline->arrived[slot]), turn / kSlots % 2);
  const uint32_t bytes = pipeline->loaded_bytes[slot];
#else
  const uint32_t bytes = pipeline->loaded_bytes[slot];
  const CtaTeam<kDecodeTuning.threads> team;
  if (bytes != 0) CopyAs<Words4>(team, pipeline->slots[slot], PayloadOf(item, entry), bytes);
  __syncthreads();
#endif
  return bytes == 0 ? nullptr : pipeline->slots[slot];
}

}  // namespace cinch::codec::gpu
