// SPDX-License-Identifier: Apache-2.0
/// @file encode_kernel.cuh
/// Compresses a batch: every thread block takes blocks in order, codes each into shared memory,
/// finds its place and copies it there.
#pragma once

#include <cstdint>

#include "codec/gpu/block/encode_block.cuh"
#include "codec/gpu/kernels/errors.cuh"
#include "codec/gpu/kernels/frame_head.cuh"
#include "codec/gpu/kernels/look_back.cuh"
#include "codec/gpu/kernels/progress.cuh"
#include "codec/gpu/kernels/schedule.cuh"
#include "codec/gpu/tuning/tuning.cuh"
#include "codec/gpu/warp/team.cuh"

namespace cinch::codec::gpu {

using EncodeTeam = CtaTeam<kEncodeTuning.threads>;

struct EncodeShared {
  EncodeWorkspace workspace;
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

/// By one thread, after a barrier behind the block's output: counts the block, and finishes the
/// item with its last one.
__device__ __forceinline__ void CountEncodedBlock(const PlanItem& item, const PlacedBlock& placed,
                                                  ItemState* state, cinch_cuda_result* result) {
  if (placed.hash != 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&state->hash_sum),
              static_cast<unsigned long long>(placed.hash));
  }
  if (placed.status != CINCH_OK) {
    atomicMax(
        reinterpret_cast<unsigned long long*>(&state->error_key),
        static_cast<unsigned long long>(ErrorKey(ErrorRank::kBlock, placed.block, placed.status)));
  }
  if (placed.block == item.blocks - 1) {
    StoreRelaxed(&state->total_units, placed.place_units + placed.units);
  }
  // Pairs with the same fence of who counts last: what all blocks wrote is then there.
  __threadfence();
  if (atomicAdd(&state->finished_blocks, 1) != item.blocks - 1) return;
  __threadfence();
  const uint64_t key = LoadRelaxed(&state->error_key);
  const uint64_t payload_bytes =
      uint64_t{LoadRelaxed(&state->total_units)} * format::kPayloadUnitBytes;
  FinishFrame(item, key == 0 ? CINCH_OK : StatusOfKey(key), payload_bytes,
              LoadRelaxed(&state->hash_sum), result);
  *state = {};
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

/// One block from its bytes to its place in the frame. By all threads.
__device__ __forceinline__ void SyncEncodeUnit(const BatchParameters& batch, const Unit& unit,
                                               const PlanItem& item, EncodeShared* shared) {
  const EncodeTeam team;
  cinch_cuda_result* result = batch.results + unit.item;
  if (item.blocks == 0) {
    if (team.thread() == 0) FinishFrame(item, item.status, 0, 0, result);
    return;
  }
  const uint64_t begin = uint64_t{unit.block} * format::kBlockBytes;
  const EncodeTask task{item.input + begin, format::BlockLength(item.input_bytes, unit.block),
                        item.dtype, unit.block, item.checksum != 0};
  const EncodeResult encoded = SyncEncodeBlock(team, task, &shared->workspace);
  PlacedBlock placed{unit.block, encoded.payload_bytes / format::kPayloadUnitBytes, 0, CINCH_OK,
                     encoded.hash};
  uint64_t* states = batch.scratch.block_states + unit.first_unit;
  const uint32_t epoch = shared->schedule.epoch;
  if (team.warp() == 0) {
    uint32_t place_units = 0;
    const bool found = WarpPlace(states, unit.block, placed.units, epoch, &place_units);
    if (team.lane() == 0) {
      shared->placed = found;
      shared->place_units = place_units;
    }
  }
  team.Sync();
  placed.place_units = shared->place_units;
  placed.status =
      shared->placed ? CopyPayload(team, item, placed, shared->workspace) : CINCH_ERROR_TIMEOUT;
  team.Sync();
  if (team.thread() != 0) return;
  ItemState* state = batch.scratch.states + unit.item;
  if (batch.progress != nullptr && placed.status == CINCH_OK) {
    PublishBlock(item, unit.block, epoch, states, state, batch.progress + unit.item);
  }
  CountEncodedBlock(item, placed, state, result);
}

__global__ void __launch_bounds__(kEncodeTuning.threads, kEncodeTuning.min_ctas_per_sm)
    EncodeKernel(const __grid_constant__ BatchParameters batch) {
  extern __shared__ __align__(128) uint8_t shared_bytes[];
  auto* shared = reinterpret_cast<EncodeShared*>(shared_bytes);
  if (!SyncStartSchedule<true>(batch, &shared->schedule)) return;
  Schedule* schedule = &shared->schedule;
  // The last warp takes a unit two turns before it is coded.
  const bool takes = threadIdx.x / 32 == kEncodeTuning.threads / 32 - 1;
  uint32_t ticket = 0;
  if (takes) {
    for (uint32_t turn = 0; turn < 2; ++turn) {
      if (threadIdx.x % 32 == 0) ticket = TakeTicket(batch);
      if (turn == 0) WarpResolve(batch, 0, ticket, schedule);
    }
  }
  for (uint32_t turn = 0;; ++turn) {
    __syncthreads();
    const Unit unit = schedule->units[turn % kRing];
    if (unit.item == kNoItem) break;
    if (takes) {
      WarpResolve(batch, turn + 1, ticket, schedule);
      if (threadIdx.x % 32 == 0) ticket = TakeTicket(batch);
    }
    SyncEncodeUnit(batch, unit, schedule->items[turn % kRing], shared);
  }
  SyncEndSchedule(batch);
}

}  // namespace cinch::codec::gpu
