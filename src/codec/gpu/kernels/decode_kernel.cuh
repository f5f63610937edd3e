// SPDX-License-Identifier: Apache-2.0
/// @file decode_kernel.cuh
/// Decompresses a batch of untrusted frames, a block a thread block.
#pragma once

#include <cstdint>

#include "codec/gpu/kernels/block_paths.cuh"
#include "codec/gpu/kernels/errors.cuh"
#include "codec/gpu/kernels/progress.cuh"
#include "codec/gpu/kernels/schedule.cuh"
#include "codec/gpu/tuning/tuning.cuh"
#include "codec/gpu/warp/team.cuh"

namespace cinch::codec::gpu {

using DecodeTeam = CtaTeam<kDecodeTuning.threads>;

struct DecodeShared {
  Workspace workspace;
  Schedule schedule;
};

/// What the index says of a block, and what is wrong with that.
struct IndexEntry {
  uint64_t begin_bytes;
  uint64_t end_bytes;
  uint64_t error_key;  ///< 0: nothing.
};

/// Reads and checks a block's entry. Every block checks its own, so that all blocks together check
/// the index as a decoder does that goes through it first.
__device__ __forceinline__ IndexEntry ReadIndex(const PlanItem& item, uint32_t block) {
  const auto* index = reinterpret_cast<const uint32_t*>(item.input + sizeof(format::FrameHeader));
  IndexEntry entry{};
  if (block != 0) entry.begin_bytes = uint64_t{index[block - 1]} * format::kPayloadUnitBytes;
  entry.end_bytes = uint64_t{index[block]} * format::kPayloadUnitBytes;
  const bool last = block == item.blocks - 1;
  if (entry.begin_bytes >= entry.end_bytes || entry.end_bytes > item.payload_bytes ||
      (last && entry.end_bytes != item.payload_bytes)) {
    entry.error_key = ErrorKey(ErrorRank::kIndex, block, CINCH_ERROR_FRAME_INDEX);
    return entry;
  }
  const uint64_t padded = format::IndexBytes(item.blocks) / 4;
  for (uint64_t i = item.blocks; last && i < padded; ++i) {
    if (index[i] != 0) {
      entry.error_key = ErrorKey(ErrorRank::kPadding, block, CINCH_ERROR_FRAME_RESERVED);
    }
  }
  return entry;
}

/// By one thread: counts the block, and gives the verdict with the item's last one.
__device__ __forceinline__ void CountDecodedBlock(const PlanItem& item, uint64_t error_key,
                                                  uint64_t hash, ItemState* state,
                                                  cinch_cuda_result* result) {
  if (hash != 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&state->hash_sum),
              static_cast<unsigned long long>(hash));
  }
  if (error_key != 0) {
    atomicMax(reinterpret_cast<unsigned long long*>(&state->error_key),
              static_cast<unsigned long long>(error_key));
  }
  // Pairs with the same fence of who counts last: what all blocks added up is then there.
  __threadfence();
  if (atomicAdd(&state->finished_blocks, 1) != item.blocks - 1) return;
  __threadfence();
  const uint64_t key = LoadRelaxed(&state->error_key);
  int32_t status = CINCH_OK;
  if (key != 0) {
    status = StatusOfKey(key);
  } else if (LoadRelaxed(&state->hash_sum) != item.content_hash) {
    status = CINCH_ERROR_FRAME_CHECKSUM;
  }
  *result = {status == CINCH_OK ? item.original_bytes : 0, static_cast<cinch_status>(status), 0};
  *state = {};
}

/// One block from its payload to its place in the output. By all threads.
__device__ __forceinline__ void SyncDecodeUnit(const BatchParameters& batch, const Unit& unit,
                                               const PlanItem& item, DecodeShared* shared) {
  const DecodeTeam team;
  cinch_cuda_result* result = batch.results + unit.item;
  if (item.blocks == 0) {
    if (team.thread() == 0) *result = {0, static_cast<cinch_status>(item.status), 0};
    return;
  }
  const IndexEntry entry = ReadIndex(item, unit.block);
  const uint64_t payload_bytes = entry.end_bytes - entry.begin_bytes;
  uint64_t error_key = entry.error_key;
  uint64_t hash = 0;
  // The frame may change under a careless caller: what was read decides for all threads alike.
  const bool bad = team.SyncAny(error_key != 0);
  if (bad) {
    // Counted below.
  } else if (item.status != CINCH_OK) {
    error_key = ErrorKey(ErrorRank::kDestination, unit.block, item.status);
  } else {
    Status status = CINCH_ERROR_FRAME_BLOCK;
    if (payload_bytes <= format::kMaxBlockPayloadBytes) {
      const DecodeTask task{item.input + format::PayloadOffset(item.blocks) + entry.begin_bytes,
                            static_cast<uint32_t>(payload_bytes),
                            format::BlockLength(item.original_bytes, unit.block), unit.block,
                            item.checksum != 0};
      status = SyncDecodeAnyBlock(team, task, &shared->workspace,
                                  item.output + uint64_t{unit.block} * format::kBlockBytes, &hash);
    }
    if (status != CINCH_OK) error_key = ErrorKey(ErrorRank::kBlock, unit.block, status);
  }
  team.Sync();
  if (team.thread() != 0) return;
  ItemState* state = batch.scratch.states + unit.item;
  if (batch.progress != nullptr && error_key == 0) {
    PublishBlock(item, unit.block, shared->schedule.epoch,
                 batch.scratch.block_states + unit.first_unit, state, batch.progress + unit.item);
  }
  CountDecodedBlock(item, error_key, hash, state, result);
}

__global__ void __launch_bounds__(kDecodeTuning.threads, kDecodeTuning.min_ctas_per_sm)
    DecodeKernel(const __grid_constant__ BatchParameters batch) {
  extern __shared__ __align__(128) uint8_t shared_bytes[];
  auto* shared = reinterpret_cast<DecodeShared*>(shared_bytes);
  if (!SyncStartSchedule<false>(batch, &shared->schedule)) return;
  for (uint32_t turn = 0;; ++turn) {
    const Unit unit = SyncNextUnit(batch, turn, &shared->schedule);
    if (unit.item == kNoItem) break;
    SyncDecodeUnit(batch, unit, shared->schedule.items[turn % 2], shared);
  }
  SyncEndSchedule(batch);
}

}  // namespace cinch::codec::gpu
