// SPDX-License-Identifier: Apache-2.0
/// @file encode_mover.cuh
/// The hand of encode_shared.cuh that knows the world outside: which block is next, where its
/// payload goes, what becomes of its item.
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

/// By the mover's first lane, when a turn's block is written or cannot be: adds it to its item's
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

/// By the mover: draws the next ticket, whose unit nobody knows yet. It is only waited for when it
/// is used.
__device__ __forceinline__ void DrawTicket(const BatchParameters& batch, MoverState* mover) {
  if (threadIdx.x % 32 == 0) mover->ticket = TakeTicket(batch);
}
/// By the mover: makes the unit of the next turn known, with the ticket that was drawn last.
__device__ __forceinline__ void ResolveNext(const BatchParameters& batch, EncodeShared* shared,
                                            MoverState* mover) {
  WarpResolve(batch, mover->resolved, mover->ticket, &shared->schedule);
  ++mover->resolved;
}

/// By the mover: starts to fill a turn's buffer. False when the turn ends the session, because its
/// block is not for the fast path or all are taken.
__device__ __forceinline__ bool LoadTurn(EncodeShared* shared, const Turn& turn) {
  const Unit& unit = shared->schedule.units[turn.number % kRing];
  const PlanItem& item = shared->schedule.items[turn.number % kRing];
  bool loads = unit.item != kNoItem && item.blocks != 0;
  EncodeTask task{};
  if (loads) {
    task = TaskOf(item, unit.block);
    loads = IsForFastEncode(task);
  }
  if (threadIdx.x % 32 == 0) {
    shared->has_bytes[turn.slot] = loads ? 1 : 0;
    shared->plans[turn.slot].dtype = task.dtype;
    shared->plans[turn.slot].length_bytes = task.length_bytes;
  }
  __syncwarp();
  if (loads) {
    FenceCopies();
    WarpLoadAsync(BufferOf(*shared, turn) + kSourceOffset, task.bytes, task.length_bytes,
                  PhaseOf(*shared, turn, Phase::kFull));
  } else {
    WarpArrive(*shared, turn, Phase::kFull);
  }
  return loads;
}

/// By the mover: sends a finished payload to its place. Returns when its buffer is free.
__device__ __forceinline__ void SendTurn(const BatchParameters& batch, EncodeShared* shared,
                                         const Turn& turn) {
  const Unit& unit = shared->schedule.units[turn.number % kRing];
  const PlanItem& item = shared->schedule.items[turn.number % kRing];
  const FastPlan& plan = shared->plans[turn.slot];
  PlacedBlock placed{unit.block, plan.payload_bytes / format::kPayloadUnitBytes, 0, CINCH_OK,
                     plan.hash};
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
    WarpStoreAsync(DestinationOf(item, placed), BufferOf(*shared, turn), plan.payload_bytes);
  }
  if (batch.progress != nullptr) WarpAwaitWrites();
  if (threadIdx.x % 32 == 0) AccountBlock(batch, shared, turn.number, placed);
  WarpAwaitReads();
}

/// The mover's session. A ticket is drawn when there is a buffer for it, and not before: units that
/// wait in line here while other thread blocks are idle would hold up everybody's places.
__device__ __forceinline__ void RunMover(const BatchParameters& batch, EncodeShared* shared,
                                         uint32_t first_turn) {
  const uint32_t buffer_count = shared->buffer_count;
  MoverState mover = shared->mover;
  Turn loaded{first_turn, 0, 0};  // The next turn to load.
  bool loads = true;
  for (uint32_t i = 0; i < buffer_count && loads; ++i) {
    if (mover.resolved <= loaded.number) {
      // By then the others have drawn theirs.
      if (i != 0) Await(*shared, {loaded.number - 1, i - 1, 0}, Phase::kFull);
      DrawTicket(batch, &mover);
      ResolveNext(batch, shared, &mover);
    }
    loads = LoadTurn(shared, loaded);
    loaded = loaded.Next(buffer_count);
  }
  for (Turn turn{first_turn, 0, 0};; turn = turn.Next(buffer_count)) {
    Await(*shared, turn, Phase::kDone);
    const bool ends = shared->plans[turn.slot].payload_bytes == 0;
    const bool draws = mover.resolved <= (ends ? turn.number + 1 : loaded.number);
    if (draws && (ends || loads)) DrawTicket(batch, &mover);
    if (ends) {
      if (draws) ResolveNext(batch, shared, &mover);
      if (threadIdx.x % 32 == 0) shared->mover = mover;
      // Bytes on their way to buffers that are now for something else have to arrive first.
      for (Turn other = turn; other.number != loaded.number; other = other.Next(buffer_count)) {
        Await(*shared, other, Phase::kFull);
      }
      return;
    }
    SendTurn(batch, shared, turn);
    if (!loads) continue;
    if (draws) ResolveNext(batch, shared, &mover);
    loads = LoadTurn(shared, loaded);
    loaded = loaded.Next(buffer_count);
  }
}

}  // namespace cinch::codec::gpu
