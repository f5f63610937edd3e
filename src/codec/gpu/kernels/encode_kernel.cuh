// SPDX-License-Identifier: Apache-2.0
/// @file encode_kernel.cuh
/// Compresses a batch. encode_shared.cuh says who does what.
#pragma once

#include <cstdint>

#include "codec/gpu/block/encode_block.cuh"
#include "codec/gpu/kernels/encode_sender.cuh"
#include "codec/gpu/kernels/encode_session.cuh"
#include "codec/gpu/kernels/encode_shared.cuh"
#include "codec/gpu/kernels/place_scan.cuh"
#include "codec/gpu/warp/team.cuh"

namespace cinch::codec::gpu {

using EncodeTeam = CtaTeam<kEncodeTuning.threads>;

/// By all threads: one block that is not for the fast path, or an item without blocks.
__device__ __noinline__ void SyncEncodeAlone(const BatchParameters& batch, EncodeShared* shared,
                                             uint32_t turn) {
  const EncodeTeam team;
  if (team.warp() == kResolverWarp) WarpResolveTo(batch, shared, turn + 1);
  team.Sync();
  const Unit& unit = shared->schedule.units[turn % kRing];
  const PlanItem& item = shared->schedule.items[turn % kRing];
  uint64_t* state = batch.scratch.block_states + unit.first_unit + unit.block;
  const bool sends = team.warp() == kSenderWarp;
  if (item.blocks == 0) {
    if (sends && team.lane() == 0) {
      StoreRelaxed(state, StateWord(shared->schedule.epoch, BlockStage::kOwn, 0));
      FinishFrame(item, item.status, 0, 0, batch.results + unit.item);
    }
    return;
  }
  auto* workspace = reinterpret_cast<EncodeWorkspace*>(shared->stages);
  const EncodeResult encoded = SyncEncodeBlock(team, TaskOf(item, unit.block), workspace);
  PlacedBlock placed{unit.block, encoded.payload_bytes / format::kPayloadUnitBytes, 0, CINCH_OK,
                     encoded.hash};
  if (sends) {
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
  if (sends && team.lane() == 0) AccountBlock(batch, shared, turn, placed);
}

/// By all threads: runs a session, if the turn's block is for one.
__device__ __forceinline__ SessionTurn SyncRunSessionOf(const BatchParameters& batch,
                                                        EncodeShared* shared, uint32_t turn) {
  switch (shared->blocks[turn % kRing].kind) {
    case FastKind::kBf16:
      return SyncRunSession<FastKind::kBf16>(batch, shared, turn);
    case FastKind::kFp16:
      return SyncRunSession<FastKind::kFp16>(batch, shared, turn);
    case FastKind::kFp32:
      return SyncRunSession<FastKind::kFp32>(batch, shared, turn);
    case FastKind::kFp8E4:
      return SyncRunSession<FastKind::kFp8E4>(batch, shared, turn);
    case FastKind::kFp8E5:
      return SyncRunSession<FastKind::kFp8E5>(batch, shared, turn);
    default:
      return {turn, 0};
  }
}

/// By one warp, once: the first turn's unit.
__device__ __forceinline__ void WarpStart(const BatchParameters& batch, bool scans,
                                          EncodeShared* shared) {
  if (threadIdx.x % 32 == 0) {
    shared->finder = {scans, false};
    shared->tally = Tally{};
    shared->guessed_dtype = CINCH_DTYPE_BF16;
    shared->resolved = 0;
    shared->ticket = TakeTicket(batch);
  }
  __syncwarp();
  WarpResolveTo(batch, shared, 0);
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
    if (threadIdx.x / 32 == kResolverWarp) WarpStart(batch, scans, shared);
    __syncthreads();
    for (uint32_t turn = 0; shared->schedule.units[turn % kRing].item != kNoItem;) {
      bool alone = shared->blocks[turn % kRing].kind == FastKind::kNone;
      if (!alone) {
        const SessionTurn last = SyncRunSessionOf(batch, shared, turn);
        turn = last.number;
        const SessionEnd end = shared->end;
        alone = end == SessionEnd::kDeclined;
        if (end != SessionEnd::kCoded) {
          SyncSend(batch, shared, last.last_stage());
        } else {
          SyncEndSession(batch, shared, last.stage, last.odd());
          ++turn;
        }
      }
      if (!alone) continue;
      SyncEncodeAlone(batch, shared, turn);
      ++turn;
      __syncthreads();
    }
    if (threadIdx.x / 32 == kSenderWarp) WarpAwaitWrites();
  }
  SyncEndSchedule(batch);
}

}  // namespace cinch::codec::gpu
