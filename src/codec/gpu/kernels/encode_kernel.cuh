// SPDX-License-Identifier: Apache-2.0
/// @file encode_kernel.cuh
/// Compresses a batch: every thread block takes blocks in order, codes each into shared memory,
/// finds its place and copies it there.
#pragma once

#include <cstdint>

#include "codec/gpu/block/encode_block.cuh"
#include "codec/gpu/block/fast_encode_block.cuh"
#include "codec/gpu/kernels/errors.cuh"
#include "codec/gpu/kernels/frame_head.cuh"
#include "codec/gpu/kernels/look_back.cuh"
#include "codec/gpu/kernels/progress.cuh"
#include "codec/gpu/kernels/schedule.cuh"
#include "codec/gpu/kernels/tally.cuh"
#include "codec/gpu/tuning/tuning.cuh"
#include "codec/gpu/warp/team.cuh"

namespace cinch::codec::gpu {

using EncodeTeam = CtaTeam<kEncodeTuning.threads>;

struct EncodeShared {
  EncodeWorkspace workspace;
  uint32_t selectors[256];  ///< CompactSelector of each byte of codes.
  Schedule schedule;
  uint32_t place_units;
  bool placed;
};

/// A coded block and where it goes.
struct PlacedBlock {
  uint32_t block;
  uint32_t units;
  uint32_t place_units;
  int32_t status;  ///< OK, or why it was not written.
  uint64_t hash;
};

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

/// Copies a staged payload to its place, if it fits. By all threads.
__device__ __forceinline__ int32_t CopyPayload(const EncodeTeam& team, const PlanItem& item,
                                               const PlacedBlock& placed,
                                               const EncodeWorkspace& workspace) {
  const uint64_t payload_offset = format::PayloadOffset(item.blocks);
  const uint64_t end_units = uint64_t{placed.place_units} + placed.units;
  if (end_units * format::kPayloadUnitBytes > item.capacity_bytes - payload_offset) {
    return CINCH_ERROR_DESTINATION_TOO_SMALL;
  }
  uint8_t* to =
      item.output + payload_offset + uint64_t{placed.place_units} * format::kPayloadUnitBytes;
  CopyAs<Words4>(team, to, workspace.payload, placed.units * format::kPayloadUnitBytes);
  if (team.thread() == 0) {
    StoreAligned(item.output + sizeof(format::FrameHeader) + uint64_t{4} * placed.block,
                 static_cast<uint32_t>(end_units));
  }
  return CINCH_OK;
}

__device__ __forceinline__ EncodeTask TaskOf(const PlanItem& item, uint32_t block) {
  const uint64_t begin = uint64_t{block} * format::kBlockBytes;
  return {item.input + begin, format::BlockLength(item.input_bytes, block),      item.dtype, block,
          item.checksum != 0, item.base == nullptr ? nullptr : item.base + begin};
}

/// A tile that was loaded ahead of its turn.
struct EarlyTile {
  FastTile tile;
  bool loaded;
};

/// Loads the tile of turn `turn`, if its block is one for the fast encoder.
__device__ __forceinline__ void LoadEarly(const Schedule& schedule, uint32_t turn,
                                          EarlyTile* early) {
  const Unit& unit = schedule.units[turn % kRing];
  const PlanItem& item = schedule.items[turn % kRing];
  early->loaded = false;
  if (unit.item == kNoItem || item.blocks == 0) return;
  const EncodeTask task = TaskOf(item, unit.block);
  if (task.base != nullptr || !IsForFastEncode(task)) return;
  LoadTile(TileOf(task.bytes), &early->tile);
  early->loaded = true;
}

/// Encodes the block at hand, on the fast path when its tile is loaded, which then loads the next
/// one's.
__device__ __forceinline__ EncodeResult SyncEncodeAny(const EncodeTask& task, uint32_t turn,
                                                      EncodeShared* shared, EarlyTile* early) {
  const EncodeTeam team;
  EncodeWorkspace* workspace = &shared->workspace;
  const bool fast = early->loaded;
  early->loaded = false;
  if (fast) {
    uint64_t hash = 0;
    const FastVerdict verdict = SyncFastPlan(task, &early->tile, workspace, &hash);
    const auto checksum = static_cast<uint32_t>(hash);
    if (verdict != FastVerdict::kDeclined) {
      uint32_t payload_bytes = 0;
      if (verdict == FastVerdict::kCascade) {
        payload_bytes =
            SyncFastCode(&early->tile, checksum, SharedAddress(shared->selectors), workspace,
                         [&] { LoadEarly(shared->schedule, turn + 1, early); });
      }
      if (payload_bytes == 0) payload_bytes = SyncStore(team, task, checksum, workspace);
      return {payload_bytes, hash};
    }
  }
  return SyncEncodeBlock(team, task, workspace);
}

/// Finds a coded block's place and copies it there. By all threads.
__device__ __forceinline__ PlacedBlock SyncPlaceBlock(const BatchParameters& batch,
                                                      const Unit& unit, const PlanItem& item,
                                                      const EncodeResult& encoded,
                                                      EncodeShared* shared) {
  const EncodeTeam team;
  PlacedBlock placed{unit.block, encoded.payload_bytes / format::kPayloadUnitBytes, 0, CINCH_OK,
                     encoded.hash};
  if (team.warp() == 0) {
    uint32_t place_units = 0;
    const bool found = WarpPlace(batch.scratch.block_states + unit.first_unit, unit.block,
                                 placed.units, shared->schedule.epoch, &place_units);
    if (team.lane() == 0) {
      shared->placed = found;
      shared->place_units = place_units;
    }
  }
  team.Sync();
  placed.place_units = shared->place_units;
  placed.status =
      shared->placed ? CopyPayload(team, item, placed, shared->workspace) : CINCH_ERROR_TIMEOUT;
  // For the next block's fast path.
  if (team.thread() < 256) shared->workspace.counts[team.thread()] = 0;
  if (team.thread() == 0) shared->workspace.hash_sum = 0;
  team.Sync();
  return placed;
}

/// One block from its bytes to its place in the frame. By all threads.
__device__ __forceinline__ void SyncEncodeUnit(const BatchParameters& batch, uint32_t turn,
                                               EncodeShared* shared, EarlyTile* early,
                                               Tally* tally) {
  const Unit& unit = shared->schedule.units[turn % kRing];
  const PlanItem& item = shared->schedule.items[turn % kRing];
  cinch_cuda_result* result = batch.results + unit.item;
  if (item.blocks == 0) {
    if (threadIdx.x == 0) FinishFrame(item, item.status, 0, 0, result);
    return;
  }
  const EncodeResult encoded = SyncEncodeAny(TaskOf(item, unit.block), turn, shared, early);
  const PlacedBlock placed = SyncPlaceBlock(batch, unit, item, encoded, shared);
  if (threadIdx.x != 0) return;
  ItemState* state = batch.scratch.states + unit.item;
  uint64_t error_key = 0;
  if (placed.status != CINCH_OK) {
    error_key = ErrorKey(ErrorRank::kBlock, placed.block, placed.status);
  } else if (batch.progress != nullptr) {
    PublishBlock(item, unit.block, shared->schedule.epoch,
                 batch.scratch.block_states + unit.first_unit, state, batch.progress + unit.item);
  }
  if (placed.block == item.blocks - 1) {
    StoreRelaxed(&state->total_units, placed.place_units + placed.units);
  }
  tally->Add(error_key, placed.hash);
  if (shared->schedule.units[(turn + 1) % kRing].item == unit.item) return;
  ItemOutcome outcome;
  if (!tally->Flush(item, state, &outcome)) return;
  FinishFrame(item, outcome.status, uint64_t{outcome.total_units} * format::kPayloadUnitBytes,
              outcome.hash_sum, result);
}

__global__ void __launch_bounds__(kEncodeTuning.threads, kEncodeTuning.min_ctas_per_sm)
    EncodeKernel(const __grid_constant__ BatchParameters batch) {
  extern __shared__ __align__(128) uint8_t shared_bytes[];
  auto* shared = reinterpret_cast<EncodeShared*>(shared_bytes);
  Schedule* schedule = &shared->schedule;
  if (!SyncStartSchedule<true>(batch, schedule)) return;
  if (threadIdx.x < 256) {
    shared->selectors[threadIdx.x] = CompactSelector(threadIdx.x);
    shared->workspace.counts[threadIdx.x] = 0;
  }
  if (threadIdx.x == 0) shared->workspace.hash_sum = 0;
  // The last warp draws a unit's ticket two turns, and finds the unit one turn, before it is coded.
  const bool takes = threadIdx.x / 32 == kEncodeTuning.threads / 32 - 1;
  uint32_t ticket = 0;
  if (takes) {
    if (threadIdx.x % 32 == 0) ticket = TakeTicket(batch);
    WarpResolve(batch, 0, ticket, schedule);
    if (threadIdx.x % 32 == 0) ticket = TakeTicket(batch);
  }
  Tally tally;  // Thread 0's.
  EarlyTile early;
  early.loaded = false;
  for (uint32_t turn = 0;; ++turn) {
    __syncthreads();
    if (schedule->units[turn % kRing].item == kNoItem) break;
    if (!early.loaded) LoadEarly(*schedule, turn, &early);
    if (takes) {
      WarpResolve(batch, turn + 1, ticket, schedule);
      if (threadIdx.x % 32 == 0) ticket = TakeTicket(batch);
    }
    SyncEncodeUnit(batch, turn, shared, &early, &tally);
  }
  SyncEndSchedule(batch);
}

}  // namespace cinch::codec::gpu
