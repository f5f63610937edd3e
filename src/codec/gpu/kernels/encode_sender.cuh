// SPDX-License-Identifier: Apache-2.0
/// @file encode_sender.cuh
/// The warps of encode_shared.cuh that know the world outside: which block is next, where a payload
/// goes, what becomes of its item.
#pragma once

#include <cstdint>

#include "codec/gpu/kernels/encode_shared.cuh"
#include "codec/gpu/kernels/errors.cuh"
#include "codec/gpu/kernels/frame_head.cuh"
#include "codec/gpu/kernels/progress.cuh"

namespace cinch::codec::gpu {

/// By one thread: the header, the index's padding and the result of an item whose blocks are all
/// done.
__device__ __forceinline__ void FinishFrame(const PlanItem& item, int32_t status,
                                            uint64_t payload_bytes, uint64_t content_hash,
                                            cinch_cuda_result* result) {
  uint64_t output_bytes = 0;
  if (status == CINCH_OK) {
    const HeaderWords header = MakeHeaderWords(item, payload_bytes, content_hash);
    for (uint32_t i = 0; i < kHeaderWords; i += 4) {
      StoreAligned(item.output + 4 * i, Words4{{header.word[i], header.word[i + 1],
                                                header.word[i + 2], header.word[i + 3]}});
    }
    const uint64_t payload_offset = format::PayloadOffset(item.blocks);
    for (uint64_t at = sizeof(format::FrameHeader) + uint64_t{4} * item.blocks; at < payload_offset;
         at += 4) {
      StoreAligned<uint32_t>(item.output + at, 0);
    }
    output_bytes = payload_offset + payload_bytes;
  }
  *result = {output_bytes, static_cast<cinch_status>(status), 0};
}

/// A coded block and where it goes.
struct PlacedBlock {
  uint32_t block;
  uint32_t units;
  uint32_t place_units;
  int32_t status;  ///< OK, or why it is not written.
  uint64_t hash;

  __device__ __forceinline__ uint64_t end_units() const { return uint64_t{place_units} + units; }
};

/// Whether a placed block fits its item's output, and where it goes there.
__device__ __forceinline__ bool Fits(const PlanItem& item, const PlacedBlock& placed) {
  return placed.end_units() * format::kPayloadUnitBytes <=
         item.capacity_bytes - format::PayloadOffset(item.blocks);
}
__device__ __forceinline__ uint8_t* DestinationOf(const PlanItem& item, const PlacedBlock& placed) {
  return item.output + format::PayloadOffset(item.blocks) +
         uint64_t{placed.place_units} * format::kPayloadUnitBytes;
}

/// By the sender's first lane, when a turn's block is written or cannot be: adds it to its item's
/// account and completes the item when it was the last. With progress, after everything that was
/// written of the block is as if this thread had written it.
__device__ __forceinline__ void AccountBlock(const BatchParameters& batch, EncodeShared* shared,
                                             uint32_t turn, const PlacedBlock& placed) {
  const Unit& unit = shared->schedule.units[turn % kRing];
  const PlanItem& item = shared->schedule.items[turn % kRing];
  ItemState* state = batch.scratch.states + unit.item;
  cinch_cuda_result* result = batch.results + unit.item;
  uint64_t error_key = 0;
  if (placed.status != CINCH_OK) {
    error_key = ErrorKey(ErrorRank::kBlock, placed.block, placed.status);
  } else {
    StoreAligned(item.output + sizeof(format::FrameHeader) + uint64_t{4} * placed.block,
                 static_cast<uint32_t>(placed.end_units()));
    if (batch.progress != nullptr) {
      PublishBlock(item, unit.block, shared->schedule.epoch,
                   batch.scratch.block_states + unit.first_unit, state, batch.progress + unit.item);
    }
  }
  if (item.blocks == 1 && batch.progress == nullptr) {
    FinishFrame(item, placed.status, uint64_t{placed.units} * format::kPayloadUnitBytes,
                placed.hash, result);
    return;
  }
  if (placed.block == item.blocks - 1) {
    StoreRelaxed(&state->total_units, static_cast<uint32_t>(placed.end_units()));
  }
  shared->tally.Add(error_key, placed.hash);
  if (shared->schedule.units[(turn + 1) % kRing].item == unit.item) return;
  ItemOutcome outcome;
  if (!shared->tally.Flush(item, state, &outcome)) return;
  FinishFrame(item, outcome.status, uint64_t{outcome.total_units} * format::kPayloadUnitBytes,
              outcome.hash_sum, result);
}

/// By one warp: makes the units of all turns up to `turn` known. A ticket is drawn a turn before it
/// is needed, so that nobody waits for it.
__device__ __forceinline__ void WarpResolveTo(const BatchParameters& batch, EncodeShared* shared,
                                              uint32_t turn) {
  const uint32_t lane = threadIdx.x % 32;
  for (uint32_t resolved = shared->resolved; resolved <= turn; ++resolved) {
    uint32_t next_ticket = 0;
    if (lane == 0) next_ticket = TakeTicket(batch);
    WarpResolve(batch, resolved, shared->ticket, &shared->schedule);
    if (lane == 0) {
      const Unit& unit = shared->schedule.units[resolved % kRing];
      const PlanItem& item = shared->schedule.items[resolved % kRing];
      TurnBlock block{nullptr, 0, 0, FastKind::kNone, false};
      if (unit.item != kNoItem && item.blocks != 0) {
        const EncodeTask task = TaskOf(item, unit.block);
        if (IsForFastEncode(task)) {
          PrefetchToL2(task.bytes, task.length_bytes);
          const bool detects = task.dtype == CINCH_DTYPE_AUTO;
          const uint32_t dtype = detects ? shared->guessed_dtype : task.dtype;
          block = {task.bytes, task.length_bytes, dtype, FastKindOf(dtype), detects};
        }
      }
      shared->blocks[resolved % kRing] = block;
      shared->ticket = next_ticket;
      shared->resolved = resolved + 1;
    }
    __syncwarp();
  }
}

/// By the sender: sends the payload that waits in a stage, if any, to its place.
__device__ __forceinline__ void WarpSendPending(const BatchParameters& batch, EncodeShared* shared,
                                                uint32_t stage) {
  const PendingBlock pending = shared->pending[stage];
  __syncwarp();  // before lane 0 takes it away
  if (pending.payload_bytes == 0) return;
  const Unit& unit = shared->schedule.units[pending.turn % kRing];
  const PlanItem& item = shared->schedule.items[pending.turn % kRing];
  PlacedBlock placed{unit.block, pending.payload_bytes / format::kPayloadUnitBytes, 0, CINCH_OK,
                     pending.hash};
  PlaceFinder finder = shared->finder;
  const bool found = WarpFindPlace(batch, unit, item.blocks, placed.units, shared->schedule.epoch,
                                   &finder, &placed.place_units);
  if (!found) {
    placed.status = CINCH_ERROR_TIMEOUT;
    shared->finder = finder;
  } else if (!Fits(item, placed)) {
    placed.status = CINCH_ERROR_DESTINATION_TOO_SMALL;
  } else {
    FenceCopies();
    WarpStoreAsync(DestinationOf(item, placed), SharedAddress(shared->stages) + stage * kStageBytes,
                   pending.payload_bytes);
  }
  if (batch.progress != nullptr) WarpAwaitWrites();
  if (threadIdx.x % 32 == 0) {
    AccountBlock(batch, shared, pending.turn, placed);
    shared->pending[stage].payload_bytes = 0;
  }
  __syncwarp();
}

}  // namespace cinch::codec::gpu
