// SPDX-License-Identifier: Apache-2.0
/// @file encode_kernel.cuh
/// Compresses a batch. encode_shared.cuh says who does what.
#pragma once

#include <cstdint>

#include "codec/gpu/block/encode_block.cuh"
#include "codec/gpu/kernels/encode_mover.cuh"
#include "codec/gpu/kernels/encode_shared.cuh"
#include "codec/gpu/kernels/encode_workers.cuh"
#include "codec/gpu/kernels/place_scan.cuh"
#include "codec/gpu/warp/team.cuh"

namespace cinch::codec::gpu {

using EncodeTeam = CtaTeam<kEncodeTuning.threads>;

/// By all threads: one block that is not for the fast path, or an item without blocks.
__device__ __noinline__ void SyncEncodeAlone(const BatchParameters& batch, EncodeShared* shared,
                                             uint32_t turn) {
  const EncodeTeam team;
  const Unit& unit = shared->schedule.units[turn % kRing];
  const PlanItem& item = shared->schedule.items[turn % kRing];
  uint64_t* state = batch.scratch.block_states + unit.first_unit + unit.block;
  const bool moves = team.warp() == kMoverWarp;
  if (item.blocks == 0) {
    if (moves && team.lane() == 0) {
      StoreRelaxed(state, StateWord(shared->schedule.epoch, BlockStage::kOwn, 0));
      FinishFrame(item, item.status, 0, 0, batch.results + unit.item);
    }
    return;
  }
  auto* workspace = reinterpret_cast<EncodeWorkspace*>(shared->buffers);
  const EncodeResult encoded = SyncEncodeBlock(team, TaskOf(item, unit.block), workspace);
  PlacedBlock placed{unit.block, encoded.payload_bytes / format::kPayloadUnitBytes, 0, CINCH_OK,
                     encoded.hash};
  if (moves) {
    if (team.lane() == 0) {
      StoreRelaxed(state, StateWord(shared->schedule.epoch, BlockStage::kOwn, placed.units));
    }
    __syncwarp();
    PlaceFinder finder = shared->finder;
    const bool found = WarpFindPlace(batch, unit, item.blocks, placed.units, shared->schedule.epoch,
                                     &finder, &placed.place_units);
    if (team.lane() == 0) {
      shared->finder = finder;
      shared->placed = found ? 1 : 0;
      shared->place_units = placed.place_units;
    }
  }
  team.Sync();
  placed.place_units = shared->place_units;
  if (shared->placed == 0) {
    placed.status = CINCH_ERROR_TIMEOUT;
  } else if (!Fits(item, placed)) {
    placed.status = CINCH_ERROR_DESTINATION_TOO_SMALL;
  } else {
    CopyAs<Words4>(team, DestinationOf(item, placed), workspace->payload, encoded.payload_bytes);
  }
  team.Sync();
  if (moves && team.lane() == 0) AccountBlock(batch, shared, turn, placed);
}

/// By all threads: makes the phases ready for a session.
__device__ __forceinline__ void SyncStartSession(EncodeShared* shared) {
  if (threadIdx.x < kBuffers) {
    const Turn turn{0, threadIdx.x, 0};
    InitPhases(PhaseOf(*shared, turn, Phase::kFull), 1);
    InitPhases(PhaseOf(*shared, turn, Phase::kPlanned), 1);
    InitPhases(PhaseOf(*shared, turn, Phase::kTaken), kWorkers);
    InitPhases(PhaseOf(*shared, turn, Phase::kListed), kWorkers);
    InitPhases(PhaseOf(*shared, turn, Phase::kDone), 1);
  }
  if (threadIdx.x == 0) shared->stops = 0;
  __syncthreads();
}

/// By all threads: turns from `turn` on until one that is not for the fast path; returns that one.
__device__ __forceinline__ uint32_t SyncRunSession(const BatchParameters& batch,
                                                   EncodeShared* shared, uint32_t turn) {
  SyncStartSession(shared);
  const uint32_t warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0);
  if (warp < kWorkers) {
    RunWorker(shared, turn);
  } else if (warp == kPlannerWarp) {
    RunPlanner(shared, turn);
  } else if (warp == kFinisherWarp) {
    RunFinisher(batch, shared, turn);
  } else {
    RunMover(batch, shared, turn);
  }
  __syncthreads();
  return shared->last_turn;
}

/// By the mover, once: what it knows at the start.
__device__ __forceinline__ void StartMover(const BatchParameters& batch, bool scans,
                                           EncodeShared* shared) {
  if (threadIdx.x % 32 == 0) {
    shared->finder = {scans, false};
    shared->tally = Tally{};
  }
  MoverState mover{0, 0};
  DrawTicket(batch, &mover);
  ResolveNext(batch, shared, &mover);
  if (threadIdx.x % 32 == 0) shared->mover = mover;
  if (threadIdx.x % 32 == 0) {
    // Dtypes of 8 bits need the room of a buffer for their lists.
    const bool is_wide = shared->schedule.units[0].item == kNoItem ||
                         format::TraitsOf(shared->schedule.items[0].dtype).element_bytes > 1;
    shared->buffer_count = is_wide ? kBuffers : kBuffers - 1;
  }
}

/// The whole launch, by all threads of every thread block.
__device__ __forceinline__ void SyncEncodeBatch(const BatchParameters& batch,
                                                EncodeShared* shared) {
  if (!SyncStartSchedule<true>(batch, &shared->schedule)) return;
  const uint64_t total_units = shared->schedule.total_units;
  // One thread block of many turns sizes into places, unless every item is one block.
  const bool scans = gridDim.x >= kMinScanCtas && total_units > batch.item_count;
  if (scans && blockIdx.x == 0) {
    if (threadIdx.x < 32) {
      WarpScanPlaces(batch.scratch.block_states, total_units, shared->schedule.epoch);
    }
  } else {
    if (threadIdx.x < 256) shared->selectors[threadIdx.x] = CompactSelector(threadIdx.x);
    if (threadIdx.x / 32 == kMoverWarp) StartMover(batch, scans, shared);
    __syncthreads();
    for (uint32_t turn = 0; shared->schedule.units[turn % kRing].item != kNoItem;) {
      turn = SyncRunSession(batch, shared, turn);
      if (shared->schedule.units[turn % kRing].item == kNoItem) break;
      SyncEncodeAlone(batch, shared, turn);
      ++turn;
      __syncthreads();
    }
    if (threadIdx.x / 32 == kMoverWarp) WarpAwaitWrites();
  }
  SyncEndSchedule(batch);
}

}  // namespace cinch::codec::gpu
